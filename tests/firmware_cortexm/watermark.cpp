// For every byte received: recurses that deep with frames written to the full, or allocates 1000 bytes if it is 255;
// then reports the peaks of stack and heap.
#include <stdlib.h>

#include "report.hpp"

namespace {
volatile int command = -1;
}

extern "C" void hil_on_byte(uint8_t byte) { command = byte; }

__attribute__((noinline)) uint32_t dive(int depth) {
    volatile uint32_t frame[16];
    for (uint32_t i = 0; i < 16; ++i) frame[i] = i + static_cast<uint32_t>(depth);
    const uint32_t below = depth > 0 ? dive(depth - 1) : 0;
    return below + frame[depth & 15];
}

volatile uint32_t result;
void *volatile block;

int main() {
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    for (;;) {
        while (command < 0) {
        }
        hal::rx_enable(false);
        if (command == 255)
            block = malloc(1000);
        else
            result = dive(command);
        put_u32(hal::stack_peak_bytes());
        put_u32(hal::heap_peak_bytes());
        command = -1;
        hal::rx_enable(true);
    }
}

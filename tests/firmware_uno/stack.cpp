// Recursion to DEPTH calls; the HAL's watermark after it.
#include "firmware/hal/hal.hpp"

#include "print.hpp"

extern "C" void hil_on_byte(uint8_t) {}

__attribute__((noinline)) static uint16_t descend(uint16_t depth) {
    volatile uint8_t frame[20];
    for (uint8_t i = 0; i < sizeof frame; ++i) frame[i] = depth + i;
    return depth == 0 ? frame[0] : descend(depth - 1) + frame[depth % sizeof frame];
}

int main() {
    hal::init();
    print_init();
    wait_for_host();
    volatile uint16_t depth = DEPTH;
    print_number(descend(depth));
    print_number(hal::stack_peak_bytes());
    print_number(hal::heap_peak_bytes());
    print_char('\n');
    print_end();
}

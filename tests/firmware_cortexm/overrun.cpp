// Leaves the receive interrupt off while the host sends, then reports what was received and overrun.
#include "report.hpp"

namespace {
volatile uint32_t bytes;
}

extern "C" void hil_on_byte(uint8_t) { bytes = bytes + 1; }

int main() {
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    while (bytes == 0) {
    }
    hal::rx_enable(false);
    for (volatile uint32_t i = 0; i < 200000; i = i + 1) {
    }
    hal::rx_enable(true);
    for (volatile uint32_t i = 0; i < 1000; i = i + 1) {
    }
    put_u32(bytes);
    put_u32(hal::rx_overruns());
    for (;;) {
    }
}

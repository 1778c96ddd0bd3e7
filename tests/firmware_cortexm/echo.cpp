// Announces itself, then returns every byte.
#include "firmware/hal/hal.hpp"

namespace {
constexpr uint16_t MASK = 4095;
volatile uint8_t ring[MASK + 1];
volatile uint16_t written, taken;
}  // namespace

extern "C" void hil_on_byte(uint8_t byte) {
    ring[written & MASK] = byte;
    written = written + 1;
}

int main() {
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    for (;;) {
        while (written == taken) {
        }
        const uint8_t byte = ring[taken & MASK];
        taken = taken + 1;
        hal::put(byte);
    }
}

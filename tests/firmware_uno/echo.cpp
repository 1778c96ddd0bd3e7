// Echoes every byte through the HAL, received by interrupt.
#include "firmware/hal/hal.hpp"

static volatile uint8_t last;
static volatile bool fresh;

extern "C" void hil_on_byte(uint8_t byte) {
    last = byte;
    fresh = true;
}

int main() {
    hal::init();
    hal::rx_enable(true);
    for (;;) {
        while (!fresh) {
        }
        fresh = false;
        hal::put(last);
    }
}

// Echoes through the HAL, asleep between bytes.
#include "firmware/hal/hal.hpp"

#include <avr/interrupt.h>
#include <avr/sleep.h>

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
        cli();
        while (!fresh) {
            sleep_enable();
            sei();
            sleep_cpu();
            cli();
        }
        fresh = false;
        sei();
        hal::put(last);
    }
}

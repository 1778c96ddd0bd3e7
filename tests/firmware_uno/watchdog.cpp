// Turns the watchdog on for 16 ms and waits: the start-up of the HAL must have turned it off after that reset.
#include "firmware/hal/hal.hpp"

#include <avr/io.h>
#include <avr/wdt.h>
#include <util/delay.h>

#include "print.hpp"

extern "C" void hil_on_byte(uint8_t) {}

static volatile uint8_t boots __attribute__((section(".noinit")));

int main() {
    hal::init();
    print_init();
    if (boots != 0x5A) {
        wait_for_host();
        boots = 0x5A;
        wdt_enable(WDTO_15MS);
        for (;;) {
        }
    }
    _delay_ms(100);
    boots = 0;
    print_flash(PSTR("alive\n"));
    print_end();
}

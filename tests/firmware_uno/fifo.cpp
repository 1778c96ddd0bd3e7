// Leaves bytes unread for ten frames after the first has come, then shows what the receiver held: `dor byte` for each,
// and what the HAL's interrupt counted when the same happened to it.
#include "firmware/hal/hal.hpp"

#include <avr/io.h>
#include <util/delay.h>

#include "print.hpp"

static volatile uint8_t received;

extern "C" void hil_on_byte(uint8_t) { received = received + 1; }

static void put_digit(uint8_t digit) { hal::put('0' + digit); }

int main() {
    hal::init();
    wait_for_host();
    hal::put('?');
    while (!(UCSR0A & 1 << RXC0)) {
    }
    _delay_us(10 * 87);
    while (UCSR0A & 1 << RXC0) {
        bool overrun = UCSR0A & 1 << DOR0;
        put_digit(overrun);
        hal::put(UDR0);
    }
    hal::put('!');
    while (!(UCSR0A & 1 << RXC0)) {
    }
    _delay_us(10 * 87);
    hal::rx_enable(true);
    _delay_us(87);
    put_digit(received);
    put_digit(hal::rx_overruns());
    hal::put('\n');
    for (;;) {
    }
}

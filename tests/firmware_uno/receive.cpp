// Prints the cycles between the first and the last of 21 bytes, at 115200 baud and received by polling.
#include "firmware/hal/hal.hpp"

#include <avr/io.h>

#include "print.hpp"

extern "C" void hil_on_byte(uint8_t) {}

static void receive() {
    while (!(UCSR0A & 1 << RXC0)) {
    }
    (void)UDR0;
}

int main() {
    hal::init();
    wait_for_host();
    hal::put('?');
    receive();
    uint16_t start = TCNT1;
    for (uint8_t i = 0; i < 20; ++i) receive();
    uint16_t ticks = TCNT1 - start;
    print_init();
    print_number(ticks);
    print_char('\n');
    print_end();
}

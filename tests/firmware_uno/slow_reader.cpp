// Adds up 2000 bytes, each only after a long pause.
#include <util/delay.h>

#include "print.hpp"

int main() {
    print_init();
    wait_for_host();
    print_char('?');
    uint16_t sum = 0;
    for (uint16_t i = 0; i < 2000; ++i) {
        _delay_us(50);
        while (!(UCSR0A & 1 << RXC0)) {
        }
        sum = 31 * sum + UDR0;
    }
    print_number(sum);
    print_char('\n');
    print_end();
}

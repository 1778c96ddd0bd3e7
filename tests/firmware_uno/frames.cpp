// Prints the cycles of FRAMES frames sent back to back at the settings of the build.
#include <avr/io.h>

#include "print.hpp"

static void wait_for_room() {
    while (!(UCSR0A & 1 << UDRE0)) {
    }
}

static void send_and_finish(uint8_t byte) {
    UCSR0A |= 1 << TXC0;
    UDR0 = byte;
    while (!(UCSR0A & 1 << TXC0)) {
    }
}

int main() {
    print_init();
    wait_for_host();
#if U2X_FIRST
    UCSR0A = U2X_BITS;
    UBRR0 = UBRR_VALUE;
#else
    UBRR0 = UBRR_VALUE;
    UCSR0A = U2X_BITS;
#endif
    UCSR0C = FRAME_BITS;
    UCSR0B = 1 << TXEN0;
    TCCR1B = 1 << CS10;
    UDR0 = '.';
    wait_for_room();
    UDR0 = '.';
    wait_for_room();
    uint16_t start = TCNT1;
    for (uint8_t i = 0; i < FRAMES; ++i) {
        UDR0 = '.';
        wait_for_room();
    }
    uint16_t ticks = TCNT1 - start;
    wait_for_room();
    send_and_finish('\n');
    print_init();
    print_number(ticks);
    print_char('\n');
    print_end();
}

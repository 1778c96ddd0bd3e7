// Text over USART0, polled.
#pragma once
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <stdint.h>

inline void print_init() {
    UBRR0 = 0;
    UCSR0A = 1 << U2X0;
    UCSR0C = 1 << UCSZ01 | 1 << UCSZ00;
    UCSR0B = 1 << RXEN0 | 1 << TXEN0;
}

// The host sends a byte once its port is open: nothing printed after it is lost.
inline void wait_for_host() {
    while (!(UCSR0A & 1 << RXC0)) {
    }
    (void)UDR0;
}

__attribute__((noinline)) inline void print_char(char c) {
    while (!(UCSR0A & 1 << UDRE0)) {
    }
    UDR0 = c;
}

__attribute__((noinline)) inline void print_flash(const char *text) {
    while (char c = pgm_read_byte(text++)) print_char(c);
}

__attribute__((noinline)) inline void print_number(uint32_t value) {
    char digits[10];
    uint8_t count = 0;
    do digits[count++] = '0' + value % 10;
    while (value /= 10);
    print_char(' ');
    while (count) print_char(digits[--count]);
}

// The host stops reading a run's output at this line.
[[noreturn]] inline void print_end() {
    print_flash(PSTR("END\n"));
    for (;;) {
    }
}

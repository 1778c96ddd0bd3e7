/* The engine by hand as an image for an Uno: its ATmega328P, the serial port by polling. */
#include "firmware/bench/hil_bench.h"
#include <avr/io.h>

HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")

static void put(uint8_t byte) {
    while (!(UCSR0A & 1 << UDRE0)) {}
    UDR0 = byte;
}

static int get(void) { return UCSR0A & 1 << RXC0 ? UDR0 : -1; }

static uint32_t ticks(void) { return TCNT1; } /* 16 bits are enough for this one */

extern uint8_t __heap_start;

int main(void) {
    static const uint16_t stack_top = RAMEND + 1;
    struct hil_bench bench = {
        .clock_hz = F_CPU, .sample_bytes = 8, .output_bytes = 6, .get = get, .put = put, .ticks = ticks};
    bench.stack_low = &__heap_start;
    bench.stack_top = (uint8_t *)stack_top;
    UBRR0 = 16; /* 115200 Bd at double speed */
    UCSR0A = 1 << U2X0;
    UCSR0B = 1 << RXEN0 | 1 << TXEN0;
    TCCR1B = 1;
    hil_bench_serve(&bench);
}

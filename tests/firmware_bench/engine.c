/* An engine by hand: a dense layer of integers; ALONE: on an ATmega328P, with the serial port by polling. */
#include "firmware/bench/hil_bench.h"
#ifdef ALONE
#include <avr/io.h>
#endif

enum { INPUTS = 8, OUTPUTS = 3 };
/* real = 0.5 * (code - 3) in, 0.25 * code out */
#ifdef ALONE
HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")
#endif

static const int8_t weights[OUTPUTS][INPUTS] = {{1, -2, 3, -4, 5, -6, 7, -8}, {2, 0, 2, 0, 2, 0, 2, 0}, {-1, 1, -1, 1, -1, 1, -1, 1}};
static const int16_t bias[OUTPUTS] = {4, -8, 1}; /* quarters */
static int8_t input[INPUTS];
static int16_t output[OUTPUTS];

void hil_engine_init(void) {
#ifdef FAILS_TO_BEGIN
    __builtin_trap();
#endif
}
void *hil_engine_input(void) { return input; }
const void *hil_engine_output(void) { return output; }

#ifdef ALONE
static void put(uint8_t byte) {
    while (!(UCSR0A & 1 << UDRE0)) {}
    UDR0 = byte;
}
#elif defined(BABBLES) /* behind the back of the firmware: a Due's UART, its state and what it sends */
static void put(uint8_t byte) {
    volatile uint32_t *const uart = (uint32_t *)0x400E0800;
    while (!(uart[5] & 2)) {}
    uart[7] = byte;
}
#endif

void hil_engine_invoke(void) {
    for (uint8_t o = 0; o < OUTPUTS; ++o) {
        int16_t sum = bias[o];
        for (uint8_t i = 0; i < INPUTS; ++i) sum += 2 * weights[o][i] * (input[i] - 3);
        output[o] = sum;
    }
#ifdef NEVER_ANSWERS
    for (;;) {}
#endif
#ifdef OVERWRITES_MEMORY
    for (volatile uint8_t *at = (uint8_t *)output;; ++at) *at = 0xEE;
#endif
#ifdef BABBLES
    for (;;) put('x');
#endif
#ifdef STARTS_AGAIN
    ((void (*)(void))0)();
#endif
}

#ifdef ALONE
static int get(void) { return UCSR0A & 1 << RXC0 ? UDR0 : -1; }

static uint32_t ticks(void) { return TCNT1; } /* 16 bits are enough for this one */

extern uint8_t __heap_start;

int main(void) {
    static const uint16_t stack_top = RAMEND + 1;
    struct hil_bench bench = {
        .clock_hz = F_CPU, .sample_bytes = sizeof input, .output_bytes = sizeof output, .get = get, .put = put, .ticks = ticks};
    bench.stack_low = &__heap_start;
    bench.stack_top = (uint8_t *)stack_top;
    UBRR0 = 16; /* 115200 Bd at double speed */
    UCSR0A = 1 << U2X0;
    UCSR0B = 1 << RXEN0 | 1 << TXEN0;
    TCCR1B = 1;
    hil_bench_serve(&bench);
}
#endif

/* An engine by hand: a dense layer of integers. What it does wrong is asked for by a macro; an image of it is uno.c with this. */
#include "firmware/bench/hil_bench.h"

enum { INPUTS = 8, OUTPUTS = 3 };
/* real = 0.5 * (code - 3) in, 0.25 * code out */

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

#ifdef BABBLES /* behind the back of the firmware: how ready a port is to send, and what it sends */
#ifdef __AVR__
#define READY (*(volatile uint8_t *)0xC0 & 1 << 5)
#define SENT (*(volatile uint8_t *)0xC6)
#else /* a Due's UART */
#define READY (((volatile uint32_t *)0x400E0800)[5] & 2)
#define SENT (((volatile uint32_t *)0x400E0800)[7])
#endif
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
    for (;;) {
        while (!READY) {}
        SENT = 'x';
    }
#endif
#ifdef STARTS_AGAIN
    ((void (*)(void))0)();
#endif
}

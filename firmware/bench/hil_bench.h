/* A firmware that `hil run --firmware image.elf` measures as it measures its own: add this header and hil_bench.c to a
 * project (Arduino, Zephyr, STM32Cube, pico-sdk, bare metal), write the four functions of an engine and three of a serial
 * port, call hil_bench_serve(). C99, no heap, no interrupt; docs/engines.md has an example. */
#ifndef HIL_BENCH_H
#define HIL_BENCH_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The engine: four functions. Bytes of a sample are received where input() says, aligned as the engine needs them, and
 * those of a result are taken from where output() says. invoke() alone is timed. */
void hil_engine_init(void);
void *hil_engine_input(void);
void hil_engine_invoke(void);
const void *hil_engine_output(void);

struct hil_bench {
    uint32_t clock_hz;      /* of the ticks */
    uint32_t sample_bytes;  /* of one input, all of it */
    uint16_t output_bytes;
    int (*get)(void);         /* the next byte received, -1 if there is none */
    void (*put)(uint8_t);     /* sends a byte; may wait */
    uint32_t (*ticks)(void);  /* never stands still, goes round after 2^32 */
    /* Free memory below the stack, painted here; its peak is known then. NULL: not measured. */
    uint8_t *stack_low, *stack_top;
};

/* Talks to the host for ever, 8N1 at the board's baud rate. */
void hil_bench_serve(const struct hil_bench *bench);

/* What the image tells of itself, as text: words KEY=VALUE between semicolons, once in one source of the project.
 *   engine, version    who computes
 *   input, output      float32, or int8|uint8|int16 SCALE ZERO_POINT: real = scale * (code - zero point)
 *   arena              bytes of the engine's working memory, inside of the static data
 *   model              its name
 * What is not said stays empty in records. */
#ifdef __AVR__
#define HIL_BENCH_TEXT __attribute__((used, section(".progmem.hil_bench_card")))
#else
#define HIL_BENCH_TEXT __attribute__((used))
#endif
#define HIL_BENCH_CARD(text) \
    extern const volatile char hil_bench_card[]; \
    const volatile char hil_bench_card[] HIL_BENCH_TEXT = text;

#ifdef __cplusplus
}
#endif
#endif

/* The engine by hand as an image for a NUCLEO-L4R5ZI: as it is after a reset, 4 MHz, its LPUART1 by polling. Registers: RM0432. */
#include "firmware/bench/hil_bench.h"

#define REG(address) (*(volatile uint32_t *)(address))
enum { CLOCK_HZ = 4000000, BAUD = 115200, INPUT_BYTES = 8, OUTPUT_BYTES = 6 };
enum { LPUART_CR1 = 0x40008000, LPUART_BRR = 0x4000800C, LPUART_ISR = 0x4000801C, LPUART_RDR = 0x40008024, LPUART_TDR = 0x40008028 };

HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")

extern uint8_t data_load[], data_start[], data_end[], bss_end[], stack_top[];

static int get(void) { return REG(LPUART_ISR) & 1 << 5 ? (int)REG(LPUART_RDR) : -1; }

static void put(uint8_t byte) {
    while (!(REG(LPUART_ISR) & 1 << 7)) {}
    REG(LPUART_TDR) = byte;
}

static uint32_t ticks(void) { return REG(0xE0001004); } /* DWT_CYCCNT */

static void start_uart(void) {
    REG(0x40021058) |= 1u << 28;                               /* RCC_APB1ENR1: PWR */
    REG(0x40007004) |= 1u << 9;                                /* PWR_CR2: port G has its supply */
    REG(0x4002104C) |= 1u << 6;                                /* RCC_AHB2ENR: port G */
    REG(0x4002105C) |= 1u;                                     /* RCC_APB1ENR2: LPUART1, of the system's clock */
    REG(0x40021088) = (REG(0x40021088) & ~(3u << 10)) | 1u << 10; /* RCC_CCIPR */
    REG(0x48001820) = (REG(0x48001820) & ~(15u << 28)) | 8u << 28; /* GPIOG_AFRL: PG7 sends */
    REG(0x48001824) = (REG(0x48001824) & ~15u) | 8u;           /* GPIOG_AFRH: PG8 receives */
    REG(0x48001800) = (REG(0x48001800) & ~(15u << 14)) | 10u << 14;
    REG(LPUART_BRR) = (uint32_t)((256ULL * CLOCK_HZ + BAUD / 2) / BAUD);
    REG(LPUART_CR1) = 1u << 0 | 1u << 2 | 1u << 3;
}

static void serve(void) {
    struct hil_bench bench = {.clock_hz = CLOCK_HZ, .sample_bytes = INPUT_BYTES, .output_bytes = OUTPUT_BYTES, .get = get, .put = put};
    bench.ticks = ticks;
    bench.stack_low = bss_end;
    bench.stack_top = stack_top;
    REG(0xE000EDFC) |= 1u << 24; /* DEMCR: the counter of cycles */
    REG(0xE0001000) |= 1u;
    start_uart();
    hil_bench_serve(&bench);
}

void start(void) {
    const uint8_t *from = data_load;
    uint8_t *to = data_start;
    while (to < data_end) *to++ = *from++;
    while (to < bss_end) *to++ = 0;
    serve();
}

static void stop(void) {
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {stack_top, start, stop, stop, stop, stop, stop};

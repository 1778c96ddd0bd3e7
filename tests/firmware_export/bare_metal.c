/* A C application without any runtime of ours: vectors, start-up, a polled UART, main. Samples in, results out. */
#include "app_model.h"

#define REG(address) (*(volatile uint32_t *)(address))
extern uint32_t _estack, _sidata, _sdata, _edata, _sbss, _ebss;
int main(void);

#ifdef BOARD_DUE
static void uart_init(void) {
    REG(0x400E1A54) = 1u << 15;  /* watchdog off */
    REG(0x400E0610) = (1u << 8) | (1u << 11);
    REG(0x400E0E04) = 3u << 8;   /* PA8, PA9 to the UART */
    REG(0x400E0804) = 4u << 9;   /* no parity */
    REG(0x400E0820) = 2;
    REG(0x400E0800) = (1u << 4) | (1u << 6);
}
static uint8_t get(void) {
    while (!(REG(0x400E0814) & 1)) {
    }
    return (uint8_t)REG(0x400E0818);
}
static void put(uint8_t byte) {
    while (!(REG(0x400E0814) & 2)) {
    }
    REG(0x400E081C) = byte;
}
#else
static void caches_on(void) {
    uint32_t at;
    REG(0xE000EF50) = 0; /* nothing is in them */
    for (at = 0; at < 4 * 128; ++at) REG(0xE000EF60) = (at & 3) << 30 | (at >> 2) << 5;
    __asm__ volatile("dsb\nisb");
    REG(0xE000ED14) |= 3u << 16;
    __asm__ volatile("dsb\nisb");
}
static void uart_init(void) {
    REG(0xE000ED88) |= 0xFu << 20; /* FPU on */
    __asm__ volatile("dsb\nisb");
    caches_on();
    REG(0x580244E0) |= 1u;         /* GPIOA */
    REG(0x580244F0) |= 1u << 4;    /* USART1 */
    REG(0x58020000) = (REG(0x58020000) & ~(0xFu << 18)) | (0xAu << 18);
    REG(0x58020024) = (REG(0x58020024) & ~(0xFFu << 4)) | (0x77u << 4);
    REG(0x4001100C) = 64000000 / 115200;
    REG(0x40011000) = 1u | (1u << 2) | (1u << 3);
}
static uint8_t get(void) {
    while (!(REG(0x4001101C) & (1u << 5))) {
    }
    return (uint8_t)REG(0x40011024);
}
static void put(uint8_t byte) {
    while (!(REG(0x4001101C) & (1u << 7))) {
    }
    REG(0x40011028) = byte;
}
#endif

static MODEL(_input) sample[MODEL_INPUTS];
static MODEL(_output) result[MODEL_OUTPUTS];

int main(void) {
    uint32_t n, cycles;
    uart_init();
    REG(0xE000EDFC) |= 1u << 24; /* the cycle counter */
    REG(0xE0001000) |= 1u;
    for (;;) {
        put('R');
        for (n = 0; n < sizeof sample; ++n) ((uint8_t *)sample)[n] = get();
        cycles = REG(0xE0001004);
        n = (uint32_t)MODEL(_run)(sample, result);
        cycles = REG(0xE0001004) - cycles;
        put('=');
        put((uint8_t)n);
        for (n = 0; n < sizeof result; ++n) put(((const uint8_t *)result)[n]);
        for (n = 0; n < 4; ++n) put((uint8_t)(cycles >> (8 * n)));
    }
}

void reset_handler(void) {
    uint32_t *from = &_sidata, *to = &_sdata;
    while (to < &_edata) *to++ = *from++;
    for (to = &_sbss; to < &_ebss;) *to++ = 0;
    main();
    for (;;) {
    }
}

__attribute__((section(".isr_vector"), used)) static void *const vectors[2] = {&_estack, (void *)reset_handler};

/* STM32G0B1, U575 and U385 for firmware that is not ours. Registers: RM0444, RM0456, CMSIS' stm32u385xx.h. */
#include "foreign.h"

enum { HSI16 = 16000000, CR_ICACHE = 0x40030400, U_FLASH = 0x40022000 };

/* --- STM32G0B1 --- */

enum { G0_RCC = 0x40021000, G0_FLASH = 0x40022000, G0_PWR = 0x40007000, ACR_PREFETCH = 1 << 8, ACR_CACHE = 1 << 9 };

static uint32_t g0_clock_hz(void) {
    const uint32_t c = foreign_peek(G0_RCC + 0x0C), source = foreign_field(G0_RCC + 8, 0, 3);
    const uint32_t input = (c & 3) == 2 ? HSI16 : 8000000;
    const uint32_t pll = (uint32_t)((uint64_t)input / ((c >> 4 & 7) + 1) * (c >> 8 & 127) / ((c >> 29) + 1));
    const uint32_t hz = source == 0 ? (uint32_t)HSI16 >> foreign_field(G0_RCC, 11, 3) : source == 1 ? 8000000 : pll;
    return foreign_ahb_divided(hz, foreign_field(G0_RCC + 8, 8, 4));
}

static uint32_t g0_timer_hz(bool apb2) {
    (void)apb2; /* there is one bus */
    return foreign_apb_timer_hz(g0_clock_hz(), foreign_field(G0_RCC + 8, 12, 3));
}

static const struct peripheral g0_peripherals[] = {
    {0x40000000, TIMER, 0}, {0x40000400, TIMER, 0}, {0x40000800, TIMER, 0}, {0x40001000, TIMER, 0},
    {0x40001400, TIMER, 0}, {0x40002000, TIMER, 0}, {0x40012C00, TIMER, 0}, {0x40014000, TIMER, 0},
    {0x40014400, TIMER, 0}, {0x40014800, TIMER, 0},
    {0x40004400, USART, 28}, {0x40004800, USART, 29}, {0x40008000, USART, 29}, {0x40013800, USART, 27},
    {G0_PWR, KEEP, 0}, {0x40010000, KEEP, 0}, {G0_RCC, KEEP, 0}, {0x40021800, KEEP, 0}, {G0_FLASH, KEEP, 0},
    {0x40023000, CRC_UNIT, 0},
    {0x50000000, KEEP, 0}, {0x50000400, KEEP, 0}, {0x50000800, KEEP, 0}, {0x50000C00, KEEP, 0}, {0x50001000, KEEP, 0},
    {0x50001400, KEEP, 0}, {0, KEEP, 0},
};

static void g0_on_write(struct machine *m, uint32_t addr, uint32_t value) {
    if (addr != G0_FLASH) return;
    m->prefetch.ahead = value & ACR_PREFETCH;
    m->prefetch.caches = value & ACR_CACHE;
}

static const struct family g0 = {
    .peripherals = g0_peripherals,
    .ready = {{G0_RCC, 0, 0, 1 << 8, 1 << 10}, {G0_RCC, 0, 0, 1 << 16, 1 << 17}, {G0_RCC, 0, 0, 1 << 24, 1 << 25},
              {G0_RCC, 0x5C, 0x5C, 1 << 0, 1 << 1}, {G0_RCC, 0x60, 0x60, 1 << 0, 1 << 1}, {G0_PWR, 0x14, 0, 0, 3 << 8}},
    .rcc = G0_RCC, .flash = G0_FLASH, .source_offset = 0x08, .source_mask = 7, .source_shift = 3,
    .resets = {{G0_FLASH, 0x00040600}, {G0_RCC, 0x500}, {G0_PWR, 0x208}},
    .clock_hz = g0_clock_hz, .timer_hz = g0_timer_hz, .on_write = g0_on_write,
};

static void map_g0(struct machine *m) { foreign_map(m, &g0); }

const struct chip stm32g0b1_foreign = {
    .name = "stm32g0b1-foreign", .cpu_model = UC_CPU_ARM_CORTEX_M0, .core = CORTEX_M0PLUS,
    .flash_base = 0x08000000, .flash_size_bytes = 512 << 10, .flash_mirror = 0,
    .rams = {{0x20000000, 144 << 10, 0}},
    .timing = {.read_shift = 3},
    .map_peripherals = map_g0, .reset = foreign_reset, .requested_irq = foreign_irq,
    .uart_pins_connected = foreign_pins_connected, .clock_hz = g0_clock_hz, .boots_rom = foreign_never_rom,
};

/* --- STM32U575 and U385: the same cache --- */

static void icache_on_write(struct machine *m, uint32_t addr, uint32_t value) {
    if (addr != CR_ICACHE) return;
    m->icache_on = value & 1;
    m->m33_ways = value & 4 ? 2 : 1;
    ++m->fills;
}

/* Timers and USARTs at the same places in U5 and U3. */
#define COMMON_OF_U5_AND_U3 \
    {0x40000000, TIMER, 0}, {0x40000400, TIMER, 0}, {0x40000800, TIMER, 0}, {0x40000C00, TIMER, 0}, \
    {0x40001000, TIMER, 0}, {0x40001400, TIMER, 0}, {0x40012C00, TIMER, 0}, {0x40013400, TIMER, 0}, \
    {0x40014000, TIMER, 0}, {0x40014400, TIMER, 0}, {0x40014800, TIMER, 0}, \
    {0x40013800, USART, 61}, {0x40004400, USART, 62}, {0x40004800, USART, 63}, {0x40004C00, USART, 64}, \
    {0x40005000, USART, 65}, {U_FLASH, KEEP, 0}, {CR_ICACHE, KEEP, 0}, {0x40023000, CRC_UNIT, 0}, \
    {0x42020000, KEEP, 0}, {0x42020400, KEEP, 0}, {0x42020800, KEEP, 0}, {0x42020C00, KEEP, 0}, \
    {0x42021000, KEEP, 0}, {0x42021400, KEEP, 0}, {0x42021800, KEEP, 0}, {0x42021C00, KEEP, 0}, {0x42022000, KEEP, 0}

enum { U5_RCC = 0x46020C00, U5_PWR = 0x46020800, U5_USB = 0x42040000, DCACHE1 = 0x40031400, MSIRGSEL = 1 << 23 };

static uint32_t u5_msis_hz(void) {
    static const uint32_t khz[16] = {48000, 24000, 16000, 12000, 4000, 2000, 1330, 1000, 3072, 1536, 1024, 768, 400, 200, 133, 100};
    const uint32_t c = foreign_peek(U5_RCC + 0x08);
    return 1000 * khz[c & MSIRGSEL ? c >> 28 : 4];
}

static uint32_t u5_clock_hz(void) {
    const uint32_t c = foreign_peek(U5_RCC + 0x28), factors = foreign_peek(U5_RCC + 0x34);
    const uint32_t input = (c & 3) == 1 ? u5_msis_hz() : HSI16, source = foreign_field(U5_RCC + 0x1C, 0, 2);
    const uint32_t pll = (uint32_t)((uint64_t)input / ((c >> 8 & 15) + 1) * ((factors & 511) + 1) / ((factors >> 24 & 127) + 1));
    return foreign_ahb_divided(source == 0 ? u5_msis_hz() : source == 1 ? HSI16 : pll, foreign_field(U5_RCC + 0x20, 0, 4));
}

static uint32_t u5_timer_hz(bool apb2) {
    return foreign_apb_timer_hz(u5_clock_hz(), foreign_field(U5_RCC + 0x20, apb2 ? 8 : 4, 3));
}

static const struct peripheral u5_peripherals[] = {
    COMMON_OF_U5_AND_U3,
    {0x46002400, USART, 66}, {U5_RCC, KEEP, 0}, {U5_PWR, KEEP, 0}, {0x46000400, KEEP, 0}, {0x46020000, KEEP, 0},
    {0x46022000, KEEP, 0}, {0x42028000, KEEP, 0}, {DCACHE1, KEEP, 0}, {U5_USB, KEEP, 0}, {0x42040800, KEEP, 0}, {0x42040C00, KEEP, 0},
    {0, KEEP, 0},
};

static const struct family u5 = {
    .peripherals = u5_peripherals,
    .ready = {{U5_RCC, 0, 0, 1 << 0, 1 << 2}, {U5_RCC, 0, 0, 1 << 4, 1 << 5}, {U5_RCC, 0, 0, 1 << 8, 1 << 10},
              {U5_RCC, 0, 0, 1 << 12, 1 << 13}, {U5_RCC, 0, 0, 1 << 16, 1 << 17}, {U5_RCC, 0, 0, 1 << 24, 1 << 25},
              {U5_RCC, 0xF0, 0xF0, 1 << 0, 1 << 1}, {U5_PWR, 0x0C, 0, 0, 1 << 15}, {U5_PWR, 0x0C, 0x0C, 1 << 18, 1 << 14},
              {U5_PWR, 0x3C, 0, 0, 1 << 15}, {U5_PWR, 0x3C, 0x08, 1 << 1, 1 << 1}, {U5_PWR, 0x3C, 0x0C, 1 << 16, 1 << 16},
              {U5_PWR, 0x3C, 0x0C, 1 << 17, 1 << 17}, {CR_ICACHE, 4, 0, 0, 1 << 1}, {U5_USB, 0x10, 0, 0, 1u << 31},
              {U5_USB, 0x10, 0x10, 1 << 30, 0x3F}}, /* resets and flushes of the USB end at once */
    .rcc = U5_RCC, .flash = U_FLASH, .source_offset = 0x1C, .source_mask = 3, .source_shift = 2,
    .resets = {{U5_RCC, 0x35}, {U5_RCC + 8, 0x44000000}, {U5_RCC + 0xF4, 0x0C004400}, {U_FLASH, 1}, {CR_ICACHE, 4}},
    .clock_hz = u5_clock_hz, .timer_hz = u5_timer_hz, .on_write = icache_on_write,
};

static void map_u5(struct machine *m) { foreign_map(m, &u5); }

const struct chip stm32u575_foreign = {
    .name = "stm32u575-foreign", .cpu_model = UC_CPU_ARM_CORTEX_M33, .core = CORTEX_M33,
    .flash_base = 0x08000000, .flash_size_bytes = 2 << 20, .flash_mirror = 0x08000000,
    .rams = {{0x20000000, 768 << 10, 0}, {0x28000000, 16 << 10, 0}, {0x0BFA0000, 4 << 10, 0}},
    .timing = {.read_shift = 4, .icache_bytes = 8 << 10},
    .map_peripherals = map_u5, .reset = foreign_reset, .requested_irq = foreign_irq,
    .uart_pins_connected = foreign_pins_connected, .clock_hz = u5_clock_hz, .boots_rom = foreign_never_rom,
};

enum { U3_RCC = 0x40030C00, U3_PWR = 0x40030800, MSI96 = 96000000, MSI12 = 12000000 };

/* MSIRC0 or a half, a quarter, an eighth of it; neither of PLL, external clock and MSIRC1 is used by an image. */
static uint32_t u3_clock_hz(void) {
    const uint32_t c = foreign_peek(U3_RCC + 0x08), source = foreign_field(U3_RCC + 0x1C, 0, 2);
    const uint32_t msis = c & MSIRGSEL ? (uint32_t)MSI96 >> (c >> 29 & 3) : MSI12;
    return foreign_ahb_divided(source == 1 ? HSI16 : msis, foreign_field(U3_RCC + 0x20, 0, 4));
}

static uint32_t u3_timer_hz(bool apb2) {
    return foreign_apb_timer_hz(u3_clock_hz(), foreign_field(U3_RCC + 0x20, apb2 ? 8 : 4, 3));
}

static const struct peripheral u3_peripherals[] = {
    COMMON_OF_U5_AND_U3, {0x40042400, USART, 66}, {U3_RCC, KEEP, 0}, {U3_PWR, KEEP, 0}, {0x40040400, KEEP, 0},
    {0x40032000, KEEP, 0}, {0, KEEP, 0},
};

static const struct family u3 = {
    .peripherals = u3_peripherals,
    .ready = {{U3_RCC, 0, 0, 1 << 0, 1 << 2}, {U3_RCC, 0, 0, 1 << 3, 1 << 4}, {U3_RCC, 0, 0, 1 << 5, 1 << 9},
              {U3_RCC, 0, 0, 1 << 6, 1 << 10}, {U3_RCC, 0, 0, 1 << 11, 1 << 13}, {U3_RCC, 0, 0, 1 << 14, 1 << 15},
              {U3_RCC, 0, 0, 1 << 16, 1 << 17}, {U3_RCC, 0xF0, 0xF0, 1 << 0, 1 << 1}, {U3_PWR, 0x0C, 0x0C, 1 << 0, 1 << 16},
              {U3_PWR, 0x0C, 0x0C, 1 << 1, 1 << 17}, {U3_PWR, 0x0C, 0x0C, 1 << 8, 1 << 24}, {U3_PWR, 0x3C, 0x08, 1 << 1, 1 << 1},
              {CR_ICACHE, 4, 0, 0, 1 << 1}},
    .rcc = U3_RCC, .flash = U_FLASH, .source_offset = 0x1C, .source_mask = 3, .source_shift = 2,
    .resets = {{U3_RCC, 0x1D}, {U3_PWR + 0x0C, 2}, {CR_ICACHE, 4}},
    .clock_hz = u3_clock_hz, .timer_hz = u3_timer_hz, .on_write = icache_on_write,
};

static void map_u3(struct machine *m) { foreign_map(m, &u3); }

const struct chip stm32u385 = {
    .name = "stm32u385", .cpu_model = UC_CPU_ARM_CORTEX_M33, .core = CORTEX_M33,
    .flash_base = 0x08000000, .flash_size_bytes = 1 << 20, .flash_mirror = 0x08000000,
    .rams = {{0x20000000, 256 << 10, 0}, {0x0BFA0000, 4 << 10, 0}},
    .timing = {.read_shift = 4, .icache_bytes = 8 << 10},
    .map_peripherals = map_u3, .reset = foreign_reset, .requested_irq = foreign_irq,
    .uart_pins_connected = foreign_pins_connected, .clock_hz = u3_clock_hz, .boots_rom = foreign_never_rom,
};

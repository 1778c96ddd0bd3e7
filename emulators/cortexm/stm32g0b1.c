/* STM32G0B1: memory map, clocks up to 64 MHz, pins, TIM2 as a counter, and the USART2 behind the Nucleo's ST-LINK, as far as
 * the firmware can notice. Registers: RM0444. */
#include "stm32.h"

#include <string.h>

enum {
    TIM2 = 0x40000000, USART2 = 0x40004400, RCC_AND_FLASH = 0x40021000, GPIO = 0x50000000, USART2_IRQ = 28,
    TIM_CR1 = 0x00, TIM_CNT = 0x24, TIM_CCR4 = 0x40,
    RCC_CR = 0x00, RCC_CFGR = 0x08, RCC_PLLCFGR = 0x0C, IOPENR = 0x34, APBENR1 = 0x3C, FLASH_ACR = 0x1000,
    TIM2_GATE = 0, USART2_GATE = 17, HSI_ON_AND_READY = 0x500, PLLON = 1 << 24, PLLRDY = 1 << 25,
    ACR_PREFETCH = 1 << 8, ACR_CACHE = 1 << 9, HSI_HZ = 16000000, MAX_HZ = 64000000
};

static uint32_t rcc_and_flash[2 * STM32_PAGE / 4], timer[STM32_PAGE / 4];
static uint64_t timer_zero; /* cycle in which TIM2 would have read 0 */

static uint32_t rcc(uint32_t offset) { return rcc_and_flash[offset / 4]; }

static uint32_t pll_hz(void) {
    const uint32_t c = rcc(RCC_PLLCFGR);
    if ((c & 3) != 2 || !(c >> 28 & 1) || !(rcc(RCC_CR) & PLLON)) return 0;
    return (uint32_t)((uint64_t)HSI_HZ / ((c >> 4 & 7) + 1) * (c >> 8 & 127) / ((c >> 29) + 1));
}

static uint32_t clock_hz(void) {
    const uint32_t source = rcc(RCC_CFGR) & 7;
    return source == 0 ? HSI_HZ : source == 2 ? pll_hz() : 0;
}

/* RM0444, table 17; dividers of the buses are not modelled. */
static void check_clock(struct machine *m) {
    const uint32_t hz = clock_hz(), most = m->flash_wait_states == 0 ? 24000000 : m->flash_wait_states == 1 ? 48000000 : MAX_HZ;
    if (!hz) stop_machine(m, STOP_FAULT, "the clock chosen is not running");
    else if (hz > MAX_HZ) stop_machine(m, STOP_FAULT, "more than 64 MHz");
    else if (hz > most) stop_machine(m, STOP_FAULT, "flash wait states are too few for this clock");
    else if (rcc(RCC_CFGR) & 0x7F00) stop_machine(m, STOP_FAULT, "a divided bus clock is not modelled");
}

static bool clocked(unsigned gate) { return rcc(APBENR1) >> gate & 1; }

/* PA2 and PA3, alternate function 1. */
static bool uart_pins_connected(void) {
    return rcc(IOPENR) & 1 && (stm32_pins(0, STM32_MODER) >> 4 & 0xF) == 0xA && (stm32_pins(0, STM32_AFRL) >> 8 & 0xFF) == 0x11;
}

static bool usart_clocked(void) { return clocked(USART2_GATE); }

static bool port_clocked(unsigned port) { return rcc(IOPENR) >> port & 1; }

static void divider_written(struct machine *m) { m->uart.byte_cycles = 10 * (stm32_divider() & 0xFFFF); }

static uint64_t read_rcc(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    const uint32_t value = rcc_and_flash[offset / 4];
    if (offset == RCC_CR) return value | (value & PLLON ? PLLRDY : 0);
    if (offset == RCC_CFGR) return (value & ~0x38u) | (value & 7) << 3; /* the source that is used is the one asked for */
    return value;
}

static void write_rcc(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    rcc_and_flash[offset / 4] = (uint32_t)value;
    if (offset == RCC_CR) rcc_and_flash[offset / 4] |= HSI_ON_AND_READY;
    if (offset == FLASH_ACR) {
        m->flash_wait_states = value & 7;
        m->prefetch.ahead = value & ACR_PREFETCH;
        m->prefetch.caches = value & ACR_CACHE;
        forget_blocks();
    }
    if (offset != FLASH_ACR && offset != RCC_CFGR && offset != RCC_CR) return;
    check_clock(m);
    host_restart_pace(m);
}

static uint64_t read_timer(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    if (!clocked(TIM2_GATE)) return 0;
    if (offset != TIM_CNT || !(timer[TIM_CR1 / 4] & 1)) return timer[offset / 4];
    ++m->io_count; /* who looks at the clock is not idle */
    return (uint32_t)(m->cycles.typical - timer_zero);
}

static void write_timer(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    if (!clocked(TIM2_GATE)) return;
    const bool was_on = timer[TIM_CR1 / 4] & 1;
    timer[offset / 4] = (uint32_t)value;
    if (offset == TIM_CCR4) write_trace(m, (uint32_t)value);
    if (offset == TIM_CNT || (offset == TIM_CR1 && !was_on)) timer_zero = m->cycles.typical - timer[TIM_CNT / 4];
}

static bool boots_rom(const struct machine *m) { return m->boot0; }

static void map_peripherals(struct machine *m) {
    static const struct stm32 alike = {GPIO, 6, USART2, USART2_IRQ, port_clocked, usart_clocked, divider_written};
    stm32_map(m, &alike);
    map_registers(m, TIM2, STM32_PAGE, read_timer, write_timer);
    map_registers(m, RCC_AND_FLASH, 2 * STM32_PAGE, read_rcc, write_rcc);
}

static void reset(struct machine *m) {
    stm32_reset(m, 0xEBFFFFFF);
    memset(rcc_and_flash, 0, sizeof rcc_and_flash);
    memset(timer, 0, sizeof timer);
    rcc_and_flash[RCC_CR / 4] = HSI_ON_AND_READY;
    rcc_and_flash[RCC_PLLCFGR / 4] = 0x1000;
    rcc_and_flash[FLASH_ACR / 4] = 0x00040600;
    m->prefetch.caches = true;
    m->flash_wait_states = 0;
}

const struct chip stm32g0b1 = {
    .name = "stm32g0b1", .cpu_model = UC_CPU_ARM_CORTEX_M0, .core = CORTEX_M0PLUS,
    .flash_base = 0x08000000, .flash_size_bytes = 512 << 10, .flash_mirror = 0,
    .rams = {{0x20000000, 144 << 10, 0}},
    .timing = {.read_shift = 3},
    .map_peripherals = map_peripherals, .reset = reset,
    .requested_irq = stm32_requested_irq, .uart_pins_connected = uart_pins_connected,
    .clock_hz = clock_hz, .boots_rom = boots_rom, .boot_rom = an3155_loader,
    .product_id = 0x467, .sector_bytes = 2 << 10,
};

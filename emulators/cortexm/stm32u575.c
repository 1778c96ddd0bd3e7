/* STM32U575: memory map, clocks up to 160 MHz, cache, pins and the USART1 behind the Nucleo's ST-LINK, as far as the firmware
 * can notice. Registers: RM0456. */
#include "stm32.h"

#include <string.h>

enum {
    USART1 = 0x40013800, FLASH = 0x40022000, ICACHE = 0x40030000, ICACHE_CR = 0x400,
    GPIO = 0x42020000, PWR_AND_RCC = 0x46020000, PWR = 0x800, RCC = 0xC00,
    USART1_IRQ = 61,
    RCC_CR = RCC, RCC_CFGR1 = RCC + 0x1C, RCC_CFGR2 = RCC + 0x20, PLL1CFGR = RCC + 0x28, PLL1DIVR = RCC + 0x34, AHB2ENR1 = RCC + 0x8C,
    AHB3ENR = RCC + 0x94, APB2ENR = RCC + 0xA4, PWR_VOSR = PWR + 0x0C, PWR_END = RCC,
    HSION = 1 << 8, HSIRDY = 1 << 10, PLLON = 1 << 24, PLLRDY = 1 << 25, PWR_GATE = 2, USART1_GATE = 14,
    VOS_RANGE_1 = 3, BOOSTEN = 1 << 18, BOOSTRDY = 1 << 14, VOSRDY = 1 << 15,
    MSI_HZ = 4000000, HSI_HZ = 16000000, MAX_HZ = 160000000, UNBOOSTED_HZ = 55000000, HZ_PER_WAIT_STATE = 32000000
};

static uint32_t power[STM32_PAGE / 4], flash_acr, icache_cr;

static uint32_t rcc(uint32_t offset) { return power[offset / 4]; }

static uint32_t pll_hz(void) {
    const uint32_t c = rcc(PLL1CFGR), d = rcc(PLL1DIVR);
    const uint32_t input = (c & 3) == 1 ? MSI_HZ : (c & 3) == 2 && rcc(RCC_CR) & HSION ? HSI_HZ : 0;
    if (!(c >> 18 & 1) || !(rcc(RCC_CR) & PLLON)) return 0;
    return (uint32_t)((uint64_t)input / ((c >> 8 & 15) + 1) * ((d & 511) + 1) / ((d >> 24 & 127) + 1));
}

static uint32_t clock_hz(void) {
    const uint32_t source = rcc(RCC_CFGR1) & 3;
    return source == 0 ? MSI_HZ : source == 1 && rcc(RCC_CR) & HSION ? HSI_HZ : source == 3 ? pll_hz() : 0;
}

static bool boosted(void) { return (rcc(PWR_VOSR) >> 16 & 3) == VOS_RANGE_1 && rcc(PWR_VOSR) & BOOSTEN; }

/* What the reference manual forbids and a board answers with wrong instructions or not at all (sections 7.3.3, 10.5.4, 11.4). */
static const char *clock_fault(const struct machine *m) {
    const uint32_t hz = clock_hz();
    if (!hz) return "the clock chosen is not running";
    if (hz > MAX_HZ) return "more than 160 MHz";
    if (hz > (m->flash_wait_states + 1) * HZ_PER_WAIT_STATE) return "flash wait states are too few for this clock";
    if (hz > UNBOOSTED_HZ && !boosted()) return "more than 55 MHz without voltage range 1 and its booster";
    if (rcc(RCC_CFGR2) & 0x77F) return "a divided bus clock is not modelled";
    return NULL;
}

static void check_clock(struct machine *m) {
    const char *why = clock_fault(m);
    if (why) stop_machine(m, STOP_FAULT, why);
}

/* PA9 and PA10, alternate function 7. */
static bool uart_pins_connected(void) {
    return rcc(AHB2ENR1) & 1 && (stm32_pins(0, STM32_MODER) >> 18 & 0xF) == 0xA && (stm32_pins(0, STM32_AFRH) >> 4 & 0xFF) == 0x77;
}

static bool usart_clocked(void) { return rcc(APB2ENR) >> USART1_GATE & 1; }

static bool port_clocked(unsigned port) { return rcc(AHB2ENR1) >> port & 1; }

static void divider_written(struct machine *m) { m->uart.byte_cycles = 10 * (stm32_divider() & 0xFFFF); }

static bool pwr_closed(uint64_t offset) { return offset < PWR_END && !(rcc(AHB3ENR) >> PWR_GATE & 1); }

static uint64_t read_power(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    if (pwr_closed(offset)) return 0;
    const uint32_t value = power[offset / 4];
    if (offset == RCC_CR) return value | (value & HSION ? HSIRDY : 0) | (value & PLLON ? PLLRDY : 0);
    if (offset == RCC_CFGR1) return (value & ~0xCu) | (value & 3) << 2; /* the source that is used is the one asked for */
    if (offset == PWR_VOSR) return value | VOSRDY | (boosted() && rcc(PLL1CFGR) & 3 ? BOOSTRDY : 0);
    return value;
}

static void write_power(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    if (pwr_closed(offset)) return;
    power[offset / 4] = (uint32_t)value;
    if (offset != RCC_CFGR1 && offset != RCC_CFGR2 && offset != RCC_CR && offset != PWR_VOSR) return;
    check_clock(user);
    host_restart_pace(user);
}

static uint64_t read_flash(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return offset ? 0 : flash_acr;
}

static void write_flash(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    if (offset) return;
    flash_acr = (uint32_t)value;
    m->flash_wait_states = value & 15;
    forget_blocks();
    check_clock(m);
}

static uint64_t read_icache(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return offset == ICACHE_CR ? icache_cr : 0;
}

static void write_icache(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    if (offset != ICACHE_CR) return;
    icache_cr = (uint32_t)value;
    m->icache_on = value & 1;
    m->m33_ways = value & 4 ? 2 : 1;
    ++m->fills;
}

static bool boots_rom(const struct machine *m) {
    (void)m;
    return false;
}

static void map_peripherals(struct machine *m) {
    static const struct stm32 alike = {GPIO, 9, USART1, USART1_IRQ, port_clocked, usart_clocked, divider_written};
    stm32_map(m, &alike);
    map_registers(m, FLASH, STM32_PAGE, read_flash, write_flash);
    map_registers(m, ICACHE, STM32_PAGE, read_icache, write_icache);
    map_registers(m, PWR_AND_RCC, STM32_PAGE, read_power, write_power);
}

static void reset(struct machine *m) {
    stm32_reset(m, 0xABFFFFFF);
    memset(power, 0, sizeof power);
    power[RCC_CR / 4] = 0x35; /* MSIS and MSIK on and ready, 4 MHz */
    flash_acr = 1;
    icache_cr = 4;
    m->flash_wait_states = 1;
}

const struct chip stm32u575 = {
    .name = "stm32u575", .cpu_model = UC_CPU_ARM_CORTEX_M33, .core = CORTEX_M33,
    .flash_base = 0x08000000, .flash_size_bytes = 2 << 20, .flash_mirror = 0x08000000,
    .rams = {{0x20000000, 768 << 10, 0}},
    .timing = {.read_shift = 4, .icache_bytes = 8 << 10},
    .map_peripherals = map_peripherals, .reset = reset,
    .requested_irq = stm32_requested_irq, .uart_pins_connected = uart_pins_connected,
    .clock_hz = clock_hz, .boots_rom = boots_rom,
};

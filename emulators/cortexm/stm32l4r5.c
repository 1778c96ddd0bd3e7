/* STM32L4R5: memory map, clocks up to 120 MHz, pins and the LPUART behind the Nucleo's ST-LINK, as far as the firmware can
 * notice. Registers: RM0432. */
#include "stm32.h"

#include <string.h>

enum {
    PWR = 0x40007000, LPUART1 = 0x40008000, RCC_AND_FLASH = 0x40021000, GPIO = 0x48000000,
    PORT_G = 6, LPUART1_IRQ = 70,
    RCC_CR = 0x00, RCC_CFGR = 0x08, RCC_PLLCFGR = 0x0C, AHB2ENR = 0x4C, APB1ENR1 = 0x58, APB1ENR2 = 0x5C, CCIPR = 0x88,
    FLASH_ACR = 0x1000, PWR_CR2 = 0x04, PWR_CR5 = 0x80,
    RCC_MSI = 3, HSION = 1 << 8, HSIRDY = 1 << 10, PLLON = 1 << 24, PLLRDY = 1 << 25,
    MSI_HZ = 4000000, HSI_HZ = 16000000, UNBOOSTED_HZ = 80000000, HZ_PER_WAIT_STATE = 20000000
};

static uint32_t rcc_and_flash[2 * STM32_PAGE / 4], pwr[STM32_PAGE / 4];

static uint32_t rcc(uint32_t offset) { return rcc_and_flash[offset / 4]; }

static uint32_t pll_hz(void) {
    const uint32_t c = rcc(RCC_PLLCFGR), source = c & 3;
    const uint32_t input = source == 2 ? HSI_HZ : source == 1 ? MSI_HZ : 0;
    if (!(c >> 24 & 1) || !(rcc(RCC_CR) & PLLON)) return 0;
    return (uint32_t)((uint64_t)input / ((c >> 4 & 15) + 1) * (c >> 8 & 127) / (2 * ((c >> 25 & 3) + 1)));
}

static uint32_t clock_hz(void) {
    const uint32_t cfgr = rcc(RCC_CFGR), source = cfgr & 3, divider = cfgr >> 4 & 15;
    const uint32_t hz = source == 0 ? MSI_HZ : source == 1 ? HSI_HZ : source == 3 ? pll_hz() : 0;
    return divider < 8 ? hz : hz >> (divider < 12 ? divider - 7 : divider - 6);
}

/* What the reference manual forbids and a board answers with wrong instructions or not at all (sections 3.3.3, 5.1.7). */
static const char *clock_fault(const struct machine *m) {
    const uint32_t hz = clock_hz();
    if (!hz) return "the clock chosen is not running";
    if (hz > (m->flash_wait_states + 1) * HZ_PER_WAIT_STATE) return "flash wait states are too few for this clock";
    if (hz > UNBOOSTED_HZ && pwr[PWR_CR5 / 4] >> 8 & 1) return "more than 80 MHz without the range 1 boost mode";
    return NULL;
}

static void check_clock(struct machine *m) {
    const char *why = clock_fault(m);
    if (why) stop_machine(m, STOP_FAULT, why);
}

/* PG7 and PG8, alternate function 8. Port G from pin 2 up has a supply of its own (PWR_CR2, IOSV). */
static bool uart_pins_connected(void) {
    return pwr[PWR_CR2 / 4] >> 9 & 1 && (stm32_pins(PORT_G, STM32_MODER) >> 14 & 0xF) == 0xA &&
           stm32_pins(PORT_G, STM32_AFRL) >> 28 == 8 && (stm32_pins(PORT_G, STM32_AFRH) & 0xF) == 8;
}

/* Ten bits, of 256 / BRR kernel clocks each: the system clock's, or the HSI16's. */
static void update_byte_cycles(struct machine *m) {
    const uint32_t source = rcc(CCIPR) >> 10 & 3, kernel_hz = source == 2 ? HSI_HZ : source == 3 ? 0 : clock_hz();
    const uint32_t divider = stm32_divider() & 0xFFFFF;
    m->uart.byte_cycles = kernel_hz && divider >= 0x300 ? (uint32_t)(10ull * divider * clock_hz() / (256ull * kernel_hz)) : 0;
}

static bool lpuart_clocked(void) { return rcc(APB1ENR2) & 1; }

static bool port_clocked(unsigned port) { return rcc(AHB2ENR) >> port & 1; }

static uint64_t read_rcc(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    const uint32_t value = rcc_and_flash[offset / 4];
    if (offset == RCC_CR) return value | (value & HSION ? HSIRDY : 0) | (value & PLLON ? PLLRDY : 0);
    if (offset == RCC_CFGR) return (value & ~0xCu) | (value & 3) << 2; /* the source that is used is the one asked for */
    return value;
}

static void write_rcc(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    rcc_and_flash[offset / 4] = value;
    if (offset == FLASH_ACR) {
        m->flash_wait_states = value & 15;
        forget_blocks();
    }
    if (offset != FLASH_ACR && offset != RCC_CFGR && offset != RCC_CR) return;
    check_clock(m);
    update_byte_cycles(m);
    host_restart_pace(m);
}

static uint64_t read_pwr(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return rcc(APB1ENR1) >> 28 & 1 ? pwr[offset / 4] : 0;
}

static void write_pwr(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    if (!(rcc(APB1ENR1) >> 28 & 1)) return;
    pwr[offset / 4] = value;
    check_clock(user);
}

static bool boots_rom(const struct machine *m) { return m->boot0; }

static void map_peripherals(struct machine *m) {
    static const struct stm32 alike = {GPIO, 9, LPUART1, LPUART1_IRQ, port_clocked, lpuart_clocked, update_byte_cycles};
    stm32_map(m, &alike);
    map_registers(m, PWR, STM32_PAGE, read_pwr, write_pwr);
    map_registers(m, RCC_AND_FLASH, 2 * STM32_PAGE, read_rcc, write_rcc);
}

static void reset(struct machine *m) {
    stm32_reset(m, 0xABFFFFFF);
    memset(rcc_and_flash, 0, sizeof rcc_and_flash);
    memset(pwr, 0, sizeof pwr);
    rcc_and_flash[RCC_CR / 4] = RCC_MSI | 6 << 4; /* MSI on and ready, 4 MHz */
    rcc_and_flash[FLASH_ACR / 4] = 0x600;
    pwr[0] = 1 << 9;              /* voltage range 1 */
    pwr[PWR_CR5 / 4] = 1 << 8;    /* without boost */
    m->flash_wait_states = 0;
}

/* SRAM1 to SRAM3 follow each other; SRAM2's second address, 0x10000000, is left out. */
const struct chip stm32l4r5 = {
    .name = "stm32l4r5", .cpu_model = UC_CPU_ARM_CORTEX_M4, .core = CORTEX_M4,
    .flash_base = 0x08000000, .flash_size_bytes = 2 << 20, .flash_mirror = 0,
    .rams = {{0x20000000, 640 << 10, 0}},
    .timing = {.read_shift = 3},
    .map_peripherals = map_peripherals, .reset = reset,
    .requested_irq = stm32_requested_irq, .uart_pins_connected = uart_pins_connected,
    .clock_hz = clock_hz, .boots_rom = boots_rom, .boot_rom = an3155_loader,
    .product_id = 0x470, .sector_bytes = 4 << 10,
};

/* STM32H747 and H745, Cortex-M7 core: memory map, pins and the USART behind the ST-LINK, as far as the
 * firmware can notice. */
#include "stm32.h"
#include "stm32h747_clock.h"

enum {
    USART1 = 0x40011000, USART3 = 0x40004800, FLASH_INTERFACE = 0x52002000, GPIO = 0x58020000, PORTS = 12,
    AHB4ENR = 0x4E0, APB1LENR = 0x4E8, APB2ENR = 0x4F0
};

/* Which USART the board wires to its ST-LINK: its clock gate, and its port and pins (TX, RX next to it). */
struct wiring {
    uint32_t gate_register, gate_bit, port, tx_pin;
};

static const struct wiring discovery = {APB2ENR, 4, 0, 9}, nucleo = {APB1LENR, 18, 3, 8};
static const struct wiring *wiring = &discovery;

static bool uart_pins_connected(void) {
    const uint32_t port = wiring->port, tx = wiring->tx_pin;
    return (stm32_pins(port, STM32_MODER) >> 2 * tx & 0xF) == 0xA && (stm32_pins(port, STM32_AFRH) >> 4 * (tx - 8) & 0xFF) == 0x77;
}

static bool gate_open(uint32_t offset, unsigned bit) { return h747_gates(offset) >> bit & 1; }

static bool usart_clocked(void) { return gate_open(wiring->gate_register, wiring->gate_bit); }

static bool port_clocked(unsigned port) { return gate_open(AHB4ENR, port); }

static void divider_written(struct machine *m) {
    const uint32_t ratio = h747_core_hz() / h747_uart_hz(wiring->gate_register == APB2ENR);
    m->uart.byte_cycles = 10 * (stm32_divider() & 0xFFFF) * ratio;
}

static uint64_t read_rcc(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    return h747_read_rcc(user, (uint32_t)offset);
}

static void write_rcc(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    h747_write_rcc(user, (uint32_t)offset, (uint32_t)value);
}

static uint64_t read_flash(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return h747_read_flash((uint32_t)offset);
}

static void write_flash(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    h747_write_flash(user, (uint32_t)offset, (uint32_t)value);
}

static bool boots_rom(const struct machine *m) { return m->boot0; }

static void map_with(struct machine *m, const struct stm32 *alike, const struct wiring *wired) {
    wiring = wired;
    stm32_map(m, alike);
    map_registers(m, H747_RCC, PAGE, read_rcc, write_rcc);
    map_registers(m, FLASH_INTERFACE, PAGE, read_flash, write_flash);
}

static void map_peripherals(struct machine *m) {
    static const struct stm32 alike = {GPIO, PORTS, USART1, 37, port_clocked, usart_clocked, divider_written};
    map_with(m, &alike, &discovery);
}

static void map_nucleo(struct machine *m) {
    static const struct stm32 alike = {GPIO, PORTS, USART3, 39, port_clocked, usart_clocked, divider_written};
    map_with(m, &alike, &nucleo);
}

static void reset(struct machine *m) {
    stm32_reset(m, 0xABFFFFFF);
    h747_reset_clock(m);
}

/* Chips of one kind that differ in the UART the ST-LINK is wired to. */
#define H7_CHIP(chip_name, peripherals)                                                          \
    {                                                                                            \
        .name = chip_name, .cpu_model = UC_CPU_ARM_CORTEX_M7, .core = CORTEX_M7,                 \
        .flash_base = 0x08000000, .flash_size_bytes = 1 << 20, .flash_mirror = 0x08000000,       \
        .rams = {{0x24000000, 512 << 10, 0},                                                     \
                 {0x20000000, 128 << 10, 0},                                                     \
                 {0x00000000, 64 << 10, 0},                                                      \
                 {0x30000000, 288 << 10, 0}},                                                    \
        .timing = {.read_shift = 5, .icache_bytes = 16 << 10, .dcache_bytes = 16 << 10,          \
                   .itcm_bytes = 64 << 10, .dtcm_bytes = 128 << 10, .fill_cycles = 4,            \
                   .line_reads = 1, .mispredicted_cycles = 8},                                   \
        .map_peripherals = peripherals, .reset = reset,                                          \
        .requested_irq = stm32_requested_irq, .uart_pins_connected = uart_pins_connected,              \
        .clock_hz = h747_core_hz, .boots_rom = boots_rom, .boot_rom = an3155_loader,                 \
        .product_id = 0x450, .sector_bytes = 128 << 10,                                          \
    }

const struct chip stm32h747 = H7_CHIP("stm32h747", map_peripherals);
/* As on the NUCLEO-H745ZI-Q, whose ST-LINK is wired to USART3 (PD8, PD9). */
const struct chip stm32h745 = H7_CHIP("stm32h745", map_nucleo);

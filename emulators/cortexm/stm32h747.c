/* STM32H747 and H745, Cortex-M7 core: memory map, pins and the USART behind the ST-LINK, as far as the
 * firmware can notice. */
#include "stm32h747_clock.h"

#include <string.h>

enum {
    USART1 = 0x40011000, USART3 = 0x40004800, FLASH_INTERFACE = 0x52002000, GPIO = 0x58020000,
    GPIO_PORT_BYTES = 0x400, GPIO_BYTES = 0x3000,
    /* offsets in their peripheral or page */
    BRR = 0x0C,
    MODER = 0x00, AFRH = 0x24, AHB4ENR = 0x4E0, APB1LENR = 0x4E8, APB2ENR = 0x4F0
};

static uint32_t usart[USART_WORDS], gpio[GPIO_BYTES / 4];

/* Which USART the board wires to its ST-LINK: address, clock gate, and its port and pins (TX, RX next to it). */
struct wiring {
    uint32_t usart, irq, gate_register, gate_bit, port, tx_pin;
};

static const struct wiring discovery = {USART1, 37, APB2ENR, 4, 0, 9}, nucleo = {USART3, 39, APB1LENR, 18, 3, 8};
static const struct wiring *wiring = &discovery;

static bool uart_pins_connected(void) {
    const uint32_t *port = gpio + wiring->port * GPIO_PORT_BYTES / 4, tx = wiring->tx_pin;
    return (port[MODER / 4] >> 2 * tx & 0xF) == 0xA && (port[AFRH / 4] >> 4 * (tx - 8) & 0xFF) == 0x77;
}

static bool gate_open(uint32_t offset, unsigned bit) { return h747_gates(offset) >> bit & 1; }

static bool usart_clocked(void) { return gate_open(wiring->gate_register, wiring->gate_bit); }

static bool port_clocked(uint64_t offset) { return gate_open(AHB4ENR, (unsigned)(offset / GPIO_PORT_BYTES)); }

static uint32_t requested_irq(const struct machine *m) { return usart_interrupt(m, usart) ? wiring->irq : NO_IRQ; }

static uint64_t read_usart(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    return usart_clocked() ? usart_read(user, usart, (uint32_t)offset - wiring->usart % PAGE) : 0;
}

static void write_usart(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    offset -= wiring->usart % PAGE;
    if (!usart_clocked()) return;
    usart_write(m, usart, (uint32_t)offset, (uint32_t)value);
    if (offset == BRR) m->uart.byte_cycles = (uint32_t)(10 * (value & 0xFFFF) * (h747_core_hz() / h747_uart_hz(wiring->gate_register == APB2ENR)));
}

static uint64_t read_gpio(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return port_clocked(offset) ? gpio[offset / 4] : 0;
}

static void write_gpio(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    if (!port_clocked(offset)) return;
    const unsigned number = offset / GPIO_PORT_BYTES;
    stm32_write_port(user, number, gpio + number * GPIO_PORT_BYTES / 4, offset % GPIO_PORT_BYTES, (uint32_t)value);
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

static void map_peripherals(struct machine *m) {
    map_registers(m, wiring->usart / PAGE * PAGE, PAGE, read_usart, write_usart);
    map_registers(m, GPIO, GPIO_BYTES, read_gpio, write_gpio);
    map_registers(m, H747_RCC, PAGE, read_rcc, write_rcc);
    map_registers(m, FLASH_INTERFACE, PAGE, read_flash, write_flash);
}

static void map_nucleo(struct machine *m) {
    wiring = &nucleo;
    map_peripherals(m);
}

static void reset(struct machine *m) {
    memset(usart, 0, sizeof usart);
    memset(gpio, 0, sizeof gpio);
    h747_reset_clock(m);
    for (int port = 0; port < GPIO_BYTES / GPIO_PORT_BYTES; ++port)
        gpio[port * GPIO_PORT_BYTES / 4 + MODER / 4] = port ? 0xFFFFFFFF : 0xABFFFFFF;
    m->uart.keep_old_on_overrun = true;
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
        .requested_irq = requested_irq, .uart_pins_connected = uart_pins_connected,              \
        .clock_hz = h747_core_hz, .boots_rom = boots_rom, .boot_rom = an3155_loader,                 \
        .product_id = 0x450, .sector_bytes = 128 << 10,                                          \
    }

const struct chip stm32h747 = H7_CHIP("stm32h747", map_peripherals);
/* As on the NUCLEO-H745ZI-Q, whose ST-LINK is wired to USART3 (PD8, PD9). */
const struct chip stm32h745 = H7_CHIP("stm32h745", map_nucleo);

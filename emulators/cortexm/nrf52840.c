/* nRF52840 of an Arduino Nano 33 BLE or a Seeed XIAO: memory map, crystal, cache, pins and the UART without DMA, as far as the firmware
 * can notice, behind a boot loader that starts it. Registers: nRF52840 Product Specification. */
#include "uf2.h"

#include <string.h>

enum {
    PAGE_BYTES = 0x1000, CLOCK = 0x40000000, UART = 0x40002000, NVMC = 0x4001E000, GPIO = 0x50000000,
    PORT_BYTES = 0x300, PORTS = 2, UART_IRQ = 2, CPU_HZ = 64000000, UNCACHED_WAITS = 2,
    HFCLKSTART = 0x000, HFCLKSTARTED = 0x100, ICACHECNF = 0x540,
    STARTRX = 0x000, STOPRX = 0x004, STARTTX = 0x008, STOPTX = 0x00C, RXDRDY = 0x108, TXDRDY = 0x11C, INTENSET = 0x304, INTENCLR = 0x308,
    ERRORSRC = 0x480, ENABLE = 0x500, PSELTXD = 0x50C, PSELRXD = 0x514, RXD = 0x518, TXD = 0x51C, BAUDRATE = 0x524, CONFIG = 0x56C,
    ENABLED = 4, ON_RXDRDY = 1 << 2, OVERRUN = 1 << 0,
    OUT = 0x504, OUTSET = 0x508, OUTCLR = 0x50C, PIN_CNF = 0x700, CONNECTED_OUTPUT = 1, INPUT_OFF = 1 << 1, NO_PIN = -1
};

static uint32_t clocks[PAGE_BYTES / 4], uart[PAGE_BYTES / 4], nvmc[PAGE_BYTES / 4], gpio[PAGE_BYTES / 4];

static uint32_t clock_hz(void) { return CPU_HZ; }

static uint32_t pin_configuration(uint32_t selected) {
    return gpio[((selected >> 5 & 1) * PORT_BYTES + PIN_CNF) / 4 + (selected & 31)];
}

/* Nano 33 BLE: P1.03 and P1.10; XIAO: P1.11 and P1.12. */
static bool on_board(uint32_t tx, uint32_t rx) { return (tx == 35 && rx == 42) || (tx == 43 && rx == 44); }

static bool uart_pins_connected(void) {
    const uint32_t tx = uart[PSELTXD / 4], rx = uart[PSELRXD / 4];
    return on_board(tx, rx) && pin_configuration(tx) & CONNECTED_OUTPUT && !(pin_configuration(rx) & INPUT_OFF);
}

static bool received(const struct machine *m) { return m->uart.rx_full; }

static uint32_t requested_irq(const struct machine *m) { return received(m) && uart[RXDRDY / 4] && uart[INTENSET / 4] & ON_RXDRDY ? UART_IRQ : NO_IRQ; }

static uint64_t read_uart(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    switch (offset) {
    case RXDRDY: return received(m) && uart[RXDRDY / 4];
    case TXDRDY: return uart[TXDRDY / 4] && uart_tx_ready(m) && uart_tx_done(m);
    case ERRORSRC: return m->uart.overrun ? OVERRUN : 0;
    case RXD:
        uart[RXDRDY / 4] = 1; /* for the next byte */
        return uart_read(m);
    default: return uart[offset / 4];
    }
}

/* The crystal's baud rate, BAUDRATE * 16 MHz / 2^32, or nonsense from the oscillator that runs after a reset. */
static uint32_t byte_cycles(void) {
    const uint64_t rate = uart[BAUDRATE / 4] & 0xFFFFF000;
    return rate && clocks[HFCLKSTARTED / 4] ? (uint32_t)((10ull * CPU_HZ << 32) / (rate * 16000000)) : 0;
}

static void update(struct machine *m) {
    struct uart *u = &m->uart;
    const bool on = uart[ENABLE / 4] == ENABLED && !uart[CONFIG / 4];
    u->rx_enabled = on && uart[STARTRX / 4];
    u->tx_enabled = on && uart[STARTTX / 4] && clocks[HFCLKSTARTED / 4];
    u->byte_cycles = byte_cycles();
    m->next_event = 0;
}

static void write_uart(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    if (offset == TXD) {
        if (uart[ENABLE / 4] == ENABLED) uart_write(m, (uint8_t)value);
        uart[TXDRDY / 4] = 1; /* when it has left */
        return;
    }
    switch (offset) {
    case INTENSET: uart[INTENSET / 4] |= (uint32_t)value; break;
    case INTENCLR: uart[INTENSET / 4] &= ~(uint32_t)value; break;
    case STOPRX: uart[STARTRX / 4] = 0; break;
    case STOPTX: uart[STARTTX / 4] = 0; break;
    case ERRORSRC: if (value & OVERRUN) m->uart.overrun = false; break;
    default: uart[offset / 4] = (uint32_t)value;
    }
    update(m);
}

static uint64_t read_clocks(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return clocks[offset / 4];
}

static void write_clocks(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    clocks[offset / 4] = (uint32_t)value;
    if (offset == HFCLKSTART && value & 1) clocks[HFCLKSTARTED / 4] = 1;
    update(user);
}

static uint64_t read_nvmc(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return nvmc[offset / 4];
}

static void write_nvmc(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    nvmc[offset / 4] = (uint32_t)value;
}

static uint64_t read_gpio(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return gpio[offset / 4];
}

static void write_gpio(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    const uint32_t number = offset >= PORT_BYTES + OUT, at = (uint32_t)offset - number * PORT_BYTES, given = (uint32_t)value;
    uint32_t *out = &gpio[(number * PORT_BYTES + OUT) / 4], outputs = 0;
    const uint32_t before = *out;
    if (at == OUTSET) *out |= given;
    else if (at == OUTCLR) *out &= ~given;
    else gpio[offset / 4] = given;
    for (unsigned pin = 0; pin < 32; ++pin) outputs |= (pin_configuration(number << 5 | pin) & CONNECTED_OUTPUT) << pin;
    pins_changed(user, number, before & outputs, *out & outputs);
}

static void map_peripherals(struct machine *m) {
    map_registers(m, CLOCK, PAGE_BYTES, read_clocks, write_clocks);
    map_registers(m, UART, PAGE_BYTES, read_uart, write_uart);
    map_registers(m, NVMC, PAGE_BYTES, read_nvmc, write_nvmc);
    map_registers(m, GPIO, PAGE_BYTES, read_gpio, write_gpio);
}

/* As a boot loader leaves it, whose USB interrupt is still enabled and masked by PRIMASK. */
static void reset(struct machine *m) {
    memset(clocks, 0, sizeof clocks);
    memset(uart, 0, sizeof uart);
    memset(nvmc, 0, sizeof nvmc);
    memset(gpio, 0, sizeof gpio);
    for (unsigned pin = 0; pin < 64; ++pin) gpio[((pin >> 5) * PORT_BYTES + PIN_CNF) / 4 + (pin & 31)] = INPUT_OFF;
    uart[PSELTXD / 4] = uart[PSELRXD / 4] = ~0u;
    uart[RXDRDY / 4] = 1;
    m->uart.keep_old_on_overrun = true;
    m->flash_wait_states = UNCACHED_WAITS;
}

static bool boots_rom(const struct machine *m) {
    (void)m;
    return true;
}

/* A program whose stack pointer is in RAM is started; without one, or after two resets (--boot0), the boot loader stays. */
static uint32_t boot_loader(struct machine *m) {
    const uint32_t masked = 1;
    uint32_t vectors[2];
    memcpy(vectors, m->flash + m->chip->image_offset, sizeof vectors);
    if (m->boot0 || vectors[0] - 0x20000000u > 256u << 10) return m->chip->uf2 ? uf2_loader(m) : nano_loader(m);
    uc_reg_write(m->uc, UC_ARM_REG_PRIMASK, &masked);
    return vectors[1];
}

static const struct dfu xiao_serial = {.device = 0x0052, .softdevice = 0x0123, .first = 0x27000, .end = 0xF4000};
static const struct uf2 xiao = {
    .family = 0xADA52840, .first = 0x27000, .end = 0xF4000, .serial = &xiao_serial,
    .info = "UF2 Bootloader 0.6.1\r\nModel: Seeed XIAO nRF52840\r\nBoard-ID: nRF52840-SeeedXiao-v1\r\nSoftDevice: S140 7.3.0\r\n",
};

#define NRF52840 \
    .cpu_model = UC_CPU_ARM_CORTEX_M4, .core = CORTEX_M4, \
    .flash_base = 0, .flash_size_bytes = 1 << 20, .flash_mirror = 0, .rams = {{0x20000000, 256 << 10, 0}}, \
    .timing = {.read_shift = 4}, .map_peripherals = map_peripherals, .reset = reset, \
    .requested_irq = requested_irq, .uart_pins_connected = uart_pins_connected, \
    .clock_hz = clock_hz, .boots_rom = boots_rom, .boot_rom = boot_loader, .sector_bytes = 4 << 10

const struct chip nrf52840 = {.name = "nrf52840", .image_offset = 0x27000, .uf2 = &xiao, NRF52840};
const struct chip nrf52840_nano = {.name = "nrf52840_nano", .image_offset = 0x10000, NRF52840};

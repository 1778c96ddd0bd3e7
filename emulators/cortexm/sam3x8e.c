/* ATSAM3X8E of the Arduino Due: memory map, clocks, pins and the UART, as far as the firmware can notice. */
#include "eefc.h"
#include "machine.h"

#include <string.h>

enum {
    BASE = 0x400E0000, BYTES = 0x2000,
    PMC_PCER0 = 0x610, PMC_PCDR0 = 0x614, PMC_PCSR0 = 0x618, CKGR_MOR = 0x620, CKGR_PLLAR = 0x628, PMC_MCKR = 0x630,
    PMC_SR = 0x668, UART_CR = 0x800, UART_MR = 0x804, UART_IER = 0x808, UART_IDR = 0x80C, UART_IMR = 0x810,
    UART_SR = 0x814, UART_RHR = 0x818, UART_THR = 0x81C, UART_BRGR = 0x820, UART_END = 0x928, CHIPID = 0x940,
    EEFC_FMR = 0xA00, EEFC_FCR = 0xA04, EEFC_FSR = 0xA08, EEFC_FRR = 0xA0C, EEFC_PLANE = 0x200,
    PIOA_PDR = 0xE04, PIOA_PER = 0xE00, PIOA_PSR = 0xE08, PIOA_ABSR = 0xE70,
    PIO_FIRST = 0xE00, PIO_END = 0x1600, PIO_BYTES = 0x200, PIO_OER = 0x10, PIO_OSR = 0x18, PIO_SODR = 0x30, PIO_CODR = 0x34,
    PIO_ODSR = 0x38, RSTC_CR = 0x1A00,
    RXRDY = 1 << 0, TXRDY = 1 << 1, OVRE = 1 << 5, TXEMPTY = 1 << 9,
    UART_CLOCK = 1 << 8, UART_PINS = 3 << 8,
    UART_IRQ = 8, ROM = 0x00100000, ROM_BYTES = 0x1000
};

static uint32_t words[BYTES / 4];

static uint32_t *word(uint32_t offset) { return &words[offset / 4]; }

static uint32_t uart_status(const struct machine *m) {
    const struct uart *u = &m->uart;
    return (u->rx_full ? RXRDY : 0) | (u->overrun ? OVRE : 0) | (u->tx_enabled && uart_tx_ready(m) ? TXRDY : 0) |
           (u->tx_enabled && uart_tx_done(m) ? TXEMPTY : 0);
}

static uint32_t requested_irq(const struct machine *m) { return uart_status(m) & *word(UART_IMR) ? UART_IRQ : NO_IRQ; }

static bool uart_pins_connected(void) {
    return !(*word(PIOA_PSR) & UART_PINS) && !(*word(PIOA_ABSR) & UART_PINS);
}

static uint32_t clock_hz(void) {
    const uint32_t mckr = *word(PMC_MCKR), plla = *word(CKGR_PLLAR), divider = mckr >> 4 & 7;
    const uint32_t main_hz = *word(CKGR_MOR) >> 24 & 1 ? 12000000 : 4000000;
    uint64_t hz = 32768;
    if ((mckr & 3) == 1) hz = main_hz;
    if ((mckr & 3) == 2 && plla & 0xFF) hz = (uint64_t)main_hz * ((plla >> 16 & 0x7FF) + 1) / (plla & 0xFF);
    return divider == 7 ? hz / 3 : hz >> divider;
}

static uint32_t pmc_status(void) {
    const uint32_t always = 1 << 3 | 1 << 16 | 1 << 17; /* MCKRDY, MOSCSELS, MOSCRCS */
    return always | (*word(CKGR_MOR) & 1) | (*word(CKGR_PLLAR) >> 16 & 0x7FF ? 1 << 1 : 0);
}

static uint64_t read_registers(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    if (offset >= UART_CR && offset < UART_END && !(*word(PMC_PCSR0) & UART_CLOCK)) return 0;
    switch (offset & ~3u) {
    case PMC_SR: return pmc_status();
    case UART_SR: return uart_status(m);
    case UART_RHR: return uart_read(m);
    case CHIPID: return 0x285E0A60;
    case EEFC_FSR: return eefc_status(m, 0);
    case EEFC_FRR: return eefc_result(0);
    case EEFC_FSR + EEFC_PLANE: return eefc_status(m, 1);
    case EEFC_FRR + EEFC_PLANE: return eefc_result(1);
    default: return *word(offset);
    }
}

static void uart_control(struct uart *u, uint32_t value) {
    if (value & 1 << 2) u->rx_full = u->rx_enabled = false; /* RSTRX */
    if (value & 1 << 3) u->tx_enabled = false;              /* RSTTX */
    if (value & 1 << 4) u->rx_enabled = true;
    if (value & 1 << 5) u->rx_enabled = false;
    if (value & 1 << 6) u->tx_enabled = true;
    if (value & 1 << 7) u->tx_enabled = false;
    if (value & 1 << 8) u->overrun = false;
}

static void write_uart(struct machine *m, uint32_t offset, uint32_t value) {
    if (!(*word(PMC_PCSR0) & UART_CLOCK)) return;
    switch (offset) {
    case UART_CR: uart_control(&m->uart, value); break;
    case UART_IER: *word(UART_IMR) |= value; break;
    case UART_IDR: *word(UART_IMR) &= ~value; break;
    case UART_THR: uart_write(m, value); return;
    case UART_BRGR: m->uart.byte_cycles = 10 * 16 * (value & 0xFFFF); *word(UART_BRGR) = value; break;
    default: *word(offset) = value;
    }
    m->next_event = 0;
}

/* Ports A to D; of what they do, the outputs. */
static bool write_output(struct machine *m, uint32_t at, uint32_t value) {
    const unsigned number = (at - PIO_FIRST) / PIO_BYTES;
    uint32_t *port = word(PIO_FIRST + number * PIO_BYTES);
    const uint32_t before = port[PIO_ODSR / 4] & port[PIO_OSR / 4];
    switch (at % PIO_BYTES) {
    case PIO_OER: port[PIO_OSR / 4] |= value; break;
    case PIO_SODR: port[PIO_ODSR / 4] |= value; break;
    case PIO_CODR: port[PIO_ODSR / 4] &= ~value; break;
    default: return false;
    }
    pins_changed(m, number, before, port[PIO_ODSR / 4] & port[PIO_OSR / 4]);
    return true;
}

static void write_registers(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    const uint32_t at = offset & ~3u;
    if (at >= UART_CR && at < UART_END) {
        write_uart(m, at, value);
        return;
    }
    if (at >= PIO_FIRST && at < PIO_END && write_output(m, at, (uint32_t)value)) return;
    switch (at) {
    case PMC_PCER0: *word(PMC_PCSR0) |= value; return;
    case PMC_PCDR0: *word(PMC_PCSR0) &= ~value; return;
    case PIOA_PDR: *word(PIOA_PSR) &= ~value; return;
    case PIOA_PER: *word(PIOA_PSR) |= value; return;
    case CKGR_MOR: if ((value >> 16 & 0xFF) != 0x37) return; break;
    case EEFC_FCR: eefc_command(m, 0, value); return;
    case EEFC_FCR + EEFC_PLANE: eefc_command(m, 1, value); return;
    case RSTC_CR:
        if (value >> 24 != 0xA5 || !(value & 1)) return;
        eefc_break_off(m);
        stop_machine(m, STOP_RESET, "firmware");
        return;
    }
    *word(at) = value;
    if (at == EEFC_FMR) {
        m->flash_wait_states = value >> 8 & 15;
        forget_blocks();
    }
    if (at == CKGR_MOR || at == PMC_MCKR || at == CKGR_PLLAR) host_restart_pace(m);
}

static void map_peripherals(struct machine *m) {
    map_registers(m, BASE, BYTES, read_registers, write_registers);
    check(uc_mem_map(m->uc, ROM, ROM_BYTES, UC_PROT_READ | UC_PROT_EXEC), "ROM"); /* code called by the monitor returns here */
}

static bool boots_rom(const struct machine *m) { return !(m->fuses & FUSE_BOOT_FLASH); }

/* On an Arduino Due the programming port's own processor pulses the ERASE pin, then the reset pin. */
static void erase_by_pin(struct machine *m) {
    flash_erase(m, 0, m->chip->flash_size_bytes);
    eefc_reset(m);
    m->fuses = 0;
    stop_machine(m, STOP_RESET, "1200 baud touch: erased");
}

static void reset(struct machine *m) {
    memset(words, 0, sizeof words);
    *word(PMC_MCKR) = 1;
    *word(CKGR_MOR) = 1 << 3;
    *word(PIOA_PSR) = ~0u;
    m->uart.keep_old_on_overrun = false;
    m->flash_wait_states = 0;
    eefc_settle(m);
    eefc_reset(m);
}

const struct chip sam3x8e = {
    .name = "sam3x8e",
    .cpu_model = UC_CPU_ARM_CORTEX_M3,
    .core = CORTEX_M3,
    .flash_base = 0x00080000,
    .flash_size_bytes = 512 << 10,
    .flash_mirror = 0, /* GPNVM1 set: the chip boots from flash */
    .rams = {{0x20000000, 64 << 10, 0x20070000}, {0x20080000, 32 << 10, 0}},
    .timing = {.read_shift = 4},
    .map_peripherals = map_peripherals,
    .reset = reset,
    .requested_irq = requested_irq,
    .uart_pins_connected = uart_pins_connected,
    .clock_hz = clock_hz,
    .boots_rom = boots_rom,
    .boot_rom = samba_monitor,
    .on_1200_baud = erase_by_pin,
    .latch = eefc_latch,
};

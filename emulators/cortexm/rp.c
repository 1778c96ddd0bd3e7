/* RP2040 and RP2350, as far as the firmware can notice. Registers: RP2040 datasheet, chapters 2.14 to 2.19 and 4.2; RP2350 datasheet,
 * chapters 7 to 9 and 12.1. A block that is in reset reads as zero and keeps nothing. */
#include "rp.h"

#include <string.h>

enum {
    APB = 0x40000000, MAX_APB_BYTES = 0x110000, ALIAS_BYTES = 0x1000, SIO = 0xD0000000, SIO_BYTES = 0x1000,
    ROSC_HZ = 6500000, CRYSTAL_HZ = 12000000, MIN_VCO_HZ = 750000000, MAX_VCO_HZ = 1600000000, ALL_BLOCKS = 0x1FFFFFFF,
    REF_CTRL = 0x30, REF_SELECTED = 0x38, SYS_CTRL = 0x3C, SYS_SELECTED = 0x44, PERI_CTRL = 0x48, PERI_ENABLE = 1 << 11,
    RESET_DONE = 8, XOSC_STATUS = 4, PLL_PWR = 4, PLL_FBDIV = 8, PLL_PRIM = 12, PLL_OFF = 0x29, PLL_AT_RESET = 0x2D,
    DR = 0x00, RSR = 0x04, FR = 0x18, IBRD = 0x24, FBRD = 0x28, LCR_H = 0x2C, CR = 0x30, IMSC = 0x38, UART_BYTES = 0x48,
    FR_BUSY = 1 << 3, FR_RXFE = 1 << 4, FR_TXFF = 1 << 5, FR_TXFE = 1 << 7, RX_INTERRUPT = 1 << 4, DR_OVERRUN = 1 << 11,
    CR_ON = 1 << 0, CR_TX = 1 << 8, CR_RX = 1 << 9, EIGHT_BITS = 3 << 5, FIFOS = 1 << 4, UART = 2, PAD_INPUT = 1 << 6, PAD_AT_RESET = 0x56, PINS = 30
};

static const struct rp_map *map;
static uint32_t words[MAX_APB_BYTES / 4], outputs, enabled_outputs;

static uint32_t *word(uint32_t at) { return &words[(at - APB) / 4]; }

uint32_t rp_word(uint32_t at) { return *word(at); }

bool rp_out_of_reset(uint32_t bit) { return !(*word(map->resets) & bit); }

static uint32_t pll_hz(void) {
    const uint32_t prim = *word(map->pll_sys + PLL_PRIM), refdiv = *word(map->pll_sys) & 63, by = (prim >> 16 & 7) * (prim >> 12 & 7);
    const uint64_t vco = refdiv ? (uint64_t)CRYSTAL_HZ / refdiv * (*word(map->pll_sys + PLL_FBDIV) & 0xFFF) : 0;
    if (!rp_out_of_reset(map->reset_pll_sys) || *word(map->pll_sys + PLL_PWR) & PLL_OFF || !by) return 0;
    return vco >= MIN_VCO_HZ && vco <= MAX_VCO_HZ ? (uint32_t)(vco / by) : 0;
}

static bool crystal_runs(void) { return *word(map->xosc) >> 12 == 0xFAB; }

static uint32_t ref_hz(void) {
    const uint32_t source = *word(map->clocks + REF_CTRL) & 3;
    return source == 0 ? ROSC_HZ : source == 2 && crystal_runs() ? CRYSTAL_HZ : 0;
}

uint32_t rp_clock_hz(void) {
    const uint32_t control = *word(map->clocks + SYS_CTRL);
    if (!(control & 1)) return ref_hz();
    return control >> 5 & 7 || !crystal_runs() ? 0 : pll_hz();
}

static void check_clock(struct machine *m) {
    const uint32_t hz = rp_clock_hz();
    if (!hz) stop_machine(m, STOP_FAULT, "the clock chosen is not running");
    else if (hz > map->max_hz) stop_machine(m, STOP_FAULT, "more than the chip's highest clock");
    host_restart_pace(m);
}

static uint32_t pad(unsigned pin) { return *word(map->pads_bank0 + 4 + 4 * pin); }

static bool connected(unsigned pin, uint32_t function) {
    const bool there = rp_out_of_reset(map->reset_io_bank0) && rp_out_of_reset(map->reset_pads_bank0);
    return there && (*word(map->io_bank0 + 4 + 8 * pin) & 31) == function && !(pad(pin) & map->isolated);
}

bool rp_uart_pins_connected(void) { return connected(0, UART) && connected(1, UART) && pad(1) & PAD_INPUT; }

static bool uart_clocked(void) {
    return rp_out_of_reset(map->reset_uart0) && (*word(map->clocks + PERI_CTRL) & (PERI_ENABLE | 7 << 5)) == PERI_ENABLE;
}

uint32_t rp_requested_irq(const struct machine *m) {
    return m->uart.rx_full && *word(map->uart0 + IMSC) & RX_INTERRUPT ? map->uart_irq : NO_IRQ;
}

static uint32_t read_uart(struct machine *m, uint32_t offset) {
    struct uart *u = &m->uart;
    if (!uart_clocked()) return 0;
    if (offset == FR)
        return (uart_tx_done(m) ? FR_TXFE : FR_BUSY) | (u->rx_full ? 0 : FR_RXFE) | (u->tx_enabled && uart_tx_ready(m) ? 0 : FR_TXFF);
    if (offset != DR) return *word(map->uart0 + offset);
    const uint32_t overrun = u->overrun ? DR_OVERRUN : 0;
    return uart_read(m) | overrun;
}

/* The divider counts from the write of LCR_H (4.2.7.1); other frames than 8N1 are not modelled: nothing is understood. FIFOs hold one
 * byte. */
static void write_uart(struct machine *m, uint32_t offset, uint32_t value) {
    struct uart *u = &m->uart;
    if (!uart_clocked()) return;
    if (offset == DR) {
        uart_write(m, (uint8_t)value);
        return;
    }
    *word(map->uart0 + offset) = value;
    if (offset == RSR) u->overrun = false;
    if (offset == LCR_H) u->byte_cycles = 10 * (64 * *word(map->uart0 + IBRD) + *word(map->uart0 + FBRD)) / 4;
    if (offset == CR || offset == LCR_H) {
        const uint32_t control = *word(map->uart0 + CR);
        const bool on = control & CR_ON && (*word(map->uart0 + LCR_H) & ~FIFOS) == EIGHT_BITS;
        u->rx_enabled = on && control & CR_RX;
        u->tx_enabled = on && control & CR_TX;
    }
    m->next_event = 0;
}

static bool inside(uint32_t at, uint32_t base, uint32_t bytes) { return at >= base && at < base + bytes; }

static uint32_t read_word(struct machine *m, uint32_t at) {
    const uint32_t value = *word(at);
    if (inside(at, map->uart0, UART_BYTES)) return read_uart(m, at - map->uart0);
    if (at == map->resets + RESET_DONE) return ~*word(map->resets) & ALL_BLOCKS;
    if (at == map->xosc + XOSC_STATUS) return (uint32_t)crystal_runs() << 31;
    if (at == map->pll_sys) return value | (*word(at + PLL_PWR) & 0x21 || !*word(at + PLL_FBDIV) ? 0 : 1u << 31);
    if (at == map->clocks + REF_SELECTED) return 1u << (*word(map->clocks + REF_CTRL) & 3);
    if (at == map->clocks + SYS_SELECTED) return 1u << (*word(map->clocks + SYS_CTRL) & 1);
    return map->read ? map->read(m, at, value) : value;
}

static void written(struct machine *m, uint32_t at, uint32_t value) {
    if (inside(at, map->uart0, UART_BYTES)) {
        write_uart(m, at - map->uart0, value);
        return;
    }
    if (inside(at, map->pll_sys, 16) && !rp_out_of_reset(map->reset_pll_sys)) return;
    if (inside(at, map->io_bank0, 8 * PINS) && !rp_out_of_reset(map->reset_io_bank0)) return;
    if (inside(at, map->pads_bank0, 4 + 4 * PINS) && !rp_out_of_reset(map->reset_pads_bank0)) return;
    *word(at) = value;
    if (at == map->clocks + REF_CTRL || at == map->clocks + SYS_CTRL || (inside(at, map->pll_sys, 16) && *word(map->clocks + SYS_CTRL) & 1))
        check_clock(m);
    if (map->written) map->written(m, at, value);
}

static uint64_t read_apb(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    return read_word(user, APB + ((uint32_t)offset & ~(3u * ALIAS_BYTES)));
}

/* Aliases of a block of registers: as it is, exclusive or, set, clear (2.1.2). */
static void write_apb(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    const uint32_t at = APB + ((uint32_t)offset & ~(3u * ALIAS_BYTES)), held = *word(at), given = (uint32_t)value;
    const uint32_t results[] = {given, held ^ given, held | given, held & ~given};
    written(user, at, results[offset / ALIAS_BYTES & 3]);
}

static uint64_t read_sio(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    return map->read_sio ? map->read_sio((uint32_t)offset) : 0;
}

static void write_sio(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    const uint32_t before = outputs & enabled_outputs, at = SIO + (uint32_t)offset;
    if (at == map->sio_set) outputs |= (uint32_t)value;
    if (at == map->sio_clear) outputs &= ~(uint32_t)value;
    if (at == map->sio_oe_set) enabled_outputs |= (uint32_t)value;
    pins_changed(m, 0, before, outputs & enabled_outputs);
    if (map->write_sio) map->write_sio((uint32_t)offset, (uint32_t)value);
}

void rp_map_peripherals(struct machine *m, const struct rp_map *of_chip) {
    map = of_chip;
    map_registers(m, APB, map->apb_bytes, read_apb, write_apb);
    map_registers(m, SIO, SIO_BYTES, read_sio, write_sio);
}

void rp_reset(struct machine *m) {
    memset(words, 0, sizeof words);
    outputs = enabled_outputs = 0;
    *word(map->resets) = ALL_BLOCKS;
    *word(map->pll_sys + PLL_PWR) = PLL_AT_RESET;
    for (unsigned pin = 0; pin < PINS; ++pin) {
        *word(map->io_bank0 + 4 + 8 * pin) = 31;
        *word(map->pads_bank0 + 4 + 4 * pin) = map->isolated | (map->isolated ? 0x16 : PAD_AT_RESET);
    }
    m->uart.keep_old_on_overrun = true;
}

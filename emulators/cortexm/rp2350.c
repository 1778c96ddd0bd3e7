/* RP2350 of the Raspberry Pi Pico 2, one of its Cortex-M33s: memory map and boot ROM beside what rp.c has. Code and constants are read
 * through a cache of 16 KiB, two ways of lines of 8 bytes; how fast, the ROM decides: quad reads at a third of the clock are assumed. */
#include "rp.h"
#include "uf2.h"

#include <string.h>

enum { SEARCHED_BYTES = 4096, LINE_CLOCKS = 8 + 4 + 16, DIVIDER = 3 };

static const struct rp_map registers = {
    .apb_bytes = 0x110000, .clocks = 0x40010000, .resets = 0x40020000, .io_bank0 = 0x40028000, .pads_bank0 = 0x40038000,
    .xosc = 0x40048000, .pll_sys = 0x40050000, .uart0 = 0x40070000,
    .reset_io_bank0 = 1 << 6, .reset_pads_bank0 = 1 << 9, .reset_pll_sys = 1 << 14, .reset_uart0 = 1 << 26, .isolated = 1 << 8,
    .sio_set = 0xD0000018, .sio_clear = 0xD0000020, .sio_oe_set = 0xD0000038,
    .uart_irq = 33, .max_hz = 150000000,
};

static const struct uf2 drive = {
    .family = 0xE48BFF59, .first = 0x10000000, .end = 0x10000000 + (4 << 20),
    .info = "UF2 Bootloader v1.0\r\nModel: Raspberry Pi RP2350\r\nBoard-ID: RP2350\r\n",
};

/* One block of metadata whose first item says: an executable, for Arm, secure, of an RP2350 (datasheet 5.9). */
static bool is_bootable(const struct machine *m) {
    static const uint32_t block[] = {0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579};
    for (uint32_t at = 0; at + sizeof block <= SEARCHED_BYTES; at += 4)
        if (!memcmp(m->flash + at, block, sizeof block)) return true;
    return false;
}

static uint32_t boot_rom(struct machine *m) {
    uint32_t entry;
    if (m->boot0 || !is_bootable(m)) return uf2_loader(m);
    memcpy(&entry, m->flash + 4, sizeof entry);
    return entry;
}

static bool boots_rom(const struct machine *m) {
    (void)m;
    return true;
}

static void map_peripherals(struct machine *m) { rp_map_peripherals(m, &registers); }

static void reset(struct machine *m) {
    rp_reset(m);
    m->icache_on = true;
    m->flash_wait_states = LINE_CLOCKS * DIVIDER;
}

const struct chip rp2350 = {
    .name = "rp2350", .cpu_model = UC_CPU_ARM_CORTEX_M33, .core = CORTEX_M33,
    .flash_base = 0x10000000, .flash_size_bytes = 4 << 20, .flash_mirror = 0x10000000,
    .rams = {{0x20000000, 520 << 10, 0}},
    .timing = {.read_shift = 3, .icache_bytes = 16 << 10, .whole_lines = true},
    .map_peripherals = map_peripherals, .reset = reset,
    .requested_irq = rp_requested_irq, .uart_pins_connected = rp_uart_pins_connected,
    .clock_hz = rp_clock_hz, .boots_rom = boots_rom, .boot_rom = boot_rom, .uf2 = &drive, .sector_bytes = 4 << 10,
};

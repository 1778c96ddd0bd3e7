/* RP2040 of the Raspberry Pi Pico: memory map, boot ROM, the timer and the watchdog's tick beside what rp.c has. Code and constants are
 * read through a cache of 16 KiB, two ways of lines of 8 bytes (datasheet 2.6.3). */
#include "rp.h"
#include "ssi.h"
#include "uf2.h"

#include <string.h>

enum {
    TIMER = 0x40054000, TIMERAWL = TIMER + 0x28, WATCHDOG_SCRATCH0 = 0x4005800C, WATCHDOG_TICK = 0x4005802C, TICK_ENABLE = 1 << 9,
    RESET_TIMER = 1 << 21, CRYSTAL_MHZ = 12, BOOT2_BYTES = 252, BOOT2 = 0x20041F00, BOOT2_ROOM = 256, ROM_STACK = 0x20041F00,
    PLL_USB = 0x4002C000
};

static const uint32_t PLL_LOCKED = 1u << 31;
static uint64_t timer_zero;

static bool timer_runs(void) {
    return rp_out_of_reset(RESET_TIMER) && rp_word(WATCHDOG_TICK) == (TICK_ENABLE | CRYSTAL_MHZ);
}

static uint32_t read_own(struct machine *m, uint32_t at, uint32_t value) {
    if (at != TIMERAWL) return value;
    ++m->io_count; /* who looks at the clock is not idle */
    return timer_runs() ? (uint32_t)((m->cycles.typical - timer_zero) / (rp_clock_hz() / 1000000)) : 0;
}

static uint32_t read_foreign(struct machine *m, uint32_t at, uint32_t value) {
    return at == PLL_USB ? value | PLL_LOCKED : read_own(m, at, value);
}

static void written(struct machine *m, uint32_t at, uint32_t value) {
    if (at == WATCHDOG_SCRATCH0) write_trace(m, value);
    if (at == WATCHDOG_TICK) timer_zero = m->cycles.typical;
}

#define REGISTERS \
    .apb_bytes = 0x70000, .clocks = 0x40008000, .resets = 0x4000C000, .io_bank0 = 0x40014000, .pads_bank0 = 0x4001C000, \
    .xosc = 0x40024000, .pll_sys = 0x40028000, .uart0 = 0x40034000, \
    .reset_io_bank0 = 1 << 5, .reset_pads_bank0 = 1 << 8, .reset_pll_sys = 1 << 12, .reset_uart0 = 1 << 22, \
    .sio_set = 0xD0000014, .sio_clear = 0xD0000018, .sio_oe_set = 0xD0000024, \
    .uart_irq = 20, .max_hz = 133000000, .written = written

static const struct rp_map registers = {REGISTERS, .read = read_own};
static const struct rp_map foreign_registers = {
    REGISTERS, .read = read_foreign, .read_sio = rp2040_read_sio, .write_sio = rp2040_write_sio};

static const struct uf2 drive = {
    .family = 0xE48BFF56, .first = 0x10000000, .end = 0x10000000 + (2 << 20),
    .info = "UF2 Bootloader v3.0\r\nModel: Raspberry Pi RP2\r\nBoard-ID: RPI-RP2\r\n",
};

static uint32_t crc32(const uint8_t *bytes, unsigned count) {
    uint32_t crc = ~0u;
    while (count--) {
        crc ^= (uint32_t)*bytes++ << 24;
        for (int bit = 0; bit < 8; ++bit) crc = crc & 1u << 31 ? crc << 1 ^ 0x04C11DB7 : crc << 1;
    }
    return crc;
}

static bool is_bootable(const struct machine *m) {
    uint32_t said;
    memcpy(&said, m->flash + BOOT2_BYTES, sizeof said);
    return said == crc32(m->flash, BOOT2_BYTES);
}

/* A second stage with a right CRC is run; without one, or with BOOTSEL held, the chip is a drive (2.8.1). */
static uint32_t boot_rom(struct machine *m) {
    const uint32_t stack = ROM_STACK, zero = 0;
    uint32_t vectors[2];
    if (m->boot0 || !is_bootable(m)) return uf2_loader(m);
    check(uc_mem_write(m->uc, BOOT2, m->flash, BOOT2_ROOM), "second stage");
    memcpy(vectors, m->flash + BOOT2_ROOM, sizeof vectors);
    uc_reg_write(m->uc, UC_ARM_REG_SP, &stack);
    uc_reg_write(m->uc, UC_ARM_REG_LR, &zero);
    m->min_sp = stack;
    run(m, BOOT2, vectors[1] & ~1u);
    m->min_sp = vectors[0];
    if (m->stacks) stacks_restart(m, vectors[1] & ~1u, vectors[0]);
    return vectors[1];
}

static bool boots_rom(const struct machine *m) {
    (void)m;
    return true;
}

static void map_peripherals(struct machine *m) {
    rp_map_peripherals(m, &registers);
    ssi_map(m);
}

static void reset(struct machine *m) {
    rp_reset(m);
    ssi_reset(m);
    timer_zero = 0;
    m->icache_on = true;
    m->flash_wait_states = 0;
}

static void map_foreign(struct machine *m) {
    rp_map_peripherals(m, &foreign_registers);
    ssi_map(m);
    rp2040_map_foreign(m);
}

static void reset_foreign(struct machine *m) {
    reset(m);
    rp2040_reset_foreign();
}

#define CHIP \
    .cpu_model = UC_CPU_ARM_CORTEX_M0, .core = CORTEX_M0PLUS, \
    .flash_base = 0x10000000, .flash_size_bytes = 2 << 20, .flash_mirror = 0x10000000, \
    .timing = {.read_shift = 3, .icache_bytes = 16 << 10, .whole_lines = true}, \
    .requested_irq = rp_requested_irq, .uart_pins_connected = rp_uart_pins_connected, \
    .clock_hz = rp_clock_hz, .boots_rom = boots_rom, .boot_rom = boot_rom, .uf2 = &drive, .sector_bytes = 4 << 10

const struct chip rp2040 = {.name = "rp2040", .rams = {{0x20000000, 264 << 10, 0}}, .map_peripherals = map_peripherals, .reset = reset, CHIP};
const struct chip rp2040_foreign = {
    .name = "rp2040-foreign", .rams = {{0x20000000, 264 << 10, 0}, {0x00000000, 16 << 10, 0}}, .map_peripherals = map_foreign, .reset = reset_foreign, CHIP};

/* The two flash controllers of the SAM3X8E (datasheet 11057C, chapter 18): page latch, commands, GPNVM bits.
 * Lock bits and the unique identifier are not modelled. Pages change at once and the controller is busy afterwards; a GPNVM bit
 * changes when its time is over, so that a reset of the chip meanwhile loses it (BOSSA issue 125). */
#include "eefc.h"

#include <string.h>

enum {
    PAGE_BYTES = 256, PLANE_BYTES = 256 << 10, PLANES = 2,
    GETD = 0x0, WP = 0x1, WPL = 0x2, EWP = 0x3, EWPL = 0x4, EA = 0x5, SLB = 0x8, CLB = 0x9, GLB = 0xA, SGPB = 0xB, CGPB = 0xC,
    GGPB = 0xD, KEY = 0x5A, GPNVM_BITS = 3,
    FRDY = 1 << 0, FCMDE = 1 << 1,
    PAGE_US = 4600, PLANE_US = 10000, FUSE_US = 4600, /* datasheet 11057C, table 45-46: program cycle with erase, full erase */
    WIRE_BYTE_US = 87, ROM_CYCLES_PER_US = 4           /* ten bits at 115200 Bd; the ROM runs on the 4 MHz oscillator */
};

static uint8_t latch[PAGE_BYTES]; /* one buffer serves both planes */
static uint32_t result[PLANES];
static bool refused[PLANES];
static uint64_t busy_until_us[PLANES];
static struct {
    bool waits;
    uint8_t value;
} fuses;

/* Emulated time since the reset: of the wire, at its slowest, and of code that runs. Silence does not count. */
static uint64_t now_us(const struct machine *m) {
    return m->rom_wire_bytes * WIRE_BYTE_US + m->cycles.typical / ROM_CYCLES_PER_US;
}

static bool is_busy(const struct machine *m, int plane) { return now_us(m) < busy_until_us[plane]; }

static void finish_fuses(struct machine *m) {
    if (fuses.waits) m->fuses = fuses.value;
    fuses.waits = false;
}

/* Unicorn carries out a store to flash even though the page is read-only to the program; it has to be taken back. */
static struct {
    uint32_t offset;
    uint8_t was;
} stored[2 * PAGE_BYTES];
static unsigned stored_count;

void eefc_settle(struct machine *m) {
    while (stored_count) {
        --stored_count;
        m->flash[stored[stored_count].offset] = stored[stored_count].was;
    }
}

void eefc_break_off(struct machine *m) {
    if (is_busy(m, 0)) fuses.waits = false;
}

/* Whoever pulls the reset pin has taken longer than any command. */
void eefc_reset(struct machine *m) {
    finish_fuses(m);
    memset(busy_until_us, 0, sizeof busy_until_us);
    memset(latch, 0xFF, sizeof latch);
    memset(result, 0, sizeof result);
    memset(refused, 0, sizeof refused);
}

void eefc_latch(struct machine *m, uint32_t addr, unsigned size, uint64_t value) {
    const uint32_t offset = addr - m->chip->flash_base;
    if (stored_count + size > sizeof stored / sizeof *stored) eefc_settle(m);
    for (unsigned i = 0; i < size; ++i) {
        latch[(offset + i) % PAGE_BYTES] = value >> 8 * i;
        stored[stored_count].offset = offset + i;
        stored[stored_count++].was = m->flash[offset + i];
    }
}

static bool write_page(struct machine *m, int plane, uint32_t page, bool erase) {
    if (page >= PLANE_BYTES / PAGE_BYTES) return false;
    const uint32_t offset = plane * PLANE_BYTES + page * PAGE_BYTES;
    if (erase) flash_erase(m, offset, PAGE_BYTES);
    flash_program(m, offset, latch, PAGE_BYTES);
    memset(latch, 0xFF, sizeof latch);
    rom_forget_code(m);
    return true;
}

static bool set_fuse(struct machine *m, uint32_t bit, bool on) {
    if (bit >= GPNVM_BITS) return false;
    fuses.value = on ? m->fuses | 1 << bit : m->fuses & ~(1 << bit);
    return fuses.waits = true;
}

static uint32_t duration_us(uint32_t command) {
    switch (command) {
    case WP: case WPL: case EWP: case EWPL: return PAGE_US;
    case EA: return PLANE_US;
    case SGPB: case CGPB: return FUSE_US;
    default: return 0;
    }
}

static bool execute(struct machine *m, int plane, uint32_t command, uint32_t argument) {
    result[plane] = 0;
    switch (command) {
    case WP: case WPL: return write_page(m, plane, argument, false);
    case EWP: case EWPL: return write_page(m, plane, argument, true);
    case EA: rom_forget_code(m); return flash_erase(m, plane * PLANE_BYTES, PLANE_BYTES);
    case SGPB: return set_fuse(m, argument, true);
    case CGPB: return set_fuse(m, argument, false);
    case GGPB: result[plane] = m->fuses; return true;
    case GETD: case SLB: case CLB: case GLB: return true;
    default: return false;
    }
}

void eefc_command(struct machine *m, int plane, uint32_t value) {
    eefc_settle(m);
    refused[plane] = value >> 24 != KEY || is_busy(m, plane);
    if (refused[plane]) return;
    finish_fuses(m);
    refused[plane] = !execute(m, plane, value & 0xFF, value >> 8 & 0xFFFF);
    if (!refused[plane]) busy_until_us[plane] = now_us(m) + duration_us(value & 0xFF);
}

uint32_t eefc_status(const struct machine *m, int plane) {
    const uint32_t status = (is_busy(m, plane) ? 0 : FRDY) | (refused[plane] ? FCMDE : 0);
    refused[plane] = false; /* cleared by reading */
    return status;
}

uint32_t eefc_result(int plane) { return result[plane]; }

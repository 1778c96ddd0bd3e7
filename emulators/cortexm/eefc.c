/* The two flash controllers of the SAM3X8E (datasheet 11057C, chapter 18): page latch, commands, GPNVM bits.
 * Lock bits and the unique identifier are not modelled. A command is finished before the next instruction. */
#include "eefc.h"

#include <string.h>

enum {
    PAGE_BYTES = 256, PLANE_BYTES = 256 << 10, PLANES = 2,
    GETD = 0x0, WP = 0x1, WPL = 0x2, EWP = 0x3, EWPL = 0x4, EA = 0x5, SLB = 0x8, CLB = 0x9, GLB = 0xA, SGPB = 0xB, CGPB = 0xC,
    GGPB = 0xD, KEY = 0x5A, GPNVM_BITS = 3,
    FRDY = 1 << 0, FCMDE = 1 << 1
};

static uint8_t latch[PAGE_BYTES]; /* one buffer serves both planes */
static uint32_t result[PLANES];
static bool refused[PLANES];

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

void eefc_reset(void) {
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
    m->fuses = on ? m->fuses | 1 << bit : m->fuses & ~(1 << bit);
    return true;
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
    refused[plane] = value >> 24 != KEY || !execute(m, plane, value & 0xFF, value >> 8 & 0xFFFF);
}

uint32_t eefc_status(int plane) {
    const uint32_t status = FRDY | (refused[plane] ? FCMDE : 0);
    refused[plane] = false; /* cleared by reading */
    return status;
}

uint32_t eefc_result(int plane) { return result[plane]; }

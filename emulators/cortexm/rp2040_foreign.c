/* RP2040 for firmware that is not ours: what pico-sdk's start asks for beside what rp2040.c has. The boot ROM's table and the functions
 * of it that it fetches (datasheet 2.8.3), written here: what they do is the chip's, how long they take is not; its floating point is not
 * there, and calling it is a fault. SIO's divider and spin locks (2.3.1), the USB block as if it were off. Other registers keep what is
 * written. */
#include "rp.h"

#include <string.h>

enum {
    ROM_BYTES = 16 << 10, VERSION_AT = 0x10, FUNCTIONS_AT = 0x14, DATA_AT = 0x16, LOOKUP_AT = 0x18, CODE = 0x100, FUNCTIONS = 0x200,
    DATA = 0x280, FLOATS = 0x300, FLOAT_ENTRIES = 48, USB = 0x50100000, USB_BYTES = 0x20000,
    UDIVIDEND = 0x60, UDIVISOR = 0x64, SDIVIDEND = 0x68, SDIVISOR = 0x6C, QUOTIENT = 0x70, REMAINDER = 0x74, DIVIDER_STATE = 0x78,
    READY = 1, DIRTY = 2, LOCKS = 0x100, LOCK_COUNT = 32
};

/* Thumb: lookup(table, code), memset, memcpy, popcount, clz, ctz, reverse; the last is undefined. */
static const uint16_t code[] = {
    0x8802, 0x2A00, 0xD003, 0x428A, 0xD003, 0x3004, 0xE7F8, 0x2000, 0x4770, 0x8840, 0x4770,         /* ldrh r2, [r0] until 0 or r1 */
    0x3A01, 0xD301, 0x5481, 0xE7FB, 0x4770,                                                         /* strb r1, [r0, r2] backwards */
    0x3A01, 0xD302, 0x5C8B, 0x5483, 0xE7FA, 0x4770,                                                 /* ldrb, strb backwards */
    0x2100, 0x2800, 0xD003, 0x1E42, 0x4010, 0x3101, 0xE7F9, 0x0008, 0x4770,                         /* r0 &= r0 - 1 until 0 */
    0x2120, 0x2800, 0xD002, 0x0840, 0x3901, 0xE7FA, 0x0008, 0x4770,                                 /* lsrs until 0 */
    0x2100, 0x2800, 0xD003, 0x0840, 0xD202, 0x3101, 0xE7FB, 0x2120, 0x0008, 0x4770,                 /* lsrs until a carry */
    0x2100, 0x2220, 0x0840, 0x4149, 0x3A01, 0xD1FB, 0x0008, 0x4770,                                 /* lsrs r0, adcs r1 */
    0xDE00,
};

enum { LOOKUP = CODE | 1, MEMSET = LOOKUP + 0x16, MEMCPY = LOOKUP + 0x20, POPCOUNT = LOOKUP + 0x2C, CLZ = LOOKUP + 0x3E, CTZ = LOOKUP + 0x4E,
       REVERSE = LOOKUP + 0x62, UNDEFINED = LOOKUP + 0x72 };

#define NAMED(a, b) ((a) | (b) << 8)
static const uint16_t functions[] = {
    NAMED('M', 'S'), MEMSET, NAMED('S', '4'), MEMSET, NAMED('M', 'C'), MEMCPY, NAMED('C', '4'), MEMCPY,
    NAMED('P', '3'), POPCOUNT, NAMED('L', '3'), CLZ, NAMED('T', '3'), CTZ, NAMED('R', '3'), REVERSE, 0,
};
static const uint16_t data[] = {NAMED('S', 'F'), FLOATS, NAMED('S', 'D'), FLOATS, 0};

static uint32_t dividend, divisor, quotient, rest, taken;
static bool is_signed, dirty;

static void divide(void) {
    const int32_t a = (int32_t)dividend, b = (int32_t)divisor;
    if (!b) quotient = is_signed && a < 0 ? 1 : ~0u;
    else if (!is_signed) quotient = dividend / divisor;
    else quotient = b == -1 ? 0u - dividend : (uint32_t)(a / b);
    rest = dividend - quotient * divisor;
    dirty = true;
}

uint32_t rp2040_read_sio(uint32_t offset) {
    switch (offset) {
    case UDIVIDEND: case SDIVIDEND: return dividend;
    case UDIVISOR: case SDIVISOR: return divisor;
    case QUOTIENT: dirty = false; return quotient;
    case REMAINDER: return rest;
    case DIVIDER_STATE: return READY | (dirty ? DIRTY : 0);
    }
    const uint32_t bit = offset - LOCKS < 4 * LOCK_COUNT ? 1u << (offset - LOCKS) / 4 : 0, free = bit & ~taken;
    taken |= bit;
    return free;
}

void rp2040_write_sio(uint32_t offset, uint32_t value) {
    switch (offset) {
    case UDIVIDEND: case SDIVIDEND: dividend = value; break;
    case UDIVISOR: case SDIVISOR: divisor = value; break;
    case QUOTIENT: quotient = value; dirty = true; return;
    case REMAINDER: rest = value; dirty = true; return;
    default:
        if (offset - LOCKS < 4 * LOCK_COUNT) taken &= ~(1u << (offset - LOCKS) / 4);
        return;
    }
    is_signed = offset >= SDIVIDEND;
    divide();
}

static uint64_t read_usb(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)offset;
    (void)size;
    (void)user;
    return 0;
}

static void write_usb(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)value;
    (void)read_usb(uc, offset, size, user);
}

static void put(uint8_t *rom, uint32_t at, const void *bytes, size_t count) { memcpy(rom + at, bytes, count); }

void rp2040_map_foreign(struct machine *m) {
    static const uint8_t version[] = {'M', 'u', 1, 3};
    static const uint16_t places[] = {FUNCTIONS, DATA, LOOKUP};
    static const uint32_t undefined = UNDEFINED;
    uint8_t *const rom = memory_at(m, 0, ROM_BYTES);
    put(rom, VERSION_AT, version, sizeof version);
    put(rom, FUNCTIONS_AT, places, sizeof places);
    put(rom, CODE, code, sizeof code);
    put(rom, FUNCTIONS, functions, sizeof functions);
    put(rom, DATA, data, sizeof data);
    for (unsigned i = 0; i < FLOAT_ENTRIES; ++i) put(rom, FLOATS + 4 * i, &undefined, sizeof undefined);
    check(uc_mem_protect(m->uc, 0, ROM_BYTES, UC_PROT_READ | UC_PROT_EXEC), "boot ROM");
    map_registers(m, USB, USB_BYTES, read_usb, write_usb);
}

void rp2040_reset_foreign(void) {
    dividend = divisor = quotient = rest = taken = 0;
    is_signed = dirty = false;
}

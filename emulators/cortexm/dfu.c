/* A packet is acknowledged when it has been carried out; what the boot loader refuses gets no answer. */
#include "dfu.h"

#include <string.h>

enum {
    SLIP_END = 0xC0, SLIP_ESCAPE = 0xDB, ESCAPED_END = 0xDC, ESCAPED_ESCAPE = 0xDD,
    HEADER_BYTES = 4, CRC_BYTES = 2, MOST_BYTES = HEADER_BYTES + 4 + 512 + CRC_BYTES, VENDOR_PACKET = 14,
    INIT = 1, START = 3, DATA = 4, STOP = 5, APPLICATION = 4, ANY_DEVICE = 0xFFFF, ANY_SOFTDEVICE = 0xFFFE
};

static struct {
    uint8_t packet[MOST_BYTES];
    unsigned length;
    bool escaped, ready; /* ready: what comes is announced and fits */
    uint8_t next;        /* number of the packet that is expected */
    uint32_t size, written;
    uint16_t crc;
} dfu;

static uint32_t little(const uint8_t *at, unsigned bytes) {
    uint32_t value = 0;
    while (bytes--) value = value << 8 | at[bytes];
    return value;
}

static void acknowledge(struct machine *m) {
    const uint8_t first = dfu.next << 3, answer[] = {SLIP_END, first, 0, 0, -first, SLIP_END};
    rom_put(m, answer, sizeof answer);
}

static bool start(struct machine *m, const struct dfu *kind, const uint8_t *body, unsigned bytes) {
    if (bytes != 16 || little(body, 4) != APPLICATION) return false;
    dfu.size = little(body + 12, 4), dfu.written = 0, dfu.ready = false;
    if (!dfu.size || dfu.size > kind->end - kind->first) return false;
    const uint32_t sector = m->chip->sector_bytes;
    return flash_erase(m, kind->first, (dfu.size + sector - 1) / sector * sector);
}

/* device, revision, version of the program, how many SoftDevices there are to choose from, these, checksum of the image */
static bool init(const struct dfu *kind, const uint8_t *body, unsigned bytes) {
    const unsigned count = bytes >= 10 ? little(body + 8, 2) : 0;
    if (!dfu.size || bytes < 12 + 2 * count) return false;
    const uint32_t device = little(body, 2);
    bool fits = false;
    for (unsigned i = 0; i < count; ++i) {
        const uint32_t wanted = little(body + 10 + 2 * i, 2);
        fits |= wanted == kind->softdevice || wanted == ANY_SOFTDEVICE;
    }
    dfu.crc = little(body + 10 + 2 * count, 2);
    return dfu.ready = fits && (device == kind->device || device == ANY_DEVICE);
}

static bool data(struct machine *m, const struct dfu *kind, const uint8_t *body, unsigned bytes) {
    if (!dfu.ready || bytes > dfu.size - dfu.written) return false;
    flash_program(m, kind->first + dfu.written, body, bytes);
    dfu.written += bytes;
    return true;
}

static bool is_whole(const struct machine *m, const struct dfu *kind) {
    return dfu.ready && dfu.written == dfu.size && rom_crc16(0xFFFF, m->flash + kind->first, dfu.size) == dfu.crc;
}

static bool is_sound(const uint8_t *p, unsigned length) {
    if (length < HEADER_BYTES + 4 + CRC_BYTES || (uint8_t)(p[0] + p[1] + p[2] + p[3])) return false;
    const unsigned body = p[1] >> 4 | p[2] << 4, end = length - CRC_BYTES;
    return (p[1] & 15) == VENDOR_PACKET && body == end - HEADER_BYTES && rom_crc16(0xFFFF, p, end) == little(p + end, 2);
}

/* True when an image is complete. */
static bool take_packet(struct machine *m, const struct dfu *kind) {
    const uint8_t *const body = dfu.packet + HEADER_BYTES + 4, number = dfu.packet[0] & 7;
    if (!is_sound(dfu.packet, dfu.length)) return false;
    const unsigned bytes = dfu.length - HEADER_BYTES - 4 - CRC_BYTES;
    const uint32_t what = little(dfu.packet + HEADER_BYTES, 4);
    bool done = true;
    if (what != START && number != dfu.next) {
        acknowledge(m); /* one that has been seen */
        return false;
    }
    switch (what) {
    case START: done = start(m, kind, body, bytes); break;
    case INIT: done = init(kind, body, bytes); break;
    case DATA: done = data(m, kind, body, bytes); break;
    case STOP: done = is_whole(m, kind); break;
    default: done = false;
    }
    if (!done) return false;
    dfu.next = (number + 1) & 7;
    acknowledge(m);
    return what == STOP;
}

bool dfu_take(struct machine *m, const struct dfu *kind, uint8_t byte) {
    if (byte == SLIP_END) {
        const bool complete = take_packet(m, kind);
        dfu.length = 0, dfu.escaped = false;
        return complete;
    }
    if (dfu.escaped) byte = byte == ESCAPED_END ? SLIP_END : byte == ESCAPED_ESCAPE ? SLIP_ESCAPE : byte;
    else if (byte == SLIP_ESCAPE) return !(dfu.escaped = true);
    dfu.escaped = false;
    if (dfu.length < MOST_BYTES) dfu.packet[dfu.length++] = byte;
    return false;
}

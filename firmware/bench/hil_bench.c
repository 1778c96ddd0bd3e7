/* The board's side of the wire in plain C, by polling: one slot for a sample, one result kept (docs/protocol.md). */
#include "hil_bench.h"

enum { HELLO_REQUEST = 1, START, DATA, PING, GET_RESULT, FINISH, HELLO = 0x81, ACK, RESULT, STATS, REFUSED };
enum { STARTED = 1, RESEND = 2, ASKED = 4 };
enum { VERSION = 2, CHUNK_BYTES = 128, DATA_HEADER = 5, MOST_BYTES = 250, PAINT = 0xA5, MARGIN = 64 };

/* First 8 bytes of SHA-256 over the linked image with this field zeroed: `hil run --firmware` writes it before it loads. */
extern const volatile uint8_t hil_image_hash[8];
const volatile uint8_t hil_image_hash[8] __attribute__((used)) = {0};
extern const volatile char hil_bench_card[];

static const struct hil_bench *bench;

static struct {
    uint16_t crc;
    uint8_t left, code, length; /* of the block, its code byte, decoded bytes */
    uint8_t type, head[4];      /* of the message */
} frame;

static struct {
    uint8_t mode, number;      /* of the session */
    uint16_t sample, chunk;    /* expected next */
    uint16_t computed, damaged;
    uint32_t filled, ticks, crc32; /* bytes of the sample, of the newest result, of all results */
} state;

static uint16_t crc16(uint16_t crc, uint8_t byte) {
    uint8_t bit;
    crc ^= (uint16_t)(byte << 8);
    for (bit = 0; bit < 8; ++bit) crc = (uint16_t)(crc & 0x8000 ? (uint16_t)(crc << 1) ^ 0x1021 : crc << 1);
    return crc;
}

static void add_crc32(const uint8_t *bytes, uint32_t count) {
    uint8_t bit;
    while (count--) {
        uint32_t crc = ~state.crc32 ^ *bytes++;
        for (bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320UL : 0);
        state.crc32 = ~crc;
    }
}

static uint8_t *u16(uint8_t *at, uint16_t value) {
    *at++ = (uint8_t)value;
    *at++ = (uint8_t)(value >> 8);
    return at;
}

static uint8_t *u32(uint8_t *at, uint32_t value) { return u16(u16(at, (uint16_t)value), (uint16_t)(value >> 16)); }

/* Byte i of a message of two parts and its checksum. */
static uint8_t part(const uint8_t *head, uint8_t head_bytes, const uint8_t *tail, uint32_t bytes, uint16_t crc, uint32_t i) {
    if (i < head_bytes) return head[i];
    if (i < bytes) return tail[i - head_bytes];
    return (uint8_t)(i == bytes ? crc >> 8 : crc);
}

static void send(const uint8_t *head, const uint8_t *head_end, const uint8_t *tail, uint16_t tail_bytes) {
    const uint8_t head_bytes = (uint8_t)(head_end - head);
    const uint32_t bytes = (uint32_t)head_bytes + tail_bytes, total = bytes + 2;
    uint16_t crc = 0;
    uint32_t i, block;
    for (i = 0; i < bytes; ++i) crc = crc16(crc, part(head, head_bytes, tail, bytes, 0, i));
    i = 0;
    for (;;) {
        uint8_t code = 1;
        while (code < 0xFF && i < total && part(head, head_bytes, tail, bytes, crc, i) != 0) ++i, ++code;
        bench->put(code);
        for (block = i - (code - 1u); block < i; ++block) bench->put(part(head, head_bytes, tail, bytes, crc, block));
        if (i == total) break;
        if (code < 0xFF) ++i;
    }
    bench->put(0);
}

static uint16_t chunks(void) { return (uint16_t)((bench->sample_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES); }

static uint8_t *position(uint8_t *at) { return u16(u16(u16(at, state.sample), state.chunk), (uint16_t)(chunks() - state.chunk)); }

static void send_ack(uint8_t flags) {
    uint8_t head[8], *end = head;
    *end++ = ACK;
    end = position(end);
    *end++ = flags;
    send(head, end, 0, 0);
}

static void send_hello(void) {
    uint8_t head[40], *end = head, i;
    *end++ = HELLO;
    *end++ = VERSION;
    for (i = 0; i < 8; ++i) *end++ = hil_image_hash[i];
    end = u32(u32(end, bench->clock_hz), bench->sample_bytes);
    end = u16(u16(u16(end, CHUNK_BYTES), chunks()), bench->output_bytes);
    *end++ = 1; /* slot */
    *end++ = 0; /* not streamed */
    for (i = 0; i < 8; ++i) *end++ = 0; /* no hash of a model */
    for (i = 0; i < 6; ++i) *end++ = i % 3 ? 0 : 1; /* twice: bytes, exponent 0, no axes; the card says more */
    send(head, end, 0, 0);
}

static const uint8_t *result_bytes(void) { return (const uint8_t *)hil_engine_output(); }

static void send_result(void) {
    uint8_t head[17], *end = head;
    *end++ = RESULT;
    end = u32(u32(u16(end, (uint16_t)(state.computed - 1)), state.ticks), 0);
    send(head, position(end), result_bytes(), bench->output_bytes);
}

static void paint(void) {
    volatile uint8_t here;
    volatile uint8_t *at = bench->stack_low;
    if (at == 0) return;
    while ((uintptr_t)at < (uintptr_t)&here - MARGIN) *at++ = PAINT;
}

static uint32_t stack_peak(void) {
    const uint8_t *at = bench->stack_low;
    if (at == 0) return 0xFFFFFFFFUL;
    while (at < bench->stack_top && *at == PAINT) ++at;
    return (uint32_t)(bench->stack_top - at);
}

static void send_stats(void) {
    uint8_t head[25], *end = head;
    *end++ = STATS;
    end = u32(u32(u16(end, state.computed), stack_peak()), 0xFFFFFFFFUL); /* the heap is not measured */
    end = u32(u32(end, 0), state.crc32);
    send(head, u16(u16(end, state.damaged), 0), 0, 0);
}

static void infer(void) {
    uint8_t ticks[4];
    const uint32_t begin = bench->ticks();
    hil_engine_invoke();
    state.ticks = bench->ticks() - begin;
    u32(ticks, state.ticks);
    add_crc32(ticks, 4);
    add_crc32(result_bytes(), bench->output_bytes);
    ++state.computed;
    send_result();
}

static void restart(uint8_t mode, uint8_t number) {
    state.mode = mode;
    state.number = number;
    state.sample = state.chunk = state.computed = 0;
    state.filled = state.crc32 = 0;
}

static void refuse(uint8_t type) {
    uint8_t head[2];
    head[0] = REFUSED;
    head[1] = type;
    send(head, head + 2, 0, 0);
}

static void serve(uint8_t type) {
    const uint16_t first = (uint16_t)(frame.head[0] | frame.head[1] << 8);
    if (type == HELLO_REQUEST) {
        send_hello();
    } else if (type == START) {
        if (state.mode != frame.head[0] || state.number != frame.head[1]) restart(frame.head[0], frame.head[1]);
        send_ack(STARTED);
    } else if (type == PING) {
        send_ack(ASKED);
    } else if (type == GET_RESULT && state.computed > 0 && first == (uint16_t)(state.computed - 1)) {
        send_result();
    } else if (type == FINISH) {
        send_stats();
    } else {
        refuse(type);
    }
}

static uint8_t room(void) {
    const uint32_t left = bench->sample_bytes - state.filled;
    return (uint8_t)(left < (uint32_t)CHUNK_BYTES ? left : (uint32_t)CHUNK_BYTES);
}

/* A chunk that came whole: it is the one expected, one seen before, or one behind a gap. */
static void take_chunk(uint8_t length) {
    const uint16_t sample = (uint16_t)(frame.head[0] | frame.head[1] << 8), chunk = (uint16_t)(frame.head[2] | frame.head[3] << 8);
    const int16_t ahead = (int16_t)(sample - state.sample);
    if (sample != state.sample || chunk != state.chunk || length != DATA_HEADER + room() + 2) {
        send_ack(ahead > 0 || (ahead == 0 && chunk >= state.chunk) ? RESEND : 0);
        return;
    }
    state.filled += room();
    if (++state.chunk < chunks()) return;
    state.chunk = 0;
    state.filled = 0;
    ++state.sample;
    infer();
}

static void end_frame(void) {
    const uint8_t length = frame.length;
    const int valid = frame.left == 0 && frame.crc == 0 && length > 2 && length <= MOST_BYTES;
    frame.crc = 0;
    frame.left = frame.code = frame.length = 0;
    if (length == 0) return;
    if (!valid) {
        ++state.damaged;
        send_ack(RESEND);
    } else if (frame.type == DATA) {
        take_chunk(length);
    } else {
        serve(frame.type);
    }
}

static void decoded(uint8_t byte) {
    const uint8_t at = frame.length;
    frame.crc = crc16(frame.crc, byte);
    if (at == 0) frame.type = byte;
    else if (at < DATA_HEADER) frame.head[at - 1] = byte;
    else if (frame.type == DATA && at - DATA_HEADER < room()) ((uint8_t *)hil_engine_input())[state.filled + at - DATA_HEADER] = byte;
    if (frame.length != 0xFF) ++frame.length;
}

static void feed(uint8_t byte) {
    if (byte == 0) {
        end_frame();
    } else if (frame.left == 0) { /* a code byte: the block before it, if any and if not full, ends in a zero */
        const uint8_t before = frame.code;
        frame.code = byte;
        frame.left = (uint8_t)(byte - 1);
        if (before != 0 && before != 0xFF) decoded(0);
    } else {
        --frame.left;
        decoded(byte);
    }
}

void hil_bench_serve(const struct hil_bench *given) {
    bench = given;
    (void)hil_bench_card[0];
    paint();
    hil_engine_init();
    send_hello();
    for (;;) {
        const int byte = bench->get();
        if (byte >= 0) feed((uint8_t)byte);
    }
}

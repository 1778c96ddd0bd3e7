// The framing vectors against the framer. `report(number, what)` is called for each that does not hold.
#pragma once
#include <stdint.h>

#include "firmware/wire/framer.hpp"

#ifdef __AVR__
#include <avr/pgmspace.h>
#define IN_FLASH PROGMEM
static uint8_t read_u8(const uint8_t *at) { return pgm_read_byte(at); }
#else
#define IN_FLASH
static uint8_t read_u8(const uint8_t *at) { return *at; }
#endif

struct Bytes {
    const uint8_t *at;
    uint16_t count;
};

struct Vector {
    Bytes given, expected;
};

#include "vectors.inc"

static Vector vector_at(const Vector *at) {
    Vector vector;
    for (uint16_t i = 0; i < sizeof vector; ++i)
        reinterpret_cast<uint8_t *>(&vector)[i] = read_u8(reinterpret_cast<const uint8_t *>(at) + i);
    return vector;
}

// Compares what is put with what is expected.
struct Matcher {
    Bytes expected;
    uint16_t seen;
    bool equal;
    void put(uint8_t value) {
        equal &= seen < expected.count && read_u8(expected.at + seen) == value;
        ++seen;
    }
    bool matched() const { return equal && seen == expected.count; }
};

struct Events {
    Matcher matcher;
    uint8_t decoded[256];
    void byte(uint8_t index, uint8_t value) { decoded[index] = value; }
    void end(bool valid, uint8_t length) {
        if (length == 0) return;
        matcher.put(valid ? '+' : '-');
        if (!valid) return;
        matcher.put(length);
        for (uint8_t i = 0; i < length; ++i) matcher.put(decoded[i]);
    }
};

static Events events;
static Matcher sent;
static uint8_t message[600];

static bool decodes(const Vector &vector) {
    wire::Decoder decoder;
    events.matcher = {vector.expected, 0, true};
    for (uint16_t i = 0; i < vector.given.count; ++i) decoder.feed(read_u8(vector.given.at + i), events);
    return events.matcher.matched();
}

static bool encodes(const Vector &vector) {
    const uint16_t count = vector.given.count;
    const uint8_t head = count < 200 ? count / 2 : 100;
    for (uint16_t i = 0; i < count; ++i) message[i] = read_u8(vector.given.at + i);
    sent = {vector.expected, 0, true};
    wire::send_frame(message, head, message + head, count - head, [](uint8_t value) { sent.put(value); });
    return sent.matched();
}

// Calls `report` with the number of each vector that fails; returns how many there are.
template <class Report>
uint16_t run_vectors(Report report) {
    uint16_t number = 0;
    for (const Vector &at : streams) {
        if (!decodes(vector_at(&at))) report(number);
        ++number;
    }
    for (const Vector &at : messages) {
        if (!encodes(vector_at(&at))) report(number);
        ++number;
    }
    return number;
}

// Message types and layouts (docs/protocol.md). All numbers little endian.
#pragma once
#include <stdint.h>

namespace wire {

constexpr uint8_t protocol_version = 2;

enum Type : uint8_t {
    hello_request = 0x01,  // -
    start = 0x02,          // mode u8, session u8
    data = 0x03,           // sample u16, chunk u16, bytes
    ping = 0x04,           // -
    get_result = 0x05,     // sample u16
    finish = 0x06,         // -
    hello = 0x81,          // see session.cpp
    ack = 0x82,            // position, flags u8
    result = 0x83,         // sample u16, ticks u32, saturations u32, position, output bytes
    stats = 0x84,          // see session.cpp
    refused = 0x85,        // type u8 of the message that could not be served
    crashed = 0x86,        // pc u32, lr u32, sp u32, cause u32, address u32
    values = 0x87,         // tensor u16, offset u32, bytes of it from there: only where values are logged
    operation = 0x88,      // operation u16, its ticks u32, ticks outside of operations so far u32: only in profiles
};

// A position is: next sample u16, next chunk u16, credit u16 (chunks the host may send from there on).

enum Mode : uint8_t { quiet = 0, stream = 1 };
enum AckFlag : uint8_t { started = 1, resend = 2, asked = 4 };

struct Writer {
    uint8_t *at;
    void u8(uint8_t v) { *at++ = v; }
    void u16(uint16_t v) {
        u8(static_cast<uint8_t>(v));
        u8(static_cast<uint8_t>(v >> 8));
    }
    void u32(uint32_t v) {
        u16(static_cast<uint16_t>(v));
        u16(static_cast<uint16_t>(v >> 16));
    }
};

inline uint16_t read_u16(const uint8_t *p) { return static_cast<uint16_t>(p[0] | (p[1] << 8)); }

}  // namespace wire

// Frames on the wire: COBS, closed by a zero byte; the last two bytes inside are CRC-16/XMODEM, high byte first
// (docs/protocol.md). Decoding takes one byte at a time, so it runs inside a receive interrupt.
#pragma once
#include <stdint.h>

namespace wire {

// CRC-16/XMODEM, polynomial 0x1021, start 0. Over data and its own two bytes it is 0.
inline uint16_t crc16(uint16_t crc, uint8_t byte) {
    crc = static_cast<uint16_t>((crc >> 8) | (crc << 8));
    crc ^= byte;
    crc ^= static_cast<uint8_t>(crc & 0xFF) >> 4;
    crc ^= static_cast<uint16_t>(crc << 12);
    crc ^= static_cast<uint16_t>((crc & 0xFF) << 5);
    return crc;
}

// Decoder. A Sink has `void byte(uint8_t index, uint8_t value)` for every decoded byte, CRC included, and
// `void end(bool valid, uint8_t length)` at each delimiter. Frames of more than 250 decoded bytes are invalid.
class Decoder {
public:
    template <class Sink>
    void feed(uint8_t byte, Sink &sink) {
        if (byte == 0) {
            sink.end(left_ == 0 && crc_ == 0 && length_ > 2 && length_ <= 250, length_);
            crc_ = 0;
            left_ = code_ = length_ = 0;
            return;
        }
        if (left_ == 0) {  // a code byte: the block before it, if any and if not full, ends in a zero
            const uint8_t before = code_;
            code_ = byte;
            left_ = byte - 1;
            if (before == 0 || before == 0xFF) return;
            byte = 0;
        } else {
            --left_;
        }
        crc_ = crc16(crc_, byte);
        sink.byte(length_, byte);
        if (length_ != 0xFF) ++length_;
    }

private:
    uint16_t crc_ = 0;
    uint8_t left_ = 0;    // bytes to come in this block
    uint8_t code_ = 0;    // its code byte, 0 before the first
    uint8_t length_ = 0;  // decoded bytes so far, stays at 255
};

// A frame to send: a head and a tail in RAM, the CRC computed on the way. `put` takes one byte.
template <class Put>
void send_frame(const uint8_t *head, uint8_t head_length, const uint8_t *tail, uint16_t tail_length, Put put) {
    uint16_t crc = 0;
    for (uint8_t i = 0; i < head_length; ++i) crc = crc16(crc, head[i]);
    for (uint16_t i = 0; i < tail_length; ++i) crc = crc16(crc, tail[i]);
    const uint16_t data = head_length + tail_length, total = data + 2;
    const auto at = [&](uint16_t i) -> uint8_t {
        if (i < head_length) return head[i];
        if (i < data) return tail[i - head_length];
        return static_cast<uint8_t>(i == data ? crc >> 8 : crc);
    };
    uint16_t i = 0;
    for (;;) {
        uint8_t run = 0;
        while (run < 254 && i + run < total && at(i + run) != 0) ++run;
        put(static_cast<uint8_t>(run + 1));
        for (const uint16_t end = i + run; i < end; ++i) put(at(i));
        if (i == total) break;
        if (run < 254) ++i;  // the zero that ended the block
    }
    put(0);
}

}  // namespace wire

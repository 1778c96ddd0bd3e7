// Frames on the wire: COBS, closed by a zero byte; the last two bytes inside are CRC-16/XMODEM, high byte first
// (docs/protocol.md). Decoding takes one byte at a time, so it runs inside a receive interrupt.
#pragma once
#include <stdint.h>
#ifdef __AVR__
#include <util/crc16.h>
#endif

namespace wire {

// CRC-16/XMODEM, polynomial 0x1021, start 0. Over data and its own two bytes it is 0.
#ifdef __AVR__
// Not inlined: whoever receives by interrupt calls into here anyway, and flash is scarce.
__attribute__((noinline)) inline uint16_t crc16(uint16_t crc, uint8_t byte) { return _crc_xmodem_update(crc, byte); }
#else
inline uint16_t crc16(uint16_t crc, uint8_t byte) {
    crc = static_cast<uint16_t>((crc >> 8) | (crc << 8));
    crc ^= byte;
    crc ^= static_cast<uint8_t>(crc & 0xFF) >> 4;
    crc ^= static_cast<uint16_t>(crc << 12);
    crc ^= static_cast<uint16_t>((crc & 0xFF) << 5);
    return crc;
}
#endif

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

// A frame to send: a head and a tail in RAM, then their CRC.
struct Outgoing {
    const uint8_t *head, *tail;
    uint8_t head_length;
    uint16_t data_length, crc;

    // Not inlined: three places need it, and flash is dearer than time here.
    __attribute__((noinline)) uint8_t at(uint16_t i) const {
        if (i < head_length) return head[i];
        if (i < data_length) return tail[i - head_length];
        return static_cast<uint8_t>(i == data_length ? crc >> 8 : crc);
    }
};

// `put` takes one byte.
template <class Put>
void send_frame(const uint8_t *head, uint8_t head_length, const uint8_t *tail, uint16_t tail_length, Put put) {
    Outgoing frame{head, tail, head_length, static_cast<uint16_t>(head_length + tail_length), 0};
    uint16_t crc = 0, i = 0;
    for (; i < frame.data_length; ++i) crc = crc16(crc, frame.at(i));
    frame.crc = crc;
    const uint16_t total = i + 2;
    i = 0;
    for (;;) {
        uint8_t code = 1;  // length of the block and its code byte
        while (code < 0xFF && i < total && frame.at(i) != 0) ++i, ++code;
        put(code);
        for (uint16_t block = i - (code - 1); block < i; ++block) put(frame.at(block));
        if (i == total) break;
        if (code < 0xFF) ++i;  // the zero that ended the block
    }
    put(0);
}

}  // namespace wire

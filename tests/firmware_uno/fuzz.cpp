// Decodes as many bytes as the host announces (four bytes, little endian), polled; prints the number of valid frames and
// a CRC over all of them, each preceded by its length.
#include "firmware/wire/framer.hpp"

#include "print.hpp"

static uint8_t receive() {
    while (!(UCSR0A & 1 << RXC0)) {
    }
    return UDR0;
}

struct Digest {
    uint32_t frames;
    uint16_t crc;
    uint8_t decoded[256];
    void byte(uint8_t index, uint8_t value) { decoded[index] = value; }
    void end(bool valid, uint8_t length) {
        if (!valid) return;
        ++frames;
        crc = wire::crc16(crc, length);
        for (uint8_t i = 0; i < length; ++i) crc = wire::crc16(crc, decoded[i]);
    }
};

static Digest digest;

int main() {
    print_init();
    wait_for_host();
    print_char('?');
    uint32_t left = 0;
    for (uint8_t i = 0; i < 32; i += 8) left |= static_cast<uint32_t>(receive()) << i;
    wire::Decoder decoder;
    for (; left > 0; --left) decoder.feed(receive(), digest);
    print_number(digest.frames);
    print_number(digest.crc);
    print_char('\n');
    print_end();
}

// Decodes all of standard input; each valid frame goes out as a length byte and its bytes, checksum included.
#include "firmware/wire/framer.hpp"

#include <stdio.h>

struct Frames {
    uint8_t decoded[256];
    void byte(uint8_t index, uint8_t value) { decoded[index] = value; }
    void end(bool valid, uint8_t length) {
        if (!valid) return;
        putchar(length);
        fwrite(decoded, 1, length, stdout);
    }
};

int main() {
    static Frames frames;
    wire::Decoder decoder;
    for (int byte; (byte = getchar()) != EOF;) decoder.feed(static_cast<uint8_t>(byte), frames);
}

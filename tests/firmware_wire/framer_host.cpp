// The framer on this computer, one request per line: `d HEX` decodes a byte stream, `e HEX HEX` sends a frame of head and
// tail, `c HEX` is the CRC. The answer is one line: frames as `+HEX` (valid, with its CRC) or `-` (damaged), or bytes.
#include "firmware/wire/framer.hpp"

#include <stdio.h>
#include <string.h>

static uint8_t bytes[1 << 16];

static unsigned parse(const char *hex) {
    unsigned count = 0;
    for (unsigned value; sscanf(hex, "%2x", &value) == 1; hex += 2) bytes[count++] = static_cast<uint8_t>(value);
    return count;
}

struct Frames {
    uint8_t decoded[256];
    void byte(uint8_t index, uint8_t value) { decoded[index] = value; }
    void end(bool valid, uint8_t length) {
        if (length == 0) return;
        printf(valid ? " +" : " -");
        for (unsigned i = 0; valid && i < length; ++i) printf("%02x", decoded[i]);
    }
};

int main() {
    static char line[1 << 18], first[1 << 17], second[1 << 17];
    while (fgets(line, sizeof line, stdin)) {
        first[0] = second[0] = 0;
        sscanf(line + 1, "%s %s", first, second);
        if (line[0] == 'd') {
            wire::Decoder decoder;
            Frames frames;
            const unsigned count = parse(first);
            for (unsigned i = 0; i < count; ++i) decoder.feed(bytes[i], frames);
        } else if (line[0] == 'e') {
            static uint8_t head[256];
            const unsigned head_length = parse(strcmp(first, "-") ? first : "");
            memcpy(head, bytes, head_length);
            const unsigned tail_length = parse(second);
            wire::send_frame(head, static_cast<uint8_t>(head_length), bytes, static_cast<uint16_t>(tail_length),
                             [](uint8_t byte) { printf("%02x", byte); });
        } else {
            uint16_t crc = 0;
            const unsigned count = parse(first);
            for (unsigned i = 0; i < count; ++i) crc = wire::crc16(crc, bytes[i]);
            printf("%04x", crc);
        }
        printf("\n");
        fflush(stdout);
    }
}

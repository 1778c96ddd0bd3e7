#include "hex.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_DATA = 0, RECORD_END = 1, RECORD_SEGMENT = 2, RECORD_START_SEGMENT = 3, RECORD_LINEAR = 4, RECORD_START = 5 };

struct record {
    uint8_t length, type, data[255];
    uint16_t address;
};

static void refuse(const char *path, unsigned line, const char *why) {
    fprintf(stderr, "unosim: %s:%u: %s\n", path, line, why);
    exit(2);
}

static int hex_byte(const char *text) {
    int value = 0;
    for (int i = 0; i < 2; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

// Returns NULL or what is wrong with the line.
static const char *parse(const char *line, struct record *record) {
    uint8_t bytes[260];
    size_t digits = strcspn(line, "\r\n");
    if (line[0] != ':' || digits < 11 || digits % 2 == 0 || (digits - 1) / 2 > sizeof bytes) return "not an Intel hex record";
    unsigned count = (digits - 1) / 2;
    uint8_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        int value = hex_byte(line + 1 + 2 * i);
        if (value < 0) return "not an Intel hex record";
        bytes[i] = value;
        sum += value;
    }
    if (count != bytes[0] + 5u) return "record is cut off";
    if (sum != 0) return "wrong checksum";
    record->length = bytes[0];
    record->address = bytes[1] << 8 | bytes[2];
    record->type = bytes[3];
    memcpy(record->data, bytes + 4, bytes[0]);
    return NULL;
}

void hex_load(const char *path, uint8_t *memory, uint32_t memory_bytes) {
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "unosim: cannot read the image %s: %s\n", path, strerror(errno));
        exit(2);
    }
    char text[600];
    uint32_t base = 0, loaded_bytes = 0;
    unsigned line = 0;
    bool ended = false;
    while (!ended && fgets(text, sizeof text, file)) {
        struct record record = {0};
        line++;
        if (text[strspn(text, " \t\r\n")] == 0) continue;
        const char *wrong = parse(text, &record);
        if (wrong) refuse(path, line, wrong);
        if (record.type == RECORD_DATA) {
            if (base + record.address + record.length > memory_bytes) refuse(path, line, "address beyond the 32768 bytes of flash");
            memcpy(memory + base + record.address, record.data, record.length);
            loaded_bytes += record.length;
        } else if ((record.type == RECORD_SEGMENT || record.type == RECORD_LINEAR) && record.length == 2) {
            base = (uint32_t)(record.data[0] << 8 | record.data[1]) << (record.type == RECORD_SEGMENT ? 4 : 16);
        } else if (record.type == RECORD_END) {
            ended = true;
        } else if (record.type != RECORD_START && record.type != RECORD_START_SEGMENT) {
            refuse(path, line, "unknown record type");
        }
    }
    fclose(file);
    if (!ended) refuse(path, line, "no end-of-file record: the image is cut off");
    if (loaded_bytes == 0) refuse(path, line, "the image is empty");
}

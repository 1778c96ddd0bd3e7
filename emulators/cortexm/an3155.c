/* The boot loader in the system memory of an STM32, as it speaks over a USART (ST application notes AN3155 and AN2606). */
#include "machine.h"

#include <string.h>

enum {
    SYNC = 0x7F, ACK = 0x79, NACK = 0x1F, PROTOCOL = 0x31, GET = 0x00, GET_VERSION = 0x01, GET_ID = 0x02, READ = 0x11, GO = 0x21, WRITE = 0x31, ERASE = 0x44,
    MASS_ERASE = 0xFFFF, FIRST_SPECIAL = 0xFFFD, IDLE_MS = 100, BYTE_MS = 1000
};

static const uint8_t commands[] = {GET, GET_VERSION, GET_ID, READ, GO, WRITE, ERASE};

static void answer(struct machine *m, bool accepted) { rom_put_byte(m, accepted ? ACK : NACK); }

/* `count` bytes and their exclusive or, which starts from `sum`. */
static bool get_checked(struct machine *m, uint8_t *bytes, uint32_t count, uint8_t sum) {
    if (!rom_get_many(m, bytes, count, BYTE_MS)) return false;
    for (uint32_t i = 0; i < count; ++i) sum ^= bytes[i];
    return rom_get(m, BYTE_MS) == sum;
}

/* Four bytes of address; ACK only for one with memory behind it. */
static bool get_address(struct machine *m, uint32_t *addr) {
    uint8_t b[4];
    bool good = get_checked(m, b, sizeof b, 0);
    if (good) {
        *addr = (uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        good = *addr % 4 == 0 && memory_at(m, *addr, 4);
    }
    answer(m, good);
    return good;
}

static void send_commands(struct machine *m) {
    rom_put_byte(m, sizeof commands);
    rom_put_byte(m, PROTOCOL);
    rom_put(m, commands, sizeof commands);
    rom_put_byte(m, ACK);
}

static void read_memory(struct machine *m) {
    uint32_t addr;
    uint8_t bytes[256];
    if (!get_address(m, &addr)) return;
    const int last = rom_get(m, BYTE_MS);
    const bool good = rom_get(m, BYTE_MS) == (uint8_t)~last && memory_at(m, addr, last + 1);
    answer(m, good);
    if (!good) return;
    rom_read(m, addr, bytes, last + 1);
    rom_put(m, bytes, last + 1);
}

static void write_memory(struct machine *m) {
    uint32_t addr;
    uint8_t bytes[256];
    if (!get_address(m, &addr)) return;
    const int last = rom_get(m, BYTE_MS);
    bool good = last >= 0 && get_checked(m, bytes, last + 1, last) && memory_at(m, addr, last + 1);
    const uint32_t offset = addr - m->chip->flash_base;
    if (good && offset < m->chip->flash_size_bytes) good = flash_program(m, offset, bytes, last + 1);
    else if (good) rom_write(m, addr, bytes, last + 1);
    answer(m, good);
}

static bool erase_sectors(struct machine *m, const uint8_t *numbers, unsigned count) {
    bool good = true;
    for (unsigned i = 0; i < count; ++i) {
        const uint32_t sector = numbers[2 * i] << 8 | numbers[2 * i + 1];
        good = good && sector < m->chip->flash_size_bytes / m->chip->sector_bytes &&
               flash_erase(m, sector * m->chip->sector_bytes, m->chip->sector_bytes);
    }
    return good;
}

/* Count less one, that many sector numbers, checksum; or a special code for the whole flash. */
static void erase_memory(struct machine *m) {
    static uint8_t numbers[2 * FIRST_SPECIAL];
    uint8_t head[2];
    bool good = rom_get_many(m, head, 2, BYTE_MS);
    const uint32_t count = (uint32_t)(head[0] << 8 | head[1]) + 1;
    const uint8_t sum = head[0] ^ head[1];
    if (good && count > FIRST_SPECIAL)
        good = rom_get(m, BYTE_MS) == sum && count - 1 == MASS_ERASE && flash_erase(m, 0, m->chip->flash_size_bytes);
    else
        good = good && get_checked(m, numbers, 2 * count, sum) && erase_sectors(m, numbers, count);
    answer(m, good);
}

static void execute(struct machine *m, int command) {
    static const uint8_t version[] = {PROTOCOL, 0, 0, ACK};
    const uint8_t id[] = {1, m->chip->product_id >> 8, m->chip->product_id & 0xFF, ACK};
    switch (command) {
    case GET: send_commands(m); break;
    case GET_VERSION: rom_put(m, version, sizeof version); break;
    case GET_ID: rom_put(m, id, sizeof id); break;
    case READ: read_memory(m); break;
    case WRITE: write_memory(m); break;
    case ERASE: erase_memory(m); break;
    }
}

/* Runs until the machine is stopped, or returns the address that GO has asked for. */
uint32_t an3155_loader(struct machine *m) {
    bool synchronised = false;
    while (m->stop == RUN) {
        const int command = rom_get(m, IDLE_MS);
        if (command < 0) continue;
        if (!synchronised) {
            synchronised = command == SYNC;
            if (synchronised) answer(m, true);
            continue;
        }
        const bool whole = rom_get(m, BYTE_MS) == (uint8_t)~command;
        const bool known = whole && memchr(commands, command, sizeof commands);
        answer(m, known);
        uint32_t addr;
        if (known && command == GO && get_address(m, &addr)) {
            host_service(m);
            return rom_take_vectors(m, addr);
        }
        if (known && command != GO) execute(m, command);
    }
    return 0;
}

/* Arduino's SAM-BA of a Nano 33 BLE as its `bossac` speaks with it, over USB: a letter and hexadecimal arguments that end in '#', then
 * bytes as they are. Address 0 is where programs begin. What can not be carried out gets no answer. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_COMMAND = 40, BUFFER_BYTES = 4096, IDLE_MS = 20, BYTE_MS = 1000 };

static const char version[] = "Arduino Bootloader (SAM-BA extended) 2.0 [Arduino:IKXYZ]\n\r", chip_name[] = "nRF52840-QIAA\n\r";

static struct {
    uint8_t bytes[BUFFER_BYTES];
    uint32_t address, source; /* where the host says that they are; what `Y` will copy from */
} buffer;

static bool is_in_flash(const struct machine *m, uint32_t addr, uint32_t bytes) {
    const uint32_t room = m->chip->flash_size_bytes - m->chip->image_offset;
    return addr <= room && bytes <= room - addr;
}

static void done(struct machine *m, char letter) {
    const char answer[] = {letter, '\n', '\r'};
    rom_put(m, answer, sizeof answer);
}

static void take_bytes(struct machine *m, uint32_t addr, uint32_t bytes) {
    if (bytes > BUFFER_BYTES || !rom_get_many(m, buffer.bytes, bytes, BYTE_MS)) return;
    buffer.address = addr;
}

static void copy(struct machine *m, uint32_t addr, uint32_t bytes) {
    if (!bytes) {
        buffer.source = addr;
        done(m, 'Y');
    } else if (buffer.source == buffer.address && bytes <= BUFFER_BYTES && is_in_flash(m, addr, bytes)) {
        flash_program(m, m->chip->image_offset + addr, buffer.bytes, bytes);
        done(m, 'Y');
    }
}

static void checksum(struct machine *m, uint32_t addr, uint32_t bytes) {
    char answer[13];
    if (!is_in_flash(m, addr, bytes)) return;
    const uint16_t crc = rom_crc16(0, m->flash + m->chip->image_offset + addr, bytes);
    snprintf(answer, sizeof answer, "Z%08X#\n\r", (unsigned)crc);
    rom_put(m, answer, sizeof answer - 1);
}

static void erase(struct machine *m, uint32_t addr) {
    if (!is_in_flash(m, addr, 1) || addr % m->chip->sector_bytes) return;
    const uint32_t from = m->chip->image_offset + addr;
    if (flash_erase(m, from, m->chip->flash_size_bytes - from)) done(m, 'X');
}

static void restart(struct machine *m) {
    m->boot0 = false;
    stop_machine(m, STOP_RESET, "reset by the boot loader");
}

static void execute(struct machine *m, const char *command) {
    char *rest;
    const uint32_t addr = strtoul(*command ? command + 1 : "", &rest, 16);
    const uint32_t value = *rest == ',' ? strtoul(rest + 1, NULL, 16) : 0;
    switch (*command) {
    case 'N': rom_put(m, "\n\r", 2); break;
    case 'V': rom_put(m, version, sizeof version - 1); break;
    case 'I': rom_put(m, chip_name, sizeof chip_name - 1); break;
    case 'S': take_bytes(m, addr, value); break;
    case 'Y': copy(m, addr, value); break;
    case 'Z': checksum(m, addr, value); break;
    case 'R':
        if (is_in_flash(m, addr, value)) rom_put(m, m->flash + m->chip->image_offset + addr, value);
        break;
    case 'X': erase(m, addr); break;
    case 'K': restart(m); break;
    }
}

uint32_t nano_loader(struct machine *m) {
    char command[LONGEST_COMMAND + 1];
    unsigned length = 0;
    while (m->stop == RUN) {
        const int byte = rom_get(m, IDLE_MS);
        if (byte < 0) continue;
        if (byte != '#') {
            if (length < LONGEST_COMMAND) command[length++] = byte;
            continue;
        }
        command[length] = 0;
        length = 0;
        execute(m, command);
    }
    return 0;
}

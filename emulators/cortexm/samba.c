/* The SAM-BA monitor in the ROM of the SAM3X8E (datasheet 11057C, chapter 21), as it speaks over the UART: autobaud, then commands
 * of a letter and hexadecimal arguments that end in '#'. Blocks travel by XMODEM with CRC-16. */
#include "eefc.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_COMMAND = 40, ROM_ADDR = 0x00100000, BLOCK_BYTES = 128, PACKET_BYTES = BLOCK_BYTES + 5,
    SOH = 0x01, EOT = 0x04, ACK = 0x06, NAK = 0x15, START = 'C', AUTOBAUD = 0x80,
    IDLE_MS = 100, BYTE_MS = 1000, RETRIES = 10
};

static const char version[] = "v1.1 Dec 15 2010 19:25:04\n\r";

/* Receives blocks until the host's EOT, or gives up after too many damaged ones. */
static void receive_file(struct machine *m, uint32_t addr, uint32_t bytes) {
    uint8_t packet[PACKET_BYTES] = {0}, expected = 1;
    rom_put_byte(m, START);
    for (int failures = 0; failures < RETRIES;) {
        const int head = rom_get(m, BYTE_MS);
        if (m->stop != RUN) return;
        if (head == EOT) {
            rom_put_byte(m, ACK);
            return;
        }
        const bool whole = head == SOH && rom_get_many(m, packet + 1, PACKET_BYTES - 1, BYTE_MS);
        const uint16_t crc = packet[131] << 8 | packet[132];
        if (!whole || (packet[1] ^ packet[2]) != 0xFF || rom_crc16(0, packet + 3, BLOCK_BYTES) != crc) {
            ++failures;
            rom_put_byte(m, head < 0 && expected == 1 ? START : NAK);
            continue;
        }
        if (packet[1] == expected) { /* else one that is sent again because its ACK was lost */
            const uint32_t count = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
            rom_write(m, addr, packet + 3, count);
            addr += count;
            bytes -= count;
            ++expected;
        }
        failures = 0;
        rom_put_byte(m, ACK);
    }
}

static bool send_block(struct machine *m, uint32_t addr, uint32_t count, uint8_t number) {
    uint8_t packet[PACKET_BYTES] = {SOH, number, ~number};
    rom_read(m, addr, packet + 3, count);
    const uint16_t crc = rom_crc16(0, packet + 3, BLOCK_BYTES);
    packet[131] = crc >> 8;
    packet[132] = crc;
    for (int tries = 0; tries < RETRIES; ++tries) {
        rom_put(m, packet, sizeof packet);
        const int answer = rom_get(m, BYTE_MS);
        if (answer == ACK) return true;
        if (m->stop != RUN) return false;
    }
    return false;
}

static void send_file(struct machine *m, uint32_t addr, uint32_t bytes) {
    int byte, waits = 0;
    while ((byte = rom_get(m, BYTE_MS)) != START)
        if (m->stop != RUN || ++waits > RETRIES) return;
    for (uint8_t number = 1; bytes; ++number) {
        const uint32_t count = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (!send_block(m, addr, count, number)) return;
        addr += count;
        bytes -= count;
    }
    rom_put_byte(m, EOT);
    rom_get(m, BYTE_MS);
}

/* `G`: the two words at the address are stack pointer and entry; the code runs in the emulator and comes back by its LR. */
static void go(struct machine *m, uint32_t addr) {
    const uint32_t back = ROM_ADDR | 1;
    host_service(m);
    const uint32_t pc = rom_take_vectors(m, addr);
    uc_reg_write(m->uc, UC_ARM_REG_LR, &back);
    run(m, pc, ROM_ADDR);
    eefc_settle(m);
}

static void put_word(struct machine *m, uint32_t addr, uint32_t bytes) {
    uint32_t value = 0;
    rom_read(m, addr, &value, bytes);
    rom_put(m, &value, bytes);
}

static void execute(struct machine *m, const char *command, bool *terminal) {
    char *rest;
    const uint32_t addr = strtoul(*command ? command + 1 : "", &rest, 16);
    const uint32_t value = *rest == ',' ? strtoul(rest + 1, NULL, 16) : 0;
    switch (*command) {
    case 'N': *terminal = false; rom_put(m, "\n\r", 2); return;
    case 'T': *terminal = true; rom_put(m, "\n\r", 2); break;
    case 'V': rom_put(m, version, sizeof version - 1); break;
    case 'w': put_word(m, addr, 4); break;
    case 'h': put_word(m, addr, 2); break;
    case 'o': put_word(m, addr, 1); break;
    case 'W': rom_write(m, addr, &value, 4); break;
    case 'H': rom_write(m, addr, &value, 2); break;
    case 'O': rom_write(m, addr, &value, 1); break;
    case 'S': receive_file(m, addr, value); break;
    case 'R': send_file(m, addr, value); break;
    case 'G': go(m, addr); break;
    case 0: rom_put(m, "\n\r", 2); break; /* '#' alone ends the autobaud sequence */
    }
    if (*terminal && m->stop == RUN) rom_put_byte(m, '>');
}

/* Runs until the machine is stopped. */
uint32_t samba_monitor(struct machine *m) {
    char command[LONGEST_COMMAND + 1];
    unsigned length = 0;
    bool terminal = true;
    while (m->stop == RUN) {
        const int byte = rom_get(m, IDLE_MS);
        if (byte < 0 || byte == AUTOBAUD) continue;
        if (byte != '#') {
            if (length < LONGEST_COMMAND) command[length++] = byte;
            continue;
        }
        command[length] = 0;
        length = 0;
        execute(m, command, &terminal);
    }
    return 0;
}

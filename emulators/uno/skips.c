#include "skips.h"

#include <string.h>

// Encodings: AVR instruction set manual (DS40002198), one table per instruction.
static bool is_cpse(uint16_t op) { return (op & 0xFC00) == 0x1000; }
static bool is_sbrc_sbrs(uint16_t op) { return (op & 0xFC08) == 0xFC00; }
static bool is_sbic_sbis(uint16_t op) { return (op & 0xFD00) == 0x9900; }
static bool is_adiw_sbiw(uint16_t op) { return (op & 0xFE00) == 0x9600; }

static uint16_t word_at(const uint8_t *flash, uint32_t address) { return flash[address] | flash[address + 1] << 8; }

void skips_find(struct skips *skips, const uint8_t *flash) {
    memset(skips, 0, sizeof *skips);
    for (uint32_t word = 0; word + 1 < SKIPS_FLASH_WORDS; word++) {
        uint16_t op = word_at(flash, 2 * word), next = word_at(flash, 2 * word + 2);
        bool is_skip = is_cpse(op) || is_sbrc_sbrs(op) || is_sbic_sbis(op);
        if (is_skip && is_adiw_sbiw(next) && (next & 0xF) >= 12) {
            skips->at[word] = 1;
            skips->count++;
        }
    }
}

static uint8_t read_io(avr_t *avr, uint16_t address) {
    unsigned io = AVR_DATA_TO_IO(address);
    if (avr->io[io].r.c) avr->data[address] = avr->io[io].r.c(avr, address, avr->io[io].r.param);
    return avr->data[address];
}

static bool skips(avr_t *avr, uint16_t op) {
    if (is_cpse(op)) return avr->data[(op >> 4) & 0x1F] == avr->data[(op & 0xF) | ((op >> 5) & 0x10)];
    uint8_t value = is_sbrc_sbrs(op) ? avr->data[(op >> 4) & 0x1F] : read_io(avr, AVR_IO_TO_DATA((op >> 3) & 0x1F));
    bool skip_if_set = op & 0x0200;
    return ((value >> (op & 7)) & 1) == skip_if_set;
}

avr_flashaddr_t skips_execute(avr_t *avr) {
    bool taken = skips(avr, word_at(avr->flash, avr->pc));
    avr->cycle += taken ? 2 : 1;  // skipping a one-word instruction: 2 cycles
    return avr->pc + (taken ? 4 : 2);
}

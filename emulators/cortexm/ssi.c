/* RP2040: the SSI (datasheet 4.10) between the bus and a W25Q16JV. The flash is in the memory map only while the SSI is set up to read
 * it as the flash has been told to answer: address and mode bits by four wires, no command. What it costs: rp.c. */
#include "ssi.h"

#include <string.h>

enum {
    CTRLR0 = 0x00, CTRLR1 = 0x04, SSIENR = 0x08, SER = 0x10, BAUDR = 0x14, SR = 0x28, DR0 = 0x60, SPI_CTRLR0 = 0xF4,
    SR_TFNF = 1 << 1, SR_TFE = 1 << 2, SR_RFNE = 1 << 3,
    ONE_WIRE_BYTES = 0x00070000, FOUR_WIRE_WORDS = 0x005F0300, SET_OUT = 0x00002221, CONTINUE = 0x00002022,
    READ_STATUS_1 = 0x05, WRITE_STATUS_1 = 0x01, WRITE_ENABLE = 0x06, WRITE_STATUS_2 = 0x31, READ_STATUS_2 = 0x35, READ_BY_FOUR = 0xEB, QE = 1 << 1,
    FIFO_WORDS = 16, ADDRESS_CLOCKS = 8, WAIT_CLOCKS = 4, WORD_CLOCKS = 8, LINE_WORDS = 2, LEAST_DIVIDER = 2
};

static const uint32_t CONTINUED_MODE = 0xA0;
static uint32_t words[SSI_BYTES / 4], sent[FIFO_WORDS], count, unread;
static uint32_t status_2;
static bool write_enabled, continues;

static uint32_t *word(uint32_t offset) { return &words[offset / 4]; }

static void set_readable(struct machine *m, bool readable) {
    uc_mem_protect(m->uc, m->chip->flash_base, m->chip->flash_size_bytes, readable ? UC_PROT_READ | UC_PROT_EXEC : UC_PROT_NONE);
}

/* A line of the cache: each of its words is asked for by address. */
static void update(struct machine *m) {
    const bool on = *word(SSIENR) & 1 && *word(SER) & 1;
    const bool fits = *word(CTRLR0) == FOUR_WIRE_WORDS && *word(SPI_CTRLR0) == (CONTINUED_MODE << 24 | CONTINUE);
    const uint32_t divider = *word(BAUDR);
    m->flash_wait_states = LINE_WORDS * divider * (ADDRESS_CLOCKS + WAIT_CLOCKS + WORD_CLOCKS);
    set_readable(m, on && fits && continues && divider >= LEAST_DIVIDER);
}

/* What was sent since the last pause is a command: the flash is deselected when the FIFO runs empty. */
static void finish(void) {
    if (!count) return;
    if (*word(CTRLR0) == FOUR_WIRE_WORDS && *word(SPI_CTRLR0) == SET_OUT)
        continues = count == 2 && sent[0] == READ_BY_FOUR && sent[1] == CONTINUED_MODE && status_2 & QE;
    else if (*word(CTRLR0) == ONE_WIRE_BYTES && sent[0] == WRITE_STATUS_2 && count == 2 && write_enabled)
        status_2 = sent[1];
    else if (*word(CTRLR0) == ONE_WIRE_BYTES && sent[0] == WRITE_STATUS_1 && count == 3 && write_enabled)
        status_2 = sent[2]; /* both registers, as older flashes know them */
    if (*word(CTRLR0) == ONE_WIRE_BYTES) write_enabled = sent[0] == WRITE_ENABLE;
    count = 0;
}

static uint32_t answer(void) {
    if (!unread) return 0;
    --unread;
    if (sent[0] == READ_STATUS_2) return status_2;
    return sent[0] == READ_STATUS_1 ? (uint32_t)write_enabled << 1 : 0xFF;
}

static uint64_t read_ssi(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    if (offset == SR) {
        finish();
        return SR_TFNF | SR_TFE | (unread ? SR_RFNE : 0);
    }
    return offset == DR0 ? answer() : *word((uint32_t)offset);
}

static void write_ssi(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    const bool on = *word(SSIENR) & 1;
    if (offset == DR0) {
        if (!on || !(*word(SER) & 1) || count == FIFO_WORDS) return;
        sent[count++] = (uint32_t)value;
        if (*word(CTRLR0) == ONE_WIRE_BYTES) ++unread;
        return;
    }
    if (on && offset != SSIENR && offset != SER) return; /* locked while it is on (4.10.13) */
    *word((uint32_t)offset) = (uint32_t)value;
    if (offset == SSIENR) unread = count = 0;
    if (offset == SSIENR || offset == SER) update(m);
}

void ssi_map(struct machine *m) { map_registers(m, SSI_BASE, SSI_BYTES, read_ssi, write_ssi); }

/* As the ROM leaves it, which has read the flash's first bytes by one wire: selected and on. QE outlives the power. */
void ssi_reset(struct machine *m) {
    memset(words, 0, sizeof words);
    count = unread = 0;
    write_enabled = continues = false;
    status_2 |= QE;
    *word(SSIENR) = *word(SER) = 1;
    *word(CTRLR0) = ONE_WIRE_BYTES;
    set_readable(m, false);
}

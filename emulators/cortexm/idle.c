/* Does the firmware only spin until input comes? Then the emulator sleeps instead of burning a core.
 *
 * Proof, not guess: the processor passes the same address twice with equal registers, nothing was sent, traced
 * or timed in between, and RAM is unchanged (compared only if the loop stores). Such a loop lasts until input comes. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_LOOP_BLOCKS = 400, FIRST_BACKOFF = 20000, LONGEST_BACKOFF = 4000000 };

static const int ids[16] = {
    UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2, UC_ARM_REG_R3, UC_ARM_REG_R4, UC_ARM_REG_R5,
    UC_ARM_REG_R6, UC_ARM_REG_R7, UC_ARM_REG_R8, UC_ARM_REG_R9, UC_ARM_REG_R10, UC_ARM_REG_R11,
    UC_ARM_REG_R12, UC_ARM_REG_SP, UC_ARM_REG_LR, UC_ARM_REG_CPSR,
};

static void read_registers(struct machine *m, uint32_t *registers) {
    for (int i = 0; i < 16; ++i) uc_reg_read(m->uc, ids[i], &registers[i]);
}

static uint32_t ram_bytes(const struct machine *m) {
    uint32_t bytes = 0;
    for (int i = 0; i < MAX_RAMS; ++i) bytes += m->chip->rams[i].size_bytes;
    return bytes;
}

static void take_snapshot(struct machine *m) {
    uint8_t *to = m->idle.snapshot;
    for (int i = 0; i < MAX_RAMS; ++i) {
        memcpy(to, m->ram[i], m->chip->rams[i].size_bytes);
        to += m->chip->rams[i].size_bytes;
    }
    m->idle.have_snapshot = true;
}

static bool ram_changed(const struct machine *m) {
    const uint8_t *old = m->idle.snapshot;
    for (int i = 0; i < MAX_RAMS; ++i) {
        if (memcmp(old, m->ram[i], m->chip->rams[i].size_bytes)) return true;
        old += m->chip->rams[i].size_bytes;
    }
    return false;
}

static void give_up(struct machine *m) {
    struct idle *p = &m->idle;
    p->probing = false;
    p->next_try = m->cycles.typical + p->backoff;
    if (p->backoff < LONGEST_BACKOFF) p->backoff *= 2;
}

static void begin(struct machine *m, uint32_t addr) {
    struct idle *p = &m->idle;
    p->probing = true;
    p->addr = addr;
    p->blocks_left = LONGEST_LOOP_BLOCKS;
    p->stored = p->have_snapshot = false;
    read_registers(m, p->registers);
}

static bool waiting_for_input(const struct machine *m) {
    return uart_next_event(m) == UINT64_MAX && systick_next_event() == UINT64_MAX && uart_tx_done(m) && !m->nvic.active;
}

/* Back at the first address with equal registers: idle. If the loop stores, RAM is compared over one more turn. */
static bool same_turn(struct machine *m) {
    struct idle *p = &m->idle;
    if (p->stored && !p->have_snapshot) {
        take_snapshot(m);
        p->blocks_left = LONGEST_LOOP_BLOCKS;
        return false;
    }
    if (p->stored && ram_changed(m)) {
        give_up(m);
        return false;
    }
    p->probing = false;
    p->next_try = m->cycles.typical;
    p->backoff = FIRST_BACKOFF;
    return true;
}

void idle_reset(struct machine *m) {
    struct idle *p = &m->idle;
    if (!p->snapshot) p->snapshot = malloc(ram_bytes(m));
    p->probing = false;
    p->next_try = 0;
    p->backoff = FIRST_BACKOFF;
}

/* Called before a block runs, at every service and at every block while probing. True: nothing happens by itself. */
bool idle_probe(struct machine *m, uint32_t addr, bool stores) {
    struct idle *p = &m->idle;
    if (p->io_count != m->io_count || !waiting_for_input(m)) {
        p->io_count = m->io_count;
        p->probing = false;
        p->backoff = FIRST_BACKOFF;
        return false;
    }
    if (!p->probing) {
        if (m->cycles.typical < p->next_try) return false;
        begin(m, addr);
    } else if (addr == p->addr) {
        uint32_t now[16];
        read_registers(m, now);
        if (memcmp(now, p->registers, sizeof now)) {
            give_up(m);
            return false;
        }
        if (same_turn(m)) return true;
    } else if (!--p->blocks_left) {
        give_up(m);
        return false;
    }
    p->stored |= stores;
    return false;
}

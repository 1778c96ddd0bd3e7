/* A basic block, decoded once: what it costs however often it runs, and where its data are. */
#include "block.h"
#include "data.h"
#include "m0plus.h"
#include "m33.h"
#include "m7.h"
#include "prices.h"

#include <stdlib.h>
#include <string.h>

struct step {
    struct insn insn;
    struct operands operands;
    struct access access;
    bool located, maybe; /* `maybe`: in an IT block */
};

static struct step *steps; /* as many as the largest block so far could have */
static uint32_t room;

static void *resized(void *memory, size_t bytes) {
    void *found = realloc(memory, bytes);
    if (found) return found;
    fprintf(stderr, "armsim: no memory for a basic block of %zu bytes\n", bytes);
    exit(1);
}

static bool is_branch(const struct insn *i) { return i->loads_pc || (i->kind >= BRANCH && i->kind <= TABLE_BRANCH); }

static bool ends_conditionally(const struct step *s) {
    return s->insn.kind == BRANCH_COND || (s->maybe && is_branch(&s->insn));
}

/* Registers as sums of what they were at the entry of the block; NO_REGISTER: not known. */
struct origin {
    uint8_t base;
    int32_t added;
};

static void follow(struct origin *origins, const struct insn *i, const struct operands *o, bool maybe) {
    const bool copies = o->copied_from < 15 && !maybe && i->kind == ALU;
    struct origin moved = {NO_REGISTER, 0};
    if (copies) moved = (struct origin){origins[o->copied_from].base, origins[o->copied_from].added + o->added};
    for (uint32_t left = o->results; left; left &= left - 1) origins[__builtin_ctz(left)] = moved;
    if (!o->write_back) return;
    struct origin *base = &origins[__builtin_ctz(o->write_back)];
    base->added += o->base_change;
    if (maybe) base->base = NO_REGISTER;
}

/* Where the data are; false if only the program knows. */
static bool locate(struct access *a, const struct origin *origins, const struct insn *i, const struct operands *o, uint32_t addr) {
    *a = (struct access){.base = ABSOLUTE, .index = ABSOLUTE, .bytes = o->bytes, .offset = o->offset, .last_line = ~0u,
                         .loads = i->stores ? 0 : (o->bytes + 3) / 4,
                         .stores = i->stores, .words = (i->kind == LOAD && o->bytes == 4)};
    if (o->base == NO_REGISTER || !o->bytes) return false;
    if (o->base == 15) {
        a->offset += (int32_t)((addr + 4) & ~3u);
        return true;
    }
    if (origins[o->base].base == NO_REGISTER) return false;
    a->base = origins[o->base].base;
    a->offset += origins[o->base].added;
    if (o->index == NO_REGISTER) return true;
    if (o->index >= 15 || origins[o->index].base == NO_REGISTER) return false;
    a->index = origins[o->index].base;
    a->shift = o->shift;
    a->offset += origins[o->index].added << o->shift;
    return true;
}

static unsigned decode_all(const struct block *b, const uint8_t *code) {
    struct origin origins[15];
    unsigned count = 0, it_left = 0;
    for (uint8_t r = 0; r < 15; ++r) origins[r] = (struct origin){r, 0};
    if (b->size / 2 > room) steps = resized(steps, (room = b->size / 2) * sizeof *steps);
    for (uint32_t at = 0; at < b->size; at += steps[count++].insn.bytes) {
        struct step *s = &steps[count];
        s->insn = decode(code + at);
        s->operands = operands_of(code + at);
        s->maybe = it_left > 0;
        s->located = locate(&s->access, origins, &s->insn, &s->operands, b->addr + at);
        follow(origins, &s->insn, &s->operands, s->maybe);
        it_left = s->insn.kind == IT_BLOCK ? s->insn.it_length : it_left ? it_left - 1 : 0;
    }
    return count;
}

static unsigned words_loaded(const struct insn *i) {
    return i->kind == LOAD_MANY ? i->registers : is_load(i);
}

/* Sequential prefetch hides a line's wait behind the cycles spent in the line before it. */
static void add_line_stall(const struct machine *m, struct block *b, uint32_t at, uint32_t next,
                           unsigned *line_cycles) {
    if (next >= b->addr + b->size || at >> 4 == next >> 4) return;
    if (*line_cycles < m->flash_wait_states + 1) b->line_stalls += m->flash_wait_states + 1 - *line_cycles;
    *line_cycles = 0;
}

static void add_price(struct block *b, const struct insn *i, struct price p) {
    b->typical += p.typical;
    b->min += p.min;
    b->max += p.max;
    ++b->instructions;
    b->stores |= i->stores;
    b->uses_fpu |= i->kind >= FP_MOVE;
}

/* The model says nothing rather than something wrong. */
static void refuse(struct machine *m, uint32_t addr) {
    static char why[80];
    snprintf(why, sizeof why, "no price in the cycle model for the instruction at 0x%08x", addr);
    m->fault_pc = addr;
    stop_machine(m, STOP_FAULT, why);
}

static void follow_stack(struct block *b, const struct insn *i, int32_t *sp) {
    *sp += i->sp_delta;
    if (*sp < b->lowest_sp) b->lowest_sp = *sp;
    b->sp_unknown |= i->sp_unknown;
}

static uint32_t at_least(uint32_t cycles, uint32_t granules) { return cycles > granules ? cycles : granules; }

/* SAM3X: what flash takes to read the lines of a block that its two buffers can not have held. */
static uint32_t read_bound(const struct machine *m, const struct block *b) {
    const uint32_t lines = ((b->addr + b->size - 1) >> 4) - (b->addr >> 4) + 1;
    const bool from_flash = b->addr - m->chip->flash_base < m->chip->flash_size_bytes;
    return from_flash && lines > 2 ? (lines - 2) * (m->flash_wait_states + 1) : 0;
}

/* Worst case: every line fetched anew, every load missing, behind another fill, and not aligned. */
static uint32_t memory_bound(const struct machine *m, const struct block *b, unsigned loads) {
    const struct timing *t = &m->chip->timing;
    const unsigned shift = t->whole_lines ? t->read_shift : m->chip->core == CORTEX_M3 ? 4 : 5;
    const uint32_t lines = ((b->addr + b->size - 1) >> shift) - (b->addr >> shift) + 1;
    if (m->chip->core == CORTEX_M0PLUS || m->chip->core == CORTEX_M33) /* one port: each may wait for another */
        return (2 * lines + 2 * loads) * (t->whole_lines ? 1 : 2) * (m->flash_wait_states + 1);
    if (m->chip->core == CORTEX_M3) return lines * m->flash_wait_states + loads * (2 * m->flash_wait_states + 1);
    if (m->chip->core != CORTEX_M7) return (lines + loads) * m->flash_wait_states + loads;
    return (lines + loads) * 2 * m->bus_cycles * (t->fill_cycles + t->line_reads * (m->flash_wait_states + 1)) + 3 * loads;
}

/* One instruction after the other: the cycles of M3 and M4, and the bounds of all. */
static void add_prices(struct machine *m, struct block *b, unsigned count) {
    const enum core core = m->chip->core;
    struct m4_stream stream = {.memory = UNKNOWN_MEMORY};
    struct insn before = {.kind = ALU};
    unsigned loads = 0, line_cycles = 0;
    uint32_t addr = b->addr;
    int32_t sp = 0;
    for (const struct step *s = steps; s < steps + count; ++s) {
        struct price p = price_of(&s->insn, &before, core);
        if (!has_price(p)) refuse(m, addr);
        if (core == CORTEX_M4) {
            const int memory = s->located ? (int)(address_of(m, &s->access) >> 28) : UNKNOWN_MEMORY;
            const unsigned extra = m4_extra(&stream, &s->insn, addr, overlaps(&s->insn, &before), memory);
            p.typical += extra;
            p.max += extra;
        }
        add_price(b, &s->insn, p);
        follow_stack(b, &s->insn, &sp);
        line_cycles += p.typical;
        add_line_stall(m, b, addr, addr + s->insn.bytes, &line_cycles);
        if (core != CORTEX_M3 || !s->located) loads += words_loaded(&s->insn); /* else data_bound() knows where they go */
        addr += s->insn.bytes;
        before = s->insn;
    }
    b->max += memory_bound(m, b, loads);
    if (core == CORTEX_M3) b->min = at_least(b->min, read_bound(m, b));
}

static void add_taken(struct block *b, const struct step *last, enum core core) {
    const struct price p = price_of_taken(&last->insn, core);
    b->indirect = last->insn.kind != BRANCH && last->insn.kind != BRANCH_COND;
    b->conditional = ends_conditionally(last);
    if (core == CORTEX_M7) {
        b->max += p.max; /* mispredicted, taken or not; what is typical is known when the next block is */
    } else if (b->conditional) {
        b->taken_typical = p.typical;
        b->taken_min = p.min;
        b->taken_max = p.max;
    } else {
        b->typical += p.typical;
        b->min += p.min;
        b->max += p.max;
    }
}

/* M0+: each load of data, and each line of flash, ends a stretch of cycles that nothing interrupts. */
static void add_stretches(struct block *b, unsigned count) {
    static struct stretch *made;
    static uint32_t made_room;
    if (2 * count > made_room) made = resized(made, (made_room = 2 * count) * sizeof *made);
    const uint32_t first = b->addr >> G0_LINE_SHIFT;
    struct insn before = {.kind = ALU};
    struct stretch *at = made - 1;
    uint32_t addr = b->addr, end = 0;
    for (const struct step *s = steps; s < steps + count; addr += s++->insn.bytes) {
        const unsigned cycles = price_of(&s->insn, &before, CORTEX_M0PLUS).typical;
        for (uint32_t line = addr >> G0_LINE_SHIFT; line <= (addr + s->insn.bytes - 1) >> G0_LINE_SHIFT; ++line)
            if (at < made || at->loads || line != end) *++at = (struct stretch){.line = (uint16_t)((end = line) - first)};
        at->cycles = (uint16_t)(at->cycles + cycles);
        if (s->located && s->access.loads) {
            at->loads = true;
            at->data = s->access;
        }
    }
    b->stretch_count = (uint32_t)(at + 1 - made);
    b->stretches = resized(b->stretches, b->stretch_count * sizeof *made);
    memcpy(b->stretches, made, b->stretch_count * sizeof *made);
}

/* The M7's cycles: from a fresh start, with the first instruction already issued, and once and twice more around. No
 * block is faster than the fetch of its bytes, eight a cycle. */
static void schedule(struct machine *m, struct block *b, unsigned count) {
    static struct issue fresh, paired;
    const uint32_t granules = ((b->addr + b->size - 1) >> 3) - (b->addr >> 3) + 1;
    const bool branches = is_branch(&steps[count - 1].insn);
    uint32_t ends[3];
    issue_begin(&fresh);
    issue_begin(&paired);
    for (int pass = 0; pass < 3; ++pass) {
        for (const struct step *s = steps; s < steps + count; ++s) {
            const int bank = s->located ? (int)(address_of(m, &s->access) >> 2 & 1) : UNKNOWN_BANK;
            issue_next(&fresh, &s->insn, &s->operands, bank);
            if (!pass && s != steps) issue_next(&paired, &s->insn, &s->operands, bank);
        }
        ends[pass] = issue_cycles(&fresh);
        if (!pass) b->ends_open = fresh.half && branches;
    }
    b->first_pairs = !steps[0].operands.dsp && steps[0].insn.kind < DIVIDE;
    b->paired_ends_open = paired.half && branches;
    b->typical = at_least(ends[0], granules);
    b->paired = at_least(issue_cycles(&paired), granules);
    for (int turn = 0; turn < 2; ++turn) b->again[turn] = at_least(ends[turn + 1] - ends[turn], granules);
    b->min /= 2; /* two instructions a cycle everywhere */
}

/* The M33's cycles, as if nothing were late at the entry; what is late at the end waits in the next block. */
static void schedule_m33(struct block *b, unsigned count, const uint8_t *code) {
    struct m33 s = {0};
    const struct step *last = &steps[count - 1];
    for (const struct step *at = steps; at <= last; ++at) {
        m33_next(&s, &at->insn, &at->operands, code);
        code += at->insn.bytes;
    }
    b->first_reads = steps[0].operands.late | steps[0].operands.early;
    b->late = m33_late(&s);
    b->typical = s.cycle;
    b->taken_typical = s.taken;
}

/* `b` may be another block until now: its room for accesses is taken over. */
static void find_accesses(struct block *b, unsigned count) {
    unsigned located = 0;
    for (const struct step *s = steps; s < steps + count; ++s) located += s->located;
    if (located) b->accesses = resized(b->accesses, located * sizeof *b->accesses);
    for (const struct step *s = steps; s < steps + count; ++s)
        if (s->located) add_access(b, &s->access);
}

/* BL, BLX */
static bool is_call(const uint8_t *code, unsigned bytes) {
    const unsigned h1 = code[0] | code[1] << 8;
    return bytes == 2 ? (h1 & 0xFF80) == 0x4780 : h1 >> 11 == 0x1E && ((code[2] | code[3] << 8) & 0xD000) == 0xD000;
}

void describe(struct machine *m, struct block *b, uint32_t addr, uint32_t size, const uint8_t *code) {
    *b = (struct block){.addr = addr, .size = size, .fetched = NEVER_FETCHED, .accesses = b->accesses, .stretches = b->stretches};
    const unsigned count = decode_all(b, code);
    const struct step *last = &steps[count - 1];
    add_prices(m, b, count);
    if (is_branch(&last->insn)) add_taken(b, last, m->chip->core);
    b->calls = is_call(code + size - last->insn.bytes, last->insn.bytes);
    find_accesses(b, count);
    b->odd_start = m->chip->core == CORTEX_M4 && steps[0].insn.bytes == 4 && addr & 2;
    b->max += b->odd_start;
    if (m->chip->core == CORTEX_M7) schedule(m, b, count);
    if (m->chip->core == CORTEX_M33) schedule_m33(b, count, code);
    if (m->chip->core == CORTEX_M0PLUS) add_stretches(b, count);
    if (b->min == 0) b->min = 1;
}

/* Instructions and modelled cycles, added up at every basic block that the processor enters. */
#include "block.h"
#include "m7.h"

#include <string.h>

enum { BLOCKS = 1 << 16 }; /* one for every halfword of 128 KiB of code */

static struct block cache[BLOCKS];

struct price {
    uint8_t typical, min, max;
};

/* Cortex-M3 TRM r2p1, table 3-1 and section 3.3.2. A taken branch adds P = 1 to 3 (see TAKEN below). */
static const struct price m3_price[KINDS] = {
    [ALU] = {1, 1, 1}, [MUL] = {1, 1, 1}, [MLA] = {2, 2, 2}, [MULL] = {4, 3, 5}, [MLAL] = {5, 4, 7},
    [DIVIDE] = {7, 2, 12}, [LOAD] = {2, 1, 2}, [LOAD_LITERAL] = {2, 1, 3}, [STORE] = {1, 1, 2},
    [STORE_REGISTER] = {2, 1, 2}, [LOAD_MANY] = {1, 1, 1}, [STORE_MANY] = {1, 1, 1}, [BRANCH] = {1, 1, 1},
    [BRANCH_COND] = {1, 1, 1}, [BRANCH_INDIRECT] = {1, 1, 1}, [TABLE_BRANCH] = {4, 3, 4}, [IT_BLOCK] = {1, 0, 1},
    [SYSTEM] = {1, 1, 2}, [BARRIER] = {4, 1, 4},
};

/* Cortex-M4 TRM r0p1, tables 3-1 and 7-1: the M3's, with every multiplication in one cycle, and the FPU. */
static const struct price m4_price[KINDS] = {
    [ALU] = {1, 1, 1}, [MUL] = {1, 1, 1}, [MLA] = {1, 1, 1}, [MULL] = {1, 1, 1}, [MLAL] = {1, 1, 1},
    [DIVIDE] = {7, 2, 12}, [LOAD] = {2, 1, 2}, [LOAD_LITERAL] = {2, 1, 3}, [STORE] = {1, 1, 2},
    [STORE_REGISTER] = {2, 1, 2}, [LOAD_MANY] = {1, 1, 1}, [STORE_MANY] = {1, 1, 1}, [BRANCH] = {1, 1, 1},
    [BRANCH_COND] = {1, 1, 1}, [BRANCH_INDIRECT] = {1, 1, 1}, [TABLE_BRANCH] = {4, 3, 4}, [IT_BLOCK] = {1, 0, 1},
    [SYSTEM] = {1, 1, 2}, [BARRIER] = {4, 1, 4}, [FP_MOVE] = {1, 1, 2}, [FP_LOAD] = {2, 1, 2}, [FP_STORE] = {2, 1, 2},
    [FP_SINGLE] = {1, 1, 3}, [FP_DIV_SINGLE] = {14, 1, 14},
};

/* Cortex-M7: Arm publishes no table. Typical: one instruction a cycle with full caches; max adds result latencies. */
static const struct price m7_price[KINDS] = {
    [ALU] = {1, 1, 1}, [MUL] = {1, 1, 2}, [MLA] = {1, 1, 2}, [MULL] = {1, 1, 2}, [MLAL] = {1, 1, 2},
    [DIVIDE] = {7, 2, 20}, [LOAD] = {1, 1, 2}, [LOAD_LITERAL] = {1, 1, 2}, [STORE] = {1, 1, 2},
    [STORE_REGISTER] = {1, 1, 2}, [LOAD_MANY] = {1, 0, 1}, [STORE_MANY] = {1, 0, 1}, [BRANCH] = {1, 1, 1},
    [BRANCH_COND] = {1, 1, 1}, [BRANCH_INDIRECT] = {1, 1, 1}, [TABLE_BRANCH] = {3, 2, 4}, [IT_BLOCK] = {1, 0, 1},
    [SYSTEM] = {1, 1, 2}, [BARRIER] = {4, 1, 8}, [FP_MOVE] = {1, 1, 3}, [FP_LOAD] = {1, 1, 2}, [FP_STORE] = {1, 1, 2},
    [FP_SINGLE] = {1, 1, 6}, [FP_DOUBLE] = {3, 1, 9}, [FP_DIV_SINGLE] = {16, 2, 18}, [FP_DIV_DOUBLE] = {30, 2, 32},
};

/* Refilling the pipeline after a taken branch; a computed target is known later than an encoded one. */
static const struct price m3_taken = {1, 1, 3}, m3_taken_indirect = {2, 1, 3};
static const struct price m7_taken = {0, 0, 8}, m7_taken_indirect = {1, 0, 8};

static bool ends_conditionally(const struct insn *i, bool in_it) {
    return i->kind == BRANCH_COND || (in_it && (i->kind == BRANCH || i->kind == BRANCH_INDIRECT || i->loads_pc));
}

static bool is_branch(const struct insn *i) {
    return i->loads_pc || (i->kind >= BRANCH && i->kind <= TABLE_BRANCH);
}

/* Cortex-M4, measured by others: [J] github.com/jnk0le/random, "pipeline cycle test/doc/cortex_m3m4.md" (STM32F407);
 * [C] compendium.i-0.nl, "Alignment rules" (STM32L4). The prefetch unit holds three words and fetches one a cycle
 * (Arm, article 103488664), so wide instructions at odd halfwords leave it behind once it has been full: after a load. */
struct m4_stream {
    unsigned odd_wide;      /* such instructions in a row */
    bool stored;            /* the instruction before was a store */
    int memory;             /* of the load before; UNKNOWN_MEMORY */
};

enum { ODD_WIDE_IN_A_ROW = 3, UNKNOWN_MEMORY = -1 };

static bool is_load(const struct insn *i) { return i->kind == LOAD || i->kind == LOAD_LITERAL || i->kind == FP_LOAD; }

/* Cycles beyond those of the tables. `pipelined`: the tables let this load overlap the one before. */
static unsigned m4_extra(struct m4_stream *s, const struct insn *i, uint32_t addr, bool pipelined, int memory) {
    const bool odd = i->bytes == 4 && addr & 2, loads = is_load(i);
    unsigned extra = 0;
    if (pipelined && loads && (odd || (memory != s->memory && memory >= 0 && s->memory >= 0)))
        ++extra;                                                   /* [J] */
    if (loads && s->stored) ++extra;                               /* [J] */
    s->odd_wide = odd ? s->odd_wide + 1 : 0;
    if (s->odd_wide == ODD_WIDE_IN_A_ROW) ++extra;                 /* [C] */
    if (loads || i->kind == LOAD_MANY) s->odd_wide = 0;
    s->stored = i->kind == STORE || i->kind == STORE_REGISTER;
    s->memory = loads ? memory : UNKNOWN_MEMORY;
    return extra;
}

/* Neighbouring single loads, and a store behind a load, overlap on the M3 unless an address waits for the load. */
static struct price price_of(const struct insn *i, const struct insn *before, enum core core) {
    static const struct price *const prices[] = {[CORTEX_M3] = m3_price, [CORTEX_M4] = m4_price, [CORTEX_M7] = m7_price};
    const bool m7 = core == CORTEX_M7;
    struct price p = prices[core][i->kind];
    const bool moves = i->kind >= LOAD && i->kind <= STORE_REGISTER;
    const bool after_load = before->kind == LOAD || before->kind == LOAD_LITERAL;
    if (!m7 && moves && after_load && before->dest != i->base && before->dest != i->index && p.typical == 2) {
        p.typical = 1;
        p.max -= 1;
    }
    p.typical += i->registers;
    p.min += m7 ? (i->registers + 1) / 2 : i->registers; /* the M7 moves 64 bits at a time */
    p.max += i->registers;
    return p;
}

static void add_taken(struct block *b, const struct insn *last, bool conditional, bool m7) {
    const bool direct = last->kind == BRANCH || last->kind == BRANCH_COND;
    const struct price p = direct ? (m7 ? m7_taken : m3_taken) : (m7 ? m7_taken_indirect : m3_taken_indirect);
    if (conditional) {
        b->taken_typical = p.typical;
        b->taken_min = p.min;
        b->taken_max = p.max;
    } else {
        b->typical += p.typical;
        b->min += p.min;
        b->max += p.max;
    }
}

static void add_literal(struct block *b, const uint8_t *code, uint32_t addr, const struct insn *i) {
    const unsigned h1 = code[0] | code[1] << 8;
    const int32_t imm12 = code[2] | (code[3] & 0xF) << 8;
    const int32_t offset = i->bytes == 2 ? (int32_t)(h1 & 0xFF) * 4 : h1 & 0x80 ? imm12 : -imm12;
    const uint32_t line = (((addr + 4) & ~3u) + offset) >> 4;
    if (!b->literals) b->first_literal = line;
    if (!b->literals || line != b->last_literal) ++b->literals;
    b->last_literal = line;
}

/* Worst case of flash: every line fetched anew, every load missing. Lines are 16 bytes (SAM3X) or 32 (STM32). */
static void add_flash_bound(const struct machine *m, struct block *b, unsigned loads) {
    const unsigned shift = m->chip->core == CORTEX_M3 ? 4 : 5;
    const uint32_t lines = ((b->addr + b->size - 1) >> shift) - (b->addr >> shift) + 1;
    b->max += (lines + loads) * m->flash_wait_states;
}

static unsigned words_loaded(const struct insn *i) {
    if (i->kind == LOAD_MANY) return i->registers;
    return i->kind == LOAD || i->kind == LOAD_LITERAL || i->kind == FP_LOAD;
}

/* Sequential prefetch hides a line's wait behind the cycles spent in the line before it. */
static void add_line_stall(const struct machine *m, struct block *b, uint32_t at, uint32_t next,
                           unsigned *line_cycles) {
    if (next >= b->addr + b->size || at >> 4 == next >> 4) return;
    if (*line_cycles < m->flash_wait_states + 1) b->line_stalls += m->flash_wait_states + 1 - *line_cycles;
    *line_cycles = 0;
}

static void add_price(struct block *b, const struct insn *i, struct price p, int32_t *sp) {
    b->typical += p.typical;
    b->min += p.min;
    b->max += p.max;
    ++b->instructions;
    *sp += i->sp_delta;
    if (*sp < b->lowest_sp) b->lowest_sp = *sp;
    b->sp_unknown |= i->sp_unknown;
    b->stores |= i->stores;
    b->uses_fpu |= i->kind >= FP_MOVE;
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

static int bank_of(const struct machine *m, const struct access *a) {
    uint32_t addr = (uint32_t)a->offset;
    if (a->base != ABSOLUTE) addr += m->registers[a->base];
    if (a->index != ABSOLUTE) addr += m->registers[a->index] << a->shift;
    return addr >> 2 & 1;
}

/* The M7's cycles: from a fresh start, with the first instruction already issued, and once and twice more around. */
static void schedule(struct machine *m, struct block *b, const uint8_t *code) {
    static struct issue fresh, paired;
    uint32_t ends[3];
    const uint32_t granules = ((b->addr + b->size - 1) >> 3) - (b->addr >> 3) + 1;
    struct insn i = {.kind = ALU};
    issue_begin(&fresh);
    issue_begin(&paired);
    for (int pass = 0; pass < 3; ++pass) {
        struct origin origins[15];
        for (uint8_t r = 0; r < 15; ++r) origins[r] = (struct origin){r, 0};
        unsigned it_left = 0;
        for (uint32_t at = 0; at < b->size; at += i.bytes) {
            i = decode(code + at);
            const struct operands o = operands_of(code + at);
            struct access a;
            const bool known = locate(&a, origins, &i, &o, b->addr + at);
            if (known && !pass) add_access(b, &a);
            const int bank = known ? bank_of(m, &a) : UNKNOWN_BANK;
            if (!at && !pass) b->first_pairs = !o.dsp && i.kind < DIVIDE;
            issue_next(&fresh, &i, &o, bank);
            if (at && !pass) issue_next(&paired, &i, &o, bank);
            follow(origins, &i, &o, it_left > 0);
            it_left = i.kind == IT_BLOCK ? i.it_length : it_left ? it_left - 1 : 0;
        }
        ends[pass] = issue_cycles(&fresh);
        if (!pass) b->ends_open = fresh.half && is_branch(&i);
    }
    b->paired_ends_open = paired.half && is_branch(&i);
    b->typical = (uint16_t)(ends[0] > granules ? ends[0] : granules);
    const uint32_t rest = issue_cycles(&paired);
    b->paired = (uint16_t)(rest > granules ? rest : granules);
    for (int turn = 0; turn < 2; ++turn) {
        const uint32_t cycles = ends[turn + 1] - ends[turn];
        b->again[turn] = (uint16_t)(cycles > granules ? cycles : granules);
    }
}

static int memory_of(const struct machine *m, const struct access *a) {
    uint32_t addr = (uint32_t)a->offset;
    if (a->base != ABSOLUTE) addr += m->registers[a->base];
    if (a->index != ABSOLUTE) addr += m->registers[a->index] << a->shift;
    return addr >> 28; /* flash or RAM */
}

static void add_accesses(struct machine *m, struct block *b, const uint8_t *code) {
    struct origin origins[15];
    struct m4_stream stream = {.memory = UNKNOWN_MEMORY};
    struct insn before = {.kind = ALU};
    for (uint8_t r = 0; r < 15; ++r) origins[r] = (struct origin){r, 0};
    unsigned it_left = 0;
    struct insn i;
    for (uint32_t at = 0; at < b->size; at += i.bytes) {
        i = decode(code + at);
        const struct operands o = operands_of(code + at);
        struct access a;
        const bool known = locate(&a, origins, &i, &o, b->addr + at);
        if (known) add_access(b, &a);
        if (m->chip->core == CORTEX_M4) {
            const bool pipelined = is_load(&before) && before.dest != i.base && before.dest != i.index;
            b->typical += m4_extra(&stream, &i, b->addr + at, pipelined, known ? memory_of(m, &a) : UNKNOWN_MEMORY);
            if (!at) b->odd_start = i.bytes == 4 && b->addr & 2;
        }
        before = i;
        follow(origins, &i, &o, it_left > 0);
        it_left = i.kind == IT_BLOCK ? i.it_length : it_left ? it_left - 1 : 0;
    }
}

static void describe(struct machine *m, struct block *b, uint32_t addr, uint32_t size, const uint8_t *code) {
    const bool m7 = m->chip->core == CORTEX_M7;
    struct insn before = {.kind = ALU};
    unsigned it_left = 0, loads = 0, line_cycles = 0;
    int32_t sp = 0;
    *b = (struct block){.addr = addr, .size = size};
    for (uint32_t at = 0; at < size; at += before.bytes) {
        const struct insn i = decode(code + at);
        const struct price p = price_of(&i, &before, m->chip->core);
        add_price(b, &i, p, &sp);
        line_cycles += p.typical;
        add_line_stall(m, b, addr + at, addr + at + i.bytes, &line_cycles);
        if (i.kind == LOAD_LITERAL) add_literal(b, code + at, addr + at, &i);
        loads += words_loaded(&i);
        if (is_branch(&i)) add_taken(b, &i, ends_conditionally(&i, it_left > 0), m7);
        it_left = i.kind == IT_BLOCK ? i.it_length : it_left ? it_left - 1 : 0;
        before = i;
    }
    if (m7) b->min = (b->min + 1) / 2; /* two instructions a cycle everywhere */
    if (b->min == 0) b->min = 1;
    add_flash_bound(m, b, loads);
    b->conditional = ends_conditionally(&before, false) || (is_branch(&before) && b->taken_max);
    b->indirect = before.kind == BRANCH_INDIRECT || before.loads_pc || before.kind == TABLE_BRANCH;
    b->fetched = ~0u;
    if (m7) schedule(m, b, code);
    else add_accesses(m, b, code);
}

static struct block *block_at(struct machine *m, uint32_t addr, uint32_t size) {
    struct block *b = &cache[addr >> 1 & (BLOCKS - 1)];
    if (b->addr == addr && b->size == size) return b;
    const uint8_t *code = memory_at(m, addr, size);
    if (!code) return NULL;
    describe(m, b, addr, size, code);
    if (b->uses_fpu && !fpu_enabled()) stop_machine(m, STOP_FAULT, "FPU instruction while CPACR has the FPU off");
    return b;
}

void forget_blocks(void) { memset(cache, 0, sizeof cache); }

static bool is_store(const struct insn *i) {
    return i->kind == STORE || i->kind == STORE_REGISTER || i->kind == STORE_MANY || i->kind == FP_STORE;
}

/* The instruction that the guard stops: the block's first store with SP below the limit. A push that fails leaves SP. */
static void locate_overflow(struct machine *m, const struct block *b, uint32_t sp) {
    const uint8_t *code = memory_at(m, b->addr, b->size);
    m->fault_pc = b->addr;
    for (uint32_t at = 0, bytes; code && at < b->size; at += bytes) {
        const struct insn i = decode(code + at);
        const uint32_t after = sp + i.sp_delta;
        bytes = i.bytes;
        m->fault_pc = b->addr + at;
        if (is_store(&i) && after < m->stack_limit) break;
        sp = after;
    }
    uc_reg_write(m->uc, UC_ARM_REG_SP, &sp);
}

static void watch_stack(struct machine *m, const struct block *b) {
    uint32_t at_start;
    uc_reg_read(m->uc, UC_ARM_REG_SP, &at_start);
    const uint32_t sp = at_start + b->lowest_sp;
    m->check_sp = b->sp_unknown;
    if (sp >= m->min_sp) return;
    m->min_sp = sp;
    if (sp >= m->stack_limit) return;
    static char why[64];
    snprintf(why, sizeof why, "stack overflow by %u B into the MPU guard", m->stack_limit - sp);
    locate_overflow(m, b, at_start);
    m->fault_cause = FAULT_GUARD;
    m->fault_addr = sp < m->guard_base ? m->guard_base : sp;
    stop_machine(m, STOP_FAULT, why);
}

/* The branch that ended the last block: was it foreseen? A two-bit counter or the last target says. */
static void leave_m7(struct machine *m, uint32_t addr) {
    struct block *b = m->last_block;
    if (!b) return;
    const bool taken = addr != m->block_end;
    if (b->conditional) {
        const bool foreseen = (b->taken_before >= 2) == taken;
        if (taken && b->taken_before < 3) ++b->taken_before;
        if (!taken && b->taken_before) --b->taken_before;
        if (foreseen) return;
    } else if (!b->indirect || b->last_target == addr) {
        return;
    }
    b->last_target = addr;
    m->cycles.typical += m->chip->timing.mispredicted_cycles;
    m->open = false;
}

static void enter_m7(struct machine *m, struct block *b, bool follows_itself) {
    if (follows_itself) {
        m->turn ^= 1;
        m->cycles.typical += b->again[m->turn];
        m->open = false;
    } else if (m->open && b->first_pairs) {
        m->cycles.typical += b->paired;
        m->open = b->paired_ends_open;
    } else {
        m->cycles.typical += b->typical;
        m->open = b->ends_open;
    }
    m->last_block = b;
}

static void on_block(uc_engine *uc, uint64_t addr, uint32_t size, void *user) {
    (void)uc;
    struct machine *m = user;
    struct block *b = &cache[addr >> 1 & (BLOCKS - 1)];
    if (b->addr != addr || b->size != size) b = block_at(m, addr, size);
    if (!b) {
        if (is_exception_return(addr)) interrupt_return(m);
        return;
    }
    if (m->cycles.typical >= m->next_event && !between_blocks(m, addr, b->stores)) return;
    const bool follows_itself = addr == m->block_start;
    m->block_start = addr;
    if (m->chip->core == CORTEX_M7) {
        leave_m7(m, addr);
        enter_m7(m, b, follows_itself);
    } else {
        if (addr != m->block_end) m->cycles.typical += m->taken_typical + b->odd_start;
        m->cycles.typical += b->typical;
    }
    if (addr != m->block_end) {
        m->cycles.min += m->taken_min;
        m->cycles.max += m->taken_max;
    }
    m->instructions += b->instructions;
    m->cycles.min += b->min;
    m->cycles.max += b->max;
    m->block_end = addr + size;
    m->taken_typical = b->taken_typical;
    m->taken_min = b->taken_min;
    m->taken_max = b->taken_max;
    if (b->lowest_sp < 0 || b->sp_unknown || m->check_sp) watch_stack(m, b);
    if (b->access_count) wait_for_data(m, b);
    if (m->flash_wait_states && (uint32_t)addr - m->chip->flash_base < m->chip->flash_size_bytes)
        m->cycles.typical += fetch_stalls(m, b);
}

void install_block_hook(struct machine *m) {
    uc_hook hook;
    check(uc_hook_add(m->uc, &hook, UC_HOOK_BLOCK, (void *)on_block, m, (uint64_t)1, (uint64_t)0), "block hook");
}

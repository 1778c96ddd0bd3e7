/* Tables of cycles. `typical` of the M7 is m7.c's affair; here are its bounds. */
#include "prices.h"

/* Cortex-M3 TRM r2p1, table 3-1 and section 3.3.2. A taken branch adds P = 1 to 3. */
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

/* Cortex-M7: Arm publishes no table. One instruction a cycle; max adds result latencies. */
static const struct price m7_price[KINDS] = {
    [ALU] = {1, 1, 1}, [MUL] = {1, 1, 2}, [MLA] = {1, 1, 2}, [MULL] = {1, 1, 2}, [MLAL] = {1, 1, 2},
    [DIVIDE] = {7, 2, 20}, [LOAD] = {1, 1, 2}, [LOAD_LITERAL] = {1, 1, 2}, [STORE] = {1, 1, 2},
    [STORE_REGISTER] = {1, 1, 2}, [LOAD_MANY] = {1, 0, 1}, [STORE_MANY] = {1, 0, 1}, [BRANCH] = {1, 1, 1},
    [BRANCH_COND] = {1, 1, 1}, [BRANCH_INDIRECT] = {1, 1, 1}, [TABLE_BRANCH] = {3, 2, 4}, [IT_BLOCK] = {1, 0, 1},
    [SYSTEM] = {1, 1, 2}, [BARRIER] = {4, 1, 8}, [FP_MOVE] = {1, 1, 3}, [FP_LOAD] = {1, 1, 2}, [FP_STORE] = {1, 1, 2},
    [FP_SINGLE] = {1, 1, 6}, [FP_DOUBLE] = {3, 1, 9}, [FP_DIV_SINGLE] = {16, 2, 18}, [FP_DIV_DOUBLE] = {30, 2, 32},
};

/* Cortex-M0+ TRM r0p1 (DDI0484C), table 3-1, with the multiplier of one cycle. 32-bit instructions: price_of(). */
static const struct price m0plus_price[KINDS] = {
    [ALU] = {1, 1, 1}, [MUL] = {1, 1, 1}, [LOAD] = {2, 2, 2}, [LOAD_LITERAL] = {2, 2, 2}, [STORE] = {2, 2, 2},
    [STORE_REGISTER] = {2, 2, 2}, [LOAD_MANY] = {1, 1, 1}, [STORE_MANY] = {1, 1, 1}, [BRANCH] = {2, 2, 2},
    [BRANCH_COND] = {1, 1, 1}, [BRANCH_INDIRECT] = {2, 2, 2}, [SYSTEM] = {1, 1, 3}, [BARRIER] = {3, 3, 4},
};

/* Cortex-M33: `typical` is m33.c's affair; here are its bounds. It has no double precision. */
static const struct price m33_price[KINDS] = {
    [ALU] = {1, 0, 2}, [MUL] = {1, 1, 3}, [MLA] = {1, 1, 2}, [MULL] = {1, 1, 2}, [MLAL] = {1, 1, 2},
    [DIVIDE] = {6, 2, 12}, [LOAD] = {1, 1, 3}, [LOAD_LITERAL] = {1, 1, 3}, [STORE] = {1, 1, 2},
    [STORE_REGISTER] = {1, 1, 2}, [LOAD_MANY] = {0, 0, 4}, [STORE_MANY] = {0, 0, 1}, [BRANCH] = {2, 1, 3},
    [BRANCH_COND] = {1, 0, 1}, [BRANCH_INDIRECT] = {3, 1, 4}, [TABLE_BRANCH] = {3, 2, 4}, [IT_BLOCK] = {1, 0, 1},
    [SYSTEM] = {1, 1, 3}, [BARRIER] = {4, 1, 8}, [FP_MOVE] = {1, 1, 3}, [FP_LOAD] = {1, 1, 3}, [FP_STORE] = {1, 1, 3},
    [FP_SINGLE] = {1, 1, 6}, [FP_DIV_SINGLE] = {14, 1, 18},
};

/* Refilling the pipeline after a taken branch; a computed target is known later than an encoded one. */
static const struct price m3_taken = {1, 1, 3}, m3_taken_indirect = {2, 1, 3};
static const struct price m7_taken = {0, 0, 8}, m33_taken = {1, 1, 3}, m0plus_taken = {1, 1, 1}, free_of_charge = {0, 0, 0};

struct price price_of_taken(const struct insn *i, enum core core) {
    const bool direct = i->kind == BRANCH || i->kind == BRANCH_COND;
    if (core == CORTEX_M7) return m7_taken;
    if (core == CORTEX_M33 || core == CORTEX_M0PLUS) { /* all else is in the instruction's own price */
        const bool conditional = i->kind == BRANCH_COND;
        return !conditional ? free_of_charge : core == CORTEX_M33 ? m33_taken : m0plus_taken;
    }
    return direct ? m3_taken : m3_taken_indirect;
}

/* Neighbouring single loads, and a store behind a load, overlap on M3 and M4 unless an address waits for the load. */
bool overlaps(const struct insn *i, const struct insn *before) {
    const bool moves = i->kind >= LOAD && i->kind <= STORE_REGISTER;
    const bool after_load = before->kind == LOAD || before->kind == LOAD_LITERAL;
    return moves && after_load && before->dest != i->base && before->dest != i->index;
}

/* BL; MRS and MSR; nothing else of 32 bits is an M0+'s but barriers. */
static struct price m0plus_price_of(const struct insn *i) {
    static const struct price three = {3, 3, 3};
    struct price p = m0plus_price[i->kind];
    if (i->bytes == 4 && (i->kind == BRANCH || i->kind == SYSTEM)) return three;
    if (i->bytes == 4 && i->kind != BARRIER) return free_of_charge;
    const unsigned more = i->registers + (i->kind == LOAD_MANY && i->loads_pc ? 2 : 0);
    return (struct price){p.typical + more, p.min + more, p.max + more};
}

bool has_price(struct price p) { return p.max > 0; }

struct price price_of(const struct insn *i, const struct insn *before, enum core core) {
    static const struct price *const prices[] = {[CORTEX_M3] = m3_price, [CORTEX_M4] = m4_price, [CORTEX_M7] = m7_price,
                                                 [CORTEX_M33] = m33_price};
    if (core == CORTEX_M0PLUS) return m0plus_price_of(i);
    const bool m7 = core == CORTEX_M7, overlapping = core == CORTEX_M3 || core == CORTEX_M4;
    struct price p = prices[core][i->kind];
    if (!has_price(p)) return p;
    if (overlapping && overlaps(i, before) && p.typical == 2) {
        p.typical = 1;
        p.max -= 1;
    }
    p.typical += i->registers;
    p.min += m7 ? (i->registers + 1) / 2 : i->registers; /* the M7 moves 64 bits at a time */
    p.max += i->registers;
    return p;
}

/* Cortex-M4, measured by others: [J] github.com/jnk0le/random, "pipeline cycle test/doc/cortex_m3m4.md" (STM32F407);
 * [C] compendium.i-0.nl, "Alignment rules" (STM32L4). The prefetch unit holds three words and fetches one a cycle
 * (Arm, article 103488664), so wide instructions at odd halfwords leave it behind once it has been full: after a load.
 * [J] also finds that loads with write-back of one base do not overlap; with that, X-CUBE-AI's images on the L4R5 come
 * out 5 to 8 % slower than measured, without it within 1 %, so it is left out. */
unsigned m4_extra(struct m4_stream *s, const struct insn *i, uint32_t addr, bool overlapped, int memory) {
    enum { ODD_WIDE_IN_A_ROW = 3 };
    const bool odd = i->bytes == 4 && addr & 2, loads = is_load(i);
    const bool elsewhere = memory != s->memory && memory != UNKNOWN_MEMORY && s->memory != UNKNOWN_MEMORY;
    unsigned extra = overlapped && loads && (odd || elsewhere); /* [J] */
    if (loads && s->stored) ++extra;                            /* [J] */
    s->odd_wide = odd ? s->odd_wide + 1 : 0;
    if (s->odd_wide == ODD_WIDE_IN_A_ROW) ++extra;              /* [C] */
    if (loads || i->kind == LOAD_MANY) s->odd_wide = 0;
    s->stored = i->kind == STORE || i->kind == STORE_REGISTER;
    s->memory = loads ? memory : UNKNOWN_MEMORY;
    return extra;
}

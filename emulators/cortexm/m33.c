/* Issue rules of the Cortex-M33. Arm publishes no table; measured by others on an RP2350 (r1p0): github.com/jnk0le/random,
 * "pipeline cycle test/doc/cortex_m33.md". What that does not say is a guess, named here. */
#include "m33.h"

enum {
    RESULT = 2, SAME = 1,           /* cycles to a reader */
    DIVISION_CYCLES = 6,            /* guess; depends on the operands */
    NARROW_MUL_CYCLES = 2, FP_DIVISION_CYCLES = 14, FP_ADD_LATENCY = 2, FP_FUSED_LATENCY = 3, FP_FUSED_BLOCKS = 2,
    BARRIER_CYCLES = 4, TAKEN_CYCLES = 2, INDIRECT_CYCLES = 3, LOADED_PC_CYCLES = 3 /* the latter two: guesses */
};

enum result { PLAIN, SHIFTED, SIMD, EXTENDED_SUM }; /* by when it is there */

static unsigned first_half(const uint8_t *code) { return code[0] | code[1] << 8; }

static enum result result_of(const struct insn *i, const uint8_t *code) {
    const unsigned h1 = first_half(code);
    if (i->bytes == 2) return (h1 & 0xFF00) == 0xBA00 ? SIMD : PLAIN; /* REV */
    const unsigned h2 = code[2] | code[3] << 8, base = h1 & 15;
    if ((h1 & 0xFE00) == 0xEA00) {
        if ((h1 & 0x1E0) == 0xC0) return SIMD; /* PKHBT, PKHTB */
        const bool moves = (h1 & 0x1E0) == 0x40 && base == 15;
        return h2 & 0x70F0 && !moves ? SHIFTED : PLAIN;
    }
    if ((h1 & 0xFB40) == 0xF300 && !(h2 & 0x8000)) {
        const unsigned operation = h1 >> 4 & 0x1F;
        return operation == 0x10 || operation == 0x12 || operation == 0x18 || operation == 0x1A ? SIMD : PLAIN; /* saturation */
    }
    if ((h1 & 0xFF00) != 0xFA00) return PLAIN;
    if (h1 & 0x80) return (h1 & 0xFFF0) == 0xFAB0 ? PLAIN : SIMD; /* CLZ */
    if (!(h2 & 0x80)) return PLAIN;
    if (base != 15) return EXTENDED_SUM;
    return (h1 & 0x60) == 0x20 ? SIMD : PLAIN; /* SXTB16, UXTB16: guess */
}

static bool multiplies(const struct insn *i) { return i->kind >= MUL && i->kind <= MLAL; }

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t ready_at(const struct m33 *s, const struct insn *i, const struct operands *o, enum result result) {
    const uint16_t added = multiplies(i) ? o->addend : result == EXTENDED_SUM ? o->late : 0;
    const uint16_t stored = i->stores ? o->addend : 0;
    const uint16_t read = (uint16_t)((result == EXTENDED_SUM ? o->early : o->late | o->early) & ~added);
    uint32_t t = s->cycle;
    for (uint32_t left = read; left; left &= left - 1) t = later(t, s->registers[__builtin_ctz(left)].read);
    for (uint32_t left = added; left; left &= left - 1) t = later(t, s->registers[__builtin_ctz(left)].added);
    for (uint32_t left = stored; left; left &= left - 1) t = later(t, s->registers[__builtin_ctz(left)].stored);
    for (uint32_t left = o->fp_reads; left; left &= left - 1) t = later(t, s->fp_factor[__builtin_ctz(left)]);
    for (uint32_t left = o->fp_addend; left; left &= left - 1) t = later(t, s->fp[__builtin_ctz(left)]);
    return i->kind >= FP_MOVE ? later(t, s->fp_busy) : t;
}

static uint32_t duration(const struct insn *i) {
    switch (i->kind) {
    case LOAD_MANY: case STORE_MANY: return i->registers ? i->registers : 1;
    case MUL: return i->bytes == 2 ? NARROW_MUL_CYCLES : 1;
    case DIVIDE: return DIVISION_CYCLES;
    case BARRIER: return BARRIER_CYCLES;
    case FP_DIV_SINGLE: return FP_DIVISION_CYCLES;
    default: return 1;
    }
}

static void publish(struct m33 *s, const struct insn *i, const struct operands *o, enum result result) {
    const uint32_t t = s->cycle, ends = t + duration(i);
    const bool chains = multiplies(i) || result == EXTENDED_SUM || result == SHIFTED || is_load(i);
    const bool slow = chains || result == SIMD || i->kind == LOAD_MANY;
    uint32_t slot = 0;
    for (uint32_t left = o->results; left; left &= left - 1, ++slot) {
        uint32_t read = ends - SAME + (slow ? RESULT : SAME);
        if (i->kind == LOAD_MANY) read = t + slot + RESULT;
        const uint32_t sooner = chains ? read - 1 : read;
        s->registers[__builtin_ctz(left)] = (struct m33_ready){read, sooner, sooner};
    }
    for (uint32_t left = o->write_back; left; left &= left - 1)
        s->registers[__builtin_ctz(left)] = (struct m33_ready){t + SAME, t + SAME, t + SAME};
    const uint32_t fp = t + (o->fp_multiply_add ? FP_FUSED_LATENCY : FP_ADD_LATENCY);
    for (uint32_t left = o->fp_results; left; left &= left - 1) {
        s->fp[__builtin_ctz(left)] = fp;
        s->fp_factor[__builtin_ctz(left)] = o->fp_multiply_add ? fp + 1 : fp;
    }
    if (o->fp_multiply_add) s->fp_busy = ends + FP_FUSED_BLOCKS;
    s->cycle = ends;
}

/* 16-bit instructions behind which a branch of 16 bits is slower. */
static bool sets_flags(unsigned h) { return h < 0x4400 || (h & 0xFF00) == 0x4500; }

/* Free behind another of 16 bits, if it falls through. */
static void branch(struct m33 *s, const struct insn *i, bool pairs) {
    const uint32_t through = pairs ? 0 : 1;
    uint32_t taken = TAKEN_CYCLES - (pairs && !s->behind_flags);
    if (i->kind == BRANCH_INDIRECT || i->kind == TABLE_BRANCH) taken = INDIRECT_CYCLES - (pairs && !s->behind_flags);
    s->cycle += i->kind == BRANCH_COND ? through : taken;
    s->taken = i->kind == BRANCH_COND ? taken - through : 0;
    s->behind_narrow = false;
}

void m33_next(struct m33 *s, const struct insn *i, const struct operands *o, const uint8_t *code) {
    const bool pairs = s->behind_narrow && i->bytes == 2;
    const bool empty = i->kind == IT_BLOCK || (i->bytes == 2 && first_half(code) == 0xBF00);
    s->taken = 0;
    if (i->kind >= BRANCH && i->kind <= TABLE_BRANCH) {
        s->cycle = ready_at(s, i, o, PLAIN);
        branch(s, i, pairs);
        return;
    }
    if (empty && pairs) {
        s->behind_narrow = false;
        return;
    }
    const enum result result = result_of(i, code);
    s->cycle = ready_at(s, i, o, result);
    publish(s, i, o, result);
    if (i->loads_pc) s->cycle += LOADED_PC_CYCLES;
    s->behind_narrow = i->bytes == 2 && !empty;
    s->behind_flags = i->bytes == 2 && sets_flags(first_half(code));
}

uint16_t m33_late(const struct m33 *s) {
    uint16_t late = 0;
    for (int r = 0; r < 15; ++r)
        if (s->registers[r].read > s->cycle) late |= (uint16_t)(1u << r);
    return late;
}

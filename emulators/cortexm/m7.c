/* Issue rules of the Cortex-M7. Arm publishes none; these were measured by others and agree with each other:
 *   [J] github.com/jnk0le/random, "pipeline cycle test/doc/cortex_m7.md" (STM32H743)
 *   [Q] quinapalus.com/cm7cycles.html (STM32H730)
 *   [L] LLVM, ARMScheduleM7.td, written by Arm
 * Stages: EX1 addresses, early ALU, shifter; EX2 late ALU; EX3 multiplication; a store's data and the addend of a
 * multiply-accumulate are read last. A time below is the first cycle in which a reader of that kind may be issued. */
#include "m7.h"

#include <string.h>

enum {
    DIVISION_CYCLES = 7,                  /* [L]; depends on the operands, from 2 on */
    FP_SINGLE_LATENCY = 3, FP_MULTIPLY_ADD_LATENCY = 5, FP_LOAD_LATENCY = 1, FP_DOUBLE_CYCLES = 4,
    FP_DIV_SINGLE_CYCLES = 16, FP_DIV_DOUBLE_CYCLES = 30, FP_MULTIPLY_ADD_BLOCKS = 3 /* [J] */
};

static const struct ready
    early_alu = {0, 1, 0, 0},             /* [J]: to the late ALU in the same cycle */
    late_alu = {1, 2, 1, 0},
    word_load = {1, 2, 2, 1},             /* [J], [L]: the late ALU has it in the next cycle, a multiplier does not */
    narrow_load = {2, 3, 2, 1},
    multiplication = {2, 3, 2, 1},        /* accumulators chain every cycle */
    write_back = {0, 1, 0, 0};

void issue_begin(struct issue *s) { memset(s, 0, sizeof *s); }

static bool multiplies(const struct insn *i) { return i->kind >= MUL && i->kind <= MLAL; }


static bool stores(const struct insn *i) { return i->kind == STORE || i->kind == STORE_REGISTER || i->kind == FP_STORE; }

static bool branches(const struct insn *i) { return i->kind >= BRANCH && i->kind <= BRANCH_INDIRECT; }

static bool fp_arithmetic(const struct insn *i) { return i->kind >= FP_SINGLE; }

static bool fp_moves(const struct insn *i) { return i->kind >= FP_MOVE && i->kind <= FP_STORE; }

/* Multiples, pairs, divisions and the like fill the cycle ([J], [L]). */
static bool alone(const struct insn *i) {
    return i->kind == LOAD_MANY || i->kind == STORE_MANY || i->kind == DIVIDE || i->kind == TABLE_BRANCH ||
           i->kind == SYSTEM || i->kind == BARRIER || i->kind >= FP_DOUBLE;
}

/* May the two be issued in one cycle, apart from what waits for what? */
static bool pairs(const struct issue *s, const struct insn *y, const struct operands *yo, int bank) {
    const struct insn *o = &s->older;
    const struct operands *oo = &s->older_operands;
    if (alone(o) || alone(y) || yo->dsp) return false;                      /* [J], [L]: DSP from the lower address only */
    if (oo->shifter && yo->shifter) return false;                           /* [J]: one shifter */
    if (multiplies(o) && multiplies(y)) return false;
    if ((multiplies(o) && stores(y)) || (stores(o) && multiplies(y))) return false;
    if (stores(o) && stores(y)) return false;
    if (is_load(o) && is_load(y) && (bank == UNKNOWN_BANK || s->older_bank == UNKNOWN_BANK || bank == s->older_bank))
        return false;                                                       /* [J]: even and odd words */
    if (branches(o) && branches(y)) return false;
    if (fp_arithmetic(o) && fp_arithmetic(y)) return false;
    if (fp_moves(y) && s->fp_busy > s->cycle) return false; /* [J]: only as the first of a pair */
    if ((oo->fp_multiply_add && fp_moves(y)) || (fp_moves(o) && yo->fp_multiply_add)) return false;
    if (o->kind == FP_MOVE && y->kind == FP_MOVE) return false;
    return true;
}

/* [J]: additions, multiples and doubles do not go on for three cycles after a multiply-accumulate. */
static bool waits_for_multiply_add(const struct insn *i, const struct operands *o) {
    return (i->kind >= LOAD_MANY && i->kind <= STORE_MANY && (o->fp_results | o->fp_addend)) || o->fp_adds;
}

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The first cycle in which everything is there. */
static uint32_t ready_at(const struct issue *s, const struct insn *i, const struct operands *o) {
    uint32_t at = 0;
    const bool multiply = multiplies(i);
    for (unsigned r = 0; r < 15; ++r) {
        const struct ready *t = &s->registers[r];
        if (o->late >> r & 1) at = later(at, multiply ? t->multiply : t->late);
        if (o->early >> r & 1) at = later(at, t->early);
        if (o->addend >> r & 1) at = later(at, multiply ? t->addend : t->addend ? t->addend - 1u : 0);
    }
    for (uint32_t left = o->fp_reads; left; left &= left - 1) at = later(at, s->fp[__builtin_ctz(left)].late);
    for (uint32_t left = o->fp_addend; left; left &= left - 1) at = later(at, s->fp[__builtin_ctz(left)].addend);
    if (waits_for_multiply_add(i, o)) at = later(at, s->fp_busy);
    return at;
}

static bool ready_early(const struct issue *s, const struct operands *o, uint32_t cycle) {
    for (unsigned r = 0; r < 15; ++r)
        if (o->late >> r & 1 && s->registers[r].early > cycle) return false;
    return true;
}

static void set(struct issue *s, uint16_t registers, struct ready delay, uint32_t cycle) {
    for (uint32_t left = registers; left; left &= left - 1)
        s->registers[__builtin_ctz(left)] = (struct ready){cycle + delay.late, cycle + delay.early, cycle + delay.multiply, cycle + delay.addend};
}

static void set_fp(struct issue *s, uint32_t registers, uint32_t late, uint32_t addend) {
    for (uint32_t left = registers; left; left &= left - 1) {
        s->fp[__builtin_ctz(left)].late = late;
        s->fp[__builtin_ctz(left)].addend = addend;
    }
}

static void publish_fp(struct issue *s, const struct insn *i, const struct operands *o, uint32_t t) {
    if (o->fp_multiply_add) {
        set_fp(s, o->fp_results, t + FP_MULTIPLY_ADD_LATENCY, t + FP_SINGLE_LATENCY);
        s->fp_busy = t + 1 + FP_MULTIPLY_ADD_BLOCKS;
    } else if (i->kind == FP_LOAD || i->kind == LOAD_MANY) {
        set_fp(s, o->fp_results, t + 1 + FP_LOAD_LATENCY, t + FP_SINGLE_LATENCY);
    } else {
        set_fp(s, o->fp_results, t + FP_SINGLE_LATENCY, t + FP_SINGLE_LATENCY - 1);
    }
}

static void publish(struct issue *s, const struct insn *i, const struct operands *o, bool older) {
    const uint32_t t = s->cycle;
    struct ready delay = late_alu;
    if (multiplies(i)) delay = multiplication;
    else if (i->kind == LOAD || i->kind == LOAD_LITERAL || i->kind == LOAD_MANY) delay = o->narrow ? narrow_load : word_load;
    else if (i->kind == FP_MOVE) delay = narrow_load;
    else if (older && o->simple && ready_early(s, o, t)) delay = early_alu;
    set(s, o->results, delay, t);
    if (o->write_back) set(s, o->write_back, write_back, t);
    if (o->fp_results) publish_fp(s, i, o, t);
}

/* Cycles that one of `alone` takes. */
static uint32_t duration(const struct insn *i) {
    switch (i->kind) {
    case LOAD_MANY: case STORE_MANY: return (i->registers + 1u) / 2; /* 64 bits at a time */
    case DIVIDE: return DIVISION_CYCLES;
    case TABLE_BRANCH: return 2;
    case SYSTEM: return 1;
    case BARRIER: return 4;
    case FP_DOUBLE: return FP_DOUBLE_CYCLES;
    case FP_DIV_SINGLE: return FP_DIV_SINGLE_CYCLES;
    case FP_DIV_DOUBLE: return FP_DIV_DOUBLE_CYCLES;
    default: return 1;
    }
}

void issue_next(struct issue *s, const struct insn *i, const struct operands *o, int bank) {
    const uint32_t ready = ready_at(s, i, o);
    if (s->half && ready <= s->cycle && pairs(s, i, o, bank)) {
        publish(s, i, o, false);
        s->half = false;
        ++s->cycle;
        return;
    }
    if (s->half) ++s->cycle;
    s->cycle = later(s->cycle, ready);
    publish(s, i, o, true);
    s->half = !alone(i);
    if (!s->half) s->cycle += duration(i);
    s->older = *i;
    s->older_operands = *o;
    s->older_bank = bank;
}

uint32_t issue_cycles(const struct issue *s) { return s->cycle + s->half; }

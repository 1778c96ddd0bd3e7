/* When the Cortex-M33 issues what: one instruction a cycle, in order; a few of 16 bits cost nothing. */
#pragma once
#include "operands.h"

struct m33_ready {
    uint32_t read, added, stored; /* first cycle for a reader; as addend of a product; as data of a store */
};

struct m33 {
    uint32_t cycle;             /* of the next instruction, if it need not wait */
    uint32_t taken;             /* further cycles if the branch that came last is taken */
    uint32_t fp_busy;           /* first cycle in which the FPU begins something else */
    bool behind_narrow;         /* the instruction before has 16 bits and is not one of a pair already */
    bool behind_flags;          /* and sets the flags */
    struct m33_ready registers[15];
    uint32_t fp[32], fp_factor[32];
};

void m33_next(struct m33 *s, const struct insn *i, const struct operands *o, const uint8_t *code);
uint16_t m33_late(const struct m33 *s);

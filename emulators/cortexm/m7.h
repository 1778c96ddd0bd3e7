/* When the Cortex-M7 issues what: two instructions a cycle, in order. */
#pragma once
#include "operands.h"

struct ready {
    uint32_t late, early, multiply, addend;
};

struct issue {
    uint32_t cycle;          /* of the next instruction, if it need not wait */
    bool half;               /* one has been issued in this cycle, and a second may follow */
    struct insn older;
    struct operands older_operands;
    struct ready registers[15];
    struct ready fp[32];
    int older_bank;          /* 0 or 1 of a load in `older`, or UNKNOWN_BANK */
    uint32_t fp_busy;        /* first cycle after multiply-accumulate in which loads and moves of the FPU go on */
};

enum { UNKNOWN_BANK = -1 };

void issue_begin(struct issue *s);
void issue_next(struct issue *s, const struct insn *i, const struct operands *o, int bank);
uint32_t issue_cycles(const struct issue *s);

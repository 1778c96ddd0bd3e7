/* Cycles of the cores that issue one instruction at a time, and the bounds of all cores. */
#pragma once
#include "machine.h"
#include "operands.h"

struct price {
    uint8_t typical, min, max;
};

/* What the M4's fetch and load units remember of the instructions before. */
struct m4_stream {
    unsigned odd_wide;
    bool stored;
    int memory;
};

enum { UNKNOWN_MEMORY = -1 };

/* A price whose `max` is 0 is none: the core has no such instruction, or nobody has measured it. */
bool has_price(struct price p);
struct price price_of(const struct insn *i, const struct insn *before, enum core core);
struct price price_of_taken(const struct insn *i, enum core core);
bool overlaps(const struct insn *i, const struct insn *before);
unsigned m4_extra(struct m4_stream *s, const struct insn *i, uint32_t addr, bool overlapped, int memory);

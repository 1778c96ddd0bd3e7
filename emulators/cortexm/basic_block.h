/* What is known of a basic block once it has been decoded. */
#pragma once
#include "machine.h"

enum { ABSOLUTE = 255, NEVER_FETCHED = ~0u };

/* Data of loads or stores at base + (index << shift) + offset, registers as they are when the block is entered. */
struct access {
    uint8_t base, index, shift;
    bool stores;
    uint16_t words;     /* loads of a word: each is late if the address is odd */
    uint16_t loads;     /* transfers */
    uint32_t bytes;
    int32_t offset;
    uint32_t last_line; /* touched the last time */
};

/* M0+: cycles that pass within one line of flash up to a load, or to the line's end. */
struct stretch {
    uint16_t line;      /* counted from the block's first */
    uint16_t cycles;
    bool loads;
    struct access data;
};

struct block {
    uint32_t addr, size, generation;
    uint32_t instructions, typical, min, max;
    uint16_t taken_typical, taken_min, taken_max; /* for a conditional branch at the end that is taken */
    uint32_t paired;       /* M7: if the first instruction is issued beside the branch that led here */
    uint32_t again[2];     /* M7: if the block follows itself, in turns */
    uint32_t line_stalls;  /* flash waits inside the block when it runs straight from flash */
    uint32_t access_count;
    uint32_t last_target;  /* M7: of the branch at the end */
    uint32_t fetched;      /* M7: value of `fills` when all its lines were last seen in the instruction cache */
    int32_t lowest_sp;     /* relative to the SP at entry, <= 0 */
    uint8_t taken_before;  /* M7: two-bit counter of the branch predictor */
    bool conditional, indirect;
    bool ends_open, paired_ends_open; /* M7: the branch at the end is alone in its cycle */
    bool first_pairs;                 /* M7: the first instruction may be issued beside a branch */
    bool calls;            /* the branch at the end leaves an address to return to */
    bool odd_start;        /* M4: begins with a wide instruction at an odd halfword */
    bool sp_unknown, stores, uses_fpu;
    uint16_t first_reads, late; /* M33: registers read first; not ready for what comes behind the block */
    uint32_t stretch_count;
    struct stretch *stretches; /* M0+ */
    struct access *accesses;
};

/* Where the data are, with the registers as they are: at the entry of the block. */
static inline uint32_t address_of(const struct machine *m, const struct access *a) {
    uint32_t addr = (uint32_t)a->offset;
    if (a->base != ABSOLUTE) addr += m->registers[a->base];
    if (a->index != ABSOLUTE) addr += m->registers[a->index] << a->shift;
    return addr;
}

/* True if the line was there; else it is now, in place of the one not used for longest. */
static inline bool touch(uint32_t *ways, unsigned count, uint32_t line) {
    unsigned at = 0;
    while (at < count - 1 && ways[at] != line) ++at;
    const bool hit = ways[at] == line;
    for (; at; --at) ways[at] = ways[at - 1];
    ways[0] = line;
    return hit;
}

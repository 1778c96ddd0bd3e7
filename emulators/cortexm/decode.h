/* Thumb-2 instructions, as far as counting them and their cycles needs it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum kind {
    ALU, MUL, MLA, MULL, MLAL, DIVIDE, LOAD, LOAD_LITERAL, STORE, STORE_REGISTER, LOAD_MANY, STORE_MANY,
    BRANCH, BRANCH_COND, BRANCH_INDIRECT, TABLE_BRANCH, IT_BLOCK, SYSTEM, BARRIER,
    FP_MOVE, FP_LOAD, FP_STORE, FP_SINGLE, FP_DOUBLE, FP_DIV_SINGLE, FP_DIV_DOUBLE, KINDS
};

enum { NO_REGISTER = 255 };

struct insn {
    enum kind kind;
    uint8_t bytes;
    uint8_t registers;     /* transferred by LOAD_MANY and STORE_MANY */
    uint8_t dest;          /* of a single load */
    uint8_t base, index;   /* of a single load or store */
    uint8_t it_length;     /* instructions governed by this IT */
    bool loads_pc;
    bool stores;
    bool sp_unknown;       /* SP changes by an amount only known at run time */
    int32_t sp_delta;
};

struct insn decode(const uint8_t *code);

/* Of one register; LOAD_MANY takes another path through every core. */
static inline bool is_load(const struct insn *i) { return i->kind == LOAD || i->kind == LOAD_LITERAL || i->kind == FP_LOAD; }

/* What a Thumb-2 instruction reads and writes, and when: for issue rules, and for the addresses of its data. */
#pragma once
#include "decode.h"

struct operands {
    uint16_t late, early, addend; /* general registers, by the stage that reads them; MAC reads `addend` last */
    uint16_t results;
    uint16_t write_back;          /* the base register of a load or store, known at once */
    uint32_t fp_reads, fp_addend, fp_results; /* S0 to S31 */
    bool shifter;                 /* needs the one shifter beside the ALU: shifted operand or constant, bit field */
    bool dsp;                     /* bit fields, extension, SIMD but no multiplication: first of a pair only */
    bool simple;                  /* the early ALU can do it: add, subtract, move, shift */
    bool narrow;                  /* a load of less than a word */
    bool fp_multiply_add, fp_adds;
    /* data of a load or store: at base + (index << shift) + offset, `bytes` upward; base NO_REGISTER: none, 15: literal */
    uint8_t base, index, shift, bytes;
    int32_t offset;
    int32_t base_change;          /* of write_back */
    uint8_t copied_from;          /* results = this register + added, if it is one */
    int32_t added;
};

struct operands operands_of(const uint8_t *code);

/* Encodings: ARMv7-M Architecture Reference Manual, chapter A5. */
#include "decode.h"

enum { SP = 13, PC = 15 };

static unsigned bits(uint32_t word, unsigned low, unsigned count) { return word >> low & ((1u << count) - 1); }

static struct insn plain(enum kind kind, uint8_t bytes) {
    return (struct insn){.kind = kind, .bytes = bytes, .dest = NO_REGISTER, .base = NO_REGISTER, .index = NO_REGISTER};
}

static struct insn memory(enum kind kind, uint8_t bytes, unsigned dest, unsigned base, unsigned index) {
    struct insn i = plain(kind, bytes);
    i.stores = kind == STORE || kind == STORE_REGISTER;
    i.dest = i.stores ? NO_REGISTER : dest;
    i.base = base;
    i.index = index;
    i.loads_pc = !i.stores && dest == PC;
    return i;
}

static struct insn many(bool load, uint8_t bytes, unsigned list) {
    struct insn i = plain(load ? LOAD_MANY : STORE_MANY, bytes);
    i.registers = __builtin_popcount(list);
    i.loads_pc = load && list >> PC & 1;
    i.stores = !load;
    return i;
}

static struct insn writes(unsigned dest, uint8_t bytes) {
    struct insn i = plain(dest == PC ? BRANCH_INDIRECT : ALU, bytes);
    i.sp_unknown = dest == SP;
    return i;
}

/* 0x4000-0x4FFF: data processing, high registers, BX, literal loads */
static struct insn decode16_data(unsigned h) {
    if (h < 0x4400) return plain((h & 0xFFC0) == 0x4340 ? MUL : ALU, 2);
    if (h >= 0x4800) return memory(LOAD_LITERAL, 2, bits(h, 8, 3), PC, NO_REGISTER);
    if ((h & 0xFF00) == 0x4700) return plain(BRANCH_INDIRECT, 2);
    if ((h & 0xFF00) == 0x4500) return plain(ALU, 2);
    return writes((h & 7) | (h >> 4 & 8), 2);
}

/* 0x5000-0x9FFF: single loads and stores */
static struct insn decode16_memory(unsigned h) {
    if (h < 0x6000) {
        const bool store = bits(h, 9, 3) < 3;
        return memory(store ? STORE_REGISTER : LOAD, 2, h & 7, bits(h, 3, 3), bits(h, 6, 3));
    }
    const bool load = h & 0x800;
    if (h >= 0x9000) return memory(load ? LOAD : STORE, 2, bits(h, 8, 3), SP, NO_REGISTER);
    return memory(load ? LOAD : STORE, 2, h & 7, bits(h, 3, 3), NO_REGISTER);
}

/* 0xB000-0xBFFF: miscellaneous */
static struct insn decode16_misc(unsigned h) {
    struct insn i = plain(ALU, 2);
    if ((h & 0xFF00) == 0xB000) {
        i.sp_delta = h & 0x80 ? -4 * (int)(h & 0x7F) : 4 * (int)(h & 0x7F);
    } else if ((h & 0xF500) == 0xB100) {
        i.kind = BRANCH_COND;
    } else if ((h & 0xFE00) == 0xB400) {
        i = many(false, 2, h & 0x1FF);
        i.sp_delta = -4 * i.registers;
    } else if ((h & 0xFE00) == 0xBC00) {
        i = many(true, 2, (h & 0xFF) | (h & 0x100) << 7);
        i.sp_delta = 4 * i.registers;
    } else if ((h & 0xFFE0) == 0xB660) {
        i.kind = SYSTEM;
    } else if ((h & 0xFF00) == 0xBF00 && h & 0xF) {
        i.kind = IT_BLOCK;
        i.it_length = 4 - __builtin_ctz(h & 0xF);
    }
    return i;
}

static struct insn decode16(unsigned h) {
    switch (h >> 12) {
    case 0x4: return decode16_data(h);
    case 0x5: case 0x6: case 0x7: case 0x8: case 0x9: return decode16_memory(h);
    case 0xB: return decode16_misc(h);
    case 0xC: return many(h & 0x800, 2, h & 0xFF);
    case 0xD: return plain((h & 0xF00) < 0xE00 ? BRANCH_COND : SYSTEM, 2);
    case 0xE: return plain(BRANCH, 2);
    default: return plain(ALU, 2);
    }
}

/* 0xE800-0xE9FF: load and store multiple, dual, exclusive, table branch */
static struct insn decode32_many(unsigned h1, unsigned h2) {
    const bool load = h1 & 0x10, write_back = h1 & 0x20;
    const unsigned base = h1 & 15;
    struct insn i;
    if (!(h1 & 0x40)) {
        i = many(load, 4, h2);
        if (base == SP && write_back) i.sp_delta = (h1 & 0x80 ? 4 : -4) * i.registers;
        return i;
    }
    if ((h1 & 0xFFF0) == 0xE8D0 && (h2 & 0xFFE0) == 0xF000) return plain(TABLE_BRANCH, 4);
    if (!(h1 & 0x120)) return memory(load ? LOAD : STORE, 4, h2 >> 12, base, NO_REGISTER); /* exclusive */
    i = many(load, 4, 3);
    if (base == SP && write_back) i.sp_delta = (h1 & 0x80 ? 4 : -4) * (int)(h2 & 0xFF);
    return i;
}

/* ThumbExpandImm, and the plain 12-bit immediate of ADDW and SUBW */
static uint32_t immediate(unsigned h1, unsigned h2) {
    const uint32_t imm12 = (h1 & 0x400) << 1 | (h2 >> 4 & 0x700) | (h2 & 0xFF), imm8 = imm12 & 0xFF;
    if (h1 & 0x200) return imm12;
    if (imm12 >= 0x400) {
        const uint32_t value = 0x80 | (imm12 & 0x7F), rotate = imm12 >> 7;
        return value >> rotate | value << (32 - rotate);
    }
    const uint32_t repeat[] = {1, 0x00010001, 0x01000100, 0x01010101};
    return imm8 * repeat[imm12 >> 8];
}

/* 0xF000-0xF7FF: immediates, branches, system control */
static struct insn decode32_control(unsigned h1, unsigned h2) {
    if (!(h2 & 0x8000)) {
        const unsigned dest = bits(h2, 8, 4), operation = h1 & 0xFBEF;
        struct insn i = writes(dest, 4);
        if (dest == PC) i.kind = ALU; /* a comparison */
        if (dest != SP) return i;
        i.sp_unknown = operation != 0xF1AD && operation != 0xF2AD && operation != 0xF10D && operation != 0xF20D;
        if (!i.sp_unknown) i.sp_delta = (int32_t)immediate(h1, h2) * ((operation & 0xA0) == 0xA0 ? -1 : 1);
        return i;
    }
    if (h2 & 0x1000) return plain(BRANCH, 4); /* B.W, BL */
    if ((h1 & 0x380) != 0x380) return plain(BRANCH_COND, 4);
    if ((h1 & 0xFFF0) == 0xF3B0) return plain(BARRIER, 4);
    struct insn i = plain(SYSTEM, 4);
    i.sp_unknown = (h1 & 0xFFE0) == 0xF380 && (h2 & 0xFE) == 8; /* MSR MSP, PSP */
    return i;
}

/* 0xF800-0xF9FF: single loads and stores */
static struct insn decode32_memory(unsigned h1, unsigned h2) {
    const bool load = h1 & 0x10, long_offset = h1 & 0x80, word = (h1 & 0x60) == 0x40;
    const unsigned target = h2 >> 12, base = h1 & 15;
    const bool by_register = base != PC && !long_offset && !(h2 & 0xFC0);
    if (load && target == PC && !word) return plain(ALU, 4); /* PLD and other hints */
    enum kind kind = load ? LOAD : by_register ? STORE_REGISTER : STORE;
    if (load && base == PC) kind = LOAD_LITERAL;
    struct insn i = memory(kind, 4, target, base, by_register ? h2 & 15 : NO_REGISTER);
    const bool write_back = !long_offset && (h2 & 0x900) == 0x900;
    if (base == SP && write_back) i.sp_delta = (h2 & 0x200 ? 1 : -1) * (int)(h2 & 0xFF);
    i.sp_unknown = load && target == SP;
    return i;
}

/* 0xFB00-0xFBFF: multiplication and division */
static struct insn decode32_multiply(unsigned h1, unsigned h2) {
    const unsigned operation = bits(h1, 4, 3), variant = bits(h2, 4, 4);
    if (!(h1 & 0x80)) return plain(operation == 0 && (variant || h2 >> 12 != 15) ? MLA : MUL, 4);
    if ((operation == 1 || operation == 3) && variant == 15) return plain(DIVIDE, 4);
    return plain(operation == 0 || operation == 2 ? MULL : MLAL, 4);
}

/* Coprocessors 10 and 11: the FPU */
static struct insn decode32_fp(unsigned h1, unsigned h2) {
    const bool is_double = h2 & 0x100;
    if ((h1 & 0xFE00) == 0xEC00 && (h1 & 0xFFE0) != 0xEC40) {
        const bool load = h1 & 0x10, single = (h1 & 0x120) == 0x100;
        struct insn i = single ? plain(load ? FP_LOAD : FP_STORE, 4) : many(load, 4, 0);
        i.stores = !load;
        if (!single) {
            i.registers = h2 & 0xFF;
            if ((h1 & 0xF) == SP && h1 & 0x20) i.sp_delta = (h1 & 0x80 ? 4 : -4) * (int)(h2 & 0xFF);
        }
        return i;
    }
    if ((h1 & 0xEF00) != 0xEE00 || h2 & 0x10) return plain(FP_MOVE, 4);
    const bool divide = (h1 & 0xFFB0) == 0xEE80 && !(h2 & 0x40);
    const bool root = (h1 & 0xFFBF) == 0xEEB1 && (h2 & 0xED0) == 0xAC0;
    if (divide || root) return plain(is_double ? FP_DIV_DOUBLE : FP_DIV_SINGLE, 4);
    return plain(is_double ? FP_DOUBLE : FP_SINGLE, 4);
}

static struct insn decode32(unsigned h1, unsigned h2) {
    if ((h1 & 0xEC00) == 0xEC00) return decode32_fp(h1, h2);
    if ((h1 & 0xFE00) == 0xE800) return decode32_many(h1, h2);
    if ((h1 & 0xF800) == 0xF000) return decode32_control(h1, h2);
    if ((h1 & 0xFE00) == 0xF800) return decode32_memory(h1, h2);
    if ((h1 & 0xFF00) == 0xFB00) return decode32_multiply(h1, h2);
    if ((h1 & 0xFE00) == 0xEA00) {
        struct insn i = writes(bits(h2, 8, 4), 4); /* shifted register; destination 15 is a comparison */
        i.kind = ALU;
        return i;
    }
    return plain(ALU, 4);
}

struct insn decode(const uint8_t *code) {
    const unsigned h1 = code[0] | code[1] << 8;
    if (h1 >> 11 < 0x1D) return decode16(h1);
    return decode32(h1, code[2] | code[3] << 8);
}

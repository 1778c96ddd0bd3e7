/* Encodings: ARMv7-M Architecture Reference Manual, chapters A5 and A7. Stages: see m7.c. */
#include "operands.h"

enum { SP = 13, LR = 14, PC = 15 };

static unsigned bits(uint32_t word, unsigned low, unsigned count) { return word >> low & ((1u << count) - 1); }

static uint16_t reg(unsigned number) { return number < PC ? (uint16_t)(1u << number) : 0; }

static struct operands none(void) {
    return (struct operands){.base = NO_REGISTER, .index = NO_REGISTER, .copied_from = NO_REGISTER};
}

static struct operands data_processing(unsigned dest, uint16_t reads) {
    struct operands o = none();
    o.results = reg(dest);
    o.late = reads;
    return o;
}

/* dest = source + added, in the early ALU */
static struct operands sum(unsigned dest, unsigned source, int32_t added) {
    struct operands o = data_processing(dest, reg(source));
    o.simple = true;
    o.copied_from = (uint8_t)source;
    o.added = added;
    return o;
}

static struct operands simple(unsigned dest, uint16_t reads) {
    struct operands o = data_processing(dest, reads);
    o.simple = true;
    return o;
}

static struct operands bit_field(unsigned dest, uint16_t late, uint16_t early) {
    struct operands o = data_processing(dest, late);
    o.early = early;
    o.shifter = o.dsp = true;
    return o;
}

static struct operands transfer(bool load, unsigned target, unsigned base, int32_t offset, unsigned bytes) {
    struct operands o = none();
    o.early = reg(base);
    o.base = (uint8_t)base;
    o.offset = offset;
    o.bytes = (uint8_t)bytes;
    o.narrow = load && bytes < 4;
    if (load) o.results = reg(target);
    else o.addend = reg(target); /* data are stored late */
    return o;
}

static struct operands indexed(struct operands o, unsigned index, unsigned shift) {
    o.early |= reg(index);
    o.index = (uint8_t)index;
    o.shift = (uint8_t)shift;
    return o;
}

static struct operands based(struct operands o, unsigned base, int32_t change) {
    o.write_back = reg(base);
    o.base_change = change;
    return o;
}

static struct operands many(bool load, unsigned list, unsigned base, bool down, bool write_back) {
    const int32_t bytes = 4 * __builtin_popcount(list);
    struct operands o = transfer(load, PC, base, down ? -bytes : 0, (unsigned)bytes);
    o.results = load ? list & 0x7FFF : 0;
    o.addend = load ? 0 : list & 0x7FFF;
    return write_back ? based(o, base, down ? -bytes : bytes) : o;
}

static struct operands operands16_arithmetic(unsigned h) {
    const unsigned low = h & 7, second = bits(h, 3, 3), third = bits(h, 6, 3), high = bits(h, 8, 3);
    if (h < 0x1800) return h < 0x40 ? sum(low, second, 0) : simple(low, reg(second));
    if (h < 0x1C00) return simple(low, reg(second) | reg(third));
    if (h < 0x2000) return sum(low, second, h & 0x200 ? -(int32_t)third : (int32_t)third);
    if (h < 0x2800) return simple(high, 0);
    if (h < 0x3000) return data_processing(PC, reg(high));
    return sum(high, high, h & 0x800 ? -(int32_t)(h & 0xFF) : (int32_t)(h & 0xFF));
}

static struct operands operands16_data(unsigned h) {
    const unsigned low = h & 7, second = bits(h, 3, 3), operation = bits(h, 6, 4);
    if (h < 0x4400) {
        const bool only_second = operation == 9 || operation == 15;
        const bool compares = operation == 8 || operation == 10 || operation == 11;
        return data_processing(compares ? PC : low, reg(second) | (only_second ? 0 : reg(low)));
    }
    const unsigned dest = low | (h >> 4 & 8), source = bits(h, 3, 4);
    if (h < 0x4500) return simple(dest, reg(dest) | reg(source));
    if (h < 0x4600) return data_processing(PC, reg(dest) | reg(source));
    if (h < 0x4700) return sum(dest, source, 0);
    if (h < 0x4800) return data_processing(h & 0x80 ? LR : PC, reg(source));
    return transfer(true, bits(h, 8, 3), PC, (int32_t)(h & 0xFF) * 4, 4);
}

static struct operands operands16_memory(unsigned h) {
    static const uint8_t bytes_of[8] = {4, 2, 1, 1, 4, 2, 1, 2}; /* STR STRH STRB LDRSB LDR LDRH LDRB LDRSH */
    const unsigned low = h & 7, base = bits(h, 3, 3), imm5 = bits(h, 6, 5);
    const bool load = h & 0x800;
    if (h < 0x6000) {
        const unsigned operation = bits(h, 9, 3);
        return indexed(transfer(operation >= 3, low, base, 0, bytes_of[operation]), bits(h, 6, 3), 0);
    }
    if (h >= 0x9000) return transfer(load, bits(h, 8, 3), SP, (int32_t)(h & 0xFF) * 4, 4);
    const unsigned bytes = h < 0x7000 ? 4 : h < 0x8000 ? 1 : 2;
    return transfer(load, low, base, (int32_t)(imm5 * bytes), bytes);
}

static struct operands operands16_misc(unsigned h) {
    if ((h & 0xFF00) == 0xB000) return sum(SP, SP, (int32_t)(h & 0x7F) * (h & 0x80 ? -4 : 4));
    if ((h & 0xF500) == 0xB100) return data_processing(PC, reg(h & 7));
    if ((h & 0xFE00) == 0xB400) return many(false, (h & 0xFF) | (h & 0x100) << 6, SP, true, true);
    if ((h & 0xFE00) == 0xBC00) return many(true, (h & 0xFF) | (h & 0x100) << 7, SP, false, true);
    if ((h & 0xFF00) == 0xB200) return bit_field(h & 7, reg(bits(h, 3, 3)), 0);
    if ((h & 0xFF00) == 0xBA00) return bit_field(h & 7, 0, reg(bits(h, 3, 3)));
    return none();
}

static struct operands operands16(unsigned h) {
    switch (h >> 12) {
    case 0x0: case 0x1: case 0x2: case 0x3: return operands16_arithmetic(h);
    case 0x4: return operands16_data(h);
    case 0x5: case 0x6: case 0x7: case 0x8: case 0x9: return operands16_memory(h);
    case 0xA: return h & 0x800 ? sum(bits(h, 8, 3), SP, (int32_t)(h & 0xFF) * 4) : simple(bits(h, 8, 3), 0);
    case 0xB: return operands16_misc(h);
    case 0xC: return many(h & 0x800, h & 0xFF, bits(h, 8, 3), false, true);
    default: return none();
    }
}

static struct operands operands32_many(unsigned h1, unsigned h2) {
    const bool load = h1 & 0x10, write_back = h1 & 0x20, up = h1 & 0x80, before = h1 & 0x100;
    const unsigned base = h1 & 15;
    if (!(h1 & 0x40)) return many(load, h2, base, !up, write_back);
    if ((h1 & 0xFFE0) == 0xE8C0) return data_processing(PC, reg(base) | reg(h2 & 15)); /* table branch, exclusive */
    const int32_t offset = (int32_t)(h2 & 0xFF) * (up ? 4 : -4);
    struct operands o = transfer(load, h2 >> 12, base, before ? offset : 0, 8);
    *(load ? &o.results : &o.addend) |= reg(bits(h2, 8, 4));
    return write_back ? based(o, base, offset) : o;
}

static struct operands operands32_shifted(unsigned h1, unsigned h2) {
    const unsigned operation = bits(h1, 5, 4), first = h1 & 15, dest = bits(h2, 8, 4), second = h2 & 15;
    const bool shifts = h2 & 0x70F0;
    if (operation == 6) return bit_field(dest, reg(first), reg(second)); /* PKHBT, PKHTB */
    if (operation == 2 && first == PC) return shifts ? simple(dest, reg(second)) : sum(dest, second, 0);
    struct operands o = data_processing(dest, reg(first) | reg(second));
    o.shifter = shifts;
    if (shifts) {
        o.late = reg(first);
        o.early = reg(second);
    }
    o.simple = !shifts && (operation == 8 || operation == 13);
    return o;
}

static struct operands operands32_immediate(unsigned h1, unsigned h2) {
    const unsigned operation = bits(h1, 4, 5), first = h1 & 15, dest = bits(h2, 8, 4);
    const uint32_t imm12 = (h1 & 0x400) << 1 | (h2 >> 4 & 0x700) | (h2 & 0xFF);
    if (!(h1 & 0x200)) {
        struct operands o = data_processing(dest, reg(first));
        o.shifter = imm12 >= 0x400;
        o.simple = !o.shifter && ((operation & 0x1E) == 0x10 || (operation & 0x1E) == 0x1A || (first == PC && (operation & 0x1E) == 4));
        if (o.simple && imm12 < 0x100 && first != PC)
            return sum(dest, first, (operation & 0x1E) == 0x10 ? (int32_t)imm12 : -(int32_t)imm12);
        return o;
    }
    switch (operation) {
    case 0x00: return sum(dest, first, (int32_t)imm12);
    case 0x0A: return sum(dest, first, -(int32_t)imm12);
    case 0x04: case 0x0C: return simple(dest, operation == 0x0C ? reg(dest) : 0); /* MOVW, MOVT */
    case 0x16: return bit_field(dest, reg(dest), reg(first)); /* BFI, BFC */
    default: return bit_field(dest, 0, reg(first));           /* SSAT, USAT, SBFX, UBFX */
    }
}

static struct operands operands32_memory(unsigned h1, unsigned h2) {
    const bool load = h1 & 0x10;
    const unsigned base = h1 & 15, target = h2 >> 12, bytes = 1u << bits(h1, 5, 2);
    if (base == PC) return transfer(load, target, PC, (int32_t)(h2 & 0xFFF) * (h1 & 0x80 ? 1 : -1), bytes);
    if (h1 & 0x80) return transfer(load, target, base, (int32_t)(h2 & 0xFFF), bytes);
    if (!(h2 & 0xFC0)) return indexed(transfer(load, target, base, 0, bytes), h2 & 15, bits(h2, 4, 2));
    const int32_t offset = (int32_t)(h2 & 0xFF) * (h2 & 0x200 ? 1 : -1);
    const struct operands o = transfer(load, target, base, h2 & 0x400 ? offset : 0, bytes);
    return h2 & 0x100 && h2 & 0x800 ? based(o, base, offset) : o;
}

static struct operands operands32_register(unsigned h1, unsigned h2) {
    const unsigned first = h1 & 15, second = h2 & 15, dest = bits(h2, 8, 4);
    if (!(h1 & 0x80) && !(h2 & 0x80)) return simple(dest, reg(first) | reg(second)); /* shift by a register */
    if (!(h1 & 0x80))                                                               /* extension, with addition */
        return first == PC ? bit_field(dest, reg(second), 0) : bit_field(dest, reg(first), reg(second));
    if ((h1 & 0xFFF0) == 0xFA90) return bit_field(dest, 0, reg(second)); /* REV, RBIT */
    struct operands o = data_processing(dest, reg(first) | reg(second));
    o.dsp = true;
    return o;
}

static struct operands operands32_multiply(unsigned h1, unsigned h2) {
    const unsigned operation = bits(h1, 4, 3);
    struct operands o = data_processing(bits(h2, 8, 4), reg(h1 & 15) | reg(h2 & 15));
    if (!(h1 & 0x80)) {
        o.addend = reg(h2 >> 12);
        return o;
    }
    if (operation == 1 || operation == 3) return o; /* division */
    o.results |= reg(h2 >> 12);
    if (operation >= 4) o.addend = o.results;
    return o;
}

/* --- the FPU: a double is two singles --- */

static uint32_t fp_registers(unsigned vector, unsigned extra, bool is_double, unsigned count) {
    const unsigned first = is_double ? 2 * (vector | extra << 4) : vector << 1 | extra;
    const unsigned words = is_double ? 2 * count : count;
    return first >= 32 ? 0 : (uint32_t)((words >= 32 ? ~0ull : (1ull << words) - 1) << first);
}

static struct operands operands32_fp_memory(unsigned h1, unsigned h2) {
    const bool load = h1 & 0x10, is_double = h2 & 0x100, up = h1 & 0x80;
    const unsigned base = h1 & 15;
    const bool single = (h1 & 0x120) == 0x100;
    const int32_t offset = (int32_t)(h2 & 0xFF) * 4;
    const unsigned count = single ? 1 : is_double ? (h2 & 0xFF) / 2 : h2 & 0xFF;
    const uint32_t registers = fp_registers(h2 >> 12, h1 >> 6 & 1, is_double, count);
    struct operands o = transfer(load, PC, base, single ? (up ? offset : -offset) : up ? 0 : -offset,
                                 single ? (is_double ? 8 : 4) : (unsigned)offset);
    *(load ? &o.fp_results : &o.fp_addend) = registers;
    return !single && h1 & 0x20 ? based(o, base, up ? offset : -offset) : o;
}

static struct operands operands32_fp(unsigned h1, unsigned h2) {
    const bool is_double = h2 & 0x100;
    if ((h1 & 0xFE00) == 0xEC00 && (h1 & 0xFFE0) != 0xEC40) return operands32_fp_memory(h1, h2);
    struct operands o = none();
    if ((h1 & 0xEF00) != 0xEE00) return o;
    const uint32_t n = fp_registers(h1 & 15, h2 >> 7 & 1, is_double, 1);
    if (h2 & 0x10) { /* between a general register and a single */
        *(h1 & 0x10 ? &o.results : &o.late) = reg(h2 >> 12);
        *(h1 & 0x10 ? &o.fp_reads : &o.fp_results) = n;
        return o;
    }
    const uint32_t d = fp_registers(h2 >> 12, h1 >> 6 & 1, is_double, 1), m = fp_registers(h2 & 15, h2 >> 5 & 1, is_double, 1);
    const unsigned operation = h1 >> 4 & 0xB;
    o.fp_multiply_add = operation == 0 || operation == 1 || operation == 9 || operation == 10;
    o.fp_results = d;
    o.fp_reads = m | (operation == 11 ? 0 : n);
    if (o.fp_multiply_add) o.fp_addend = d;
    o.fp_adds = operation == 3;
    if (operation == 11 && !(h2 & 0x40)) o.fp_reads = 0;                     /* VMOV immediate */
    if (operation == 11 && ((h1 & 0xE) == 4)) {                              /* VCMP */
        o.fp_results = 0;
        o.fp_reads = d | m;
    }
    return o;
}

struct operands operands_of(const uint8_t *code) {
    const unsigned h1 = code[0] | code[1] << 8;
    if (h1 >> 11 < 0x1D) return operands16(h1);
    const unsigned h2 = code[2] | code[3] << 8;
    if ((h1 & 0xEC00) == 0xEC00) return operands32_fp(h1, h2);
    if ((h1 & 0xFE00) == 0xE800) return operands32_many(h1, h2);
    if ((h1 & 0xFE00) == 0xEA00) return operands32_shifted(h1, h2);
    if ((h1 & 0xF800) == 0xF000) return h2 & 0x8000 ? none() : operands32_immediate(h1, h2);
    if ((h1 & 0xFE00) == 0xF800) return operands32_memory(h1, h2);
    if ((h1 & 0xFF00) == 0xFA00) return operands32_register(h1, h2);
    if ((h1 & 0xFF00) == 0xFB00) return operands32_multiply(h1, h2);
    return none();
}

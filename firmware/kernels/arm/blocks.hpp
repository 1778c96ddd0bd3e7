// Blocks of sums: some rows of weights times the patches of two pixels, each element loaded once for all of them. The
// weights lie in the order in which the blocks read them (passes/arrange.py).
#pragma once
#include "firmware/kernels/arm/byte_sums.hpp"
#include "firmware/kernels/arm/dsp.hpp"
#include "firmware/kernels/common/memory.hpp"

namespace hil {

// `Rows` rows of a matrix in turn, `Step` elements of each; rows beyond the last are 0, and elements up to a multiple of four.
template <class T, Size Rows, Size Step>
struct Blocks {
    const T *at;
};
template <Size Rows, Size Step, class T>
inline Blocks<T, Rows, Step> blocks(const T *p) { return {p}; }
template <Size Rows, Size Step, int Bits>
inline Blocks<typename Fixed<Bits>::Code, Rows, Step> blocks(const Fixed<Bits> *p) { return {&p->code}; }
// Weights that are By more than bytes: where the sums of a window start, all of them take the bytes for weights
template <int By, Size Rows, Size Step>
inline Blocks<Raised<By>, Rows, Step> raised(Blocks<int8_t, Rows, Step> b) { return {reinterpret_cast<const Raised<By> *>(b.at)}; }
template <int By, Size Rows, Size Step>
inline Blocks<int8_t, Rows, Step> bytes_of(Blocks<Raised<By>, Rows, Step> b) { return {&b.at->code}; }

// As a step: elements 0, 2, 1, 3 of a row and of the next one as numbers of 16 bits, row + 256 * next. One product with such a
// number counts for both rows, and the sum of the first alone tells them apart: its weights are what the extended lower bytes
// are. No weight is -128, and sums have at most 24 bits (passes/arrange.py).
constexpr Size in_pairs = 0;
// As a step: elements in turn, in parts whose products have a sum of 32 bits; before each a number, how many pairs of elements.
constexpr Size in_parts = ~Size(1);

// Sums of `Rows` outputs for two pixels
template <Size Rows, class Acc = int32_t>
struct Sums {
    Acc of[Rows][2];
};

namespace portable {

// Four elements of two rows and of two patches, which are expanded to halfwords: the words a(0, 2), b(0, 2), a(1, 3), b(1, 3)
inline void add_four(Sums<2> &s, const int8_t *&w, const uint32_t *&x) {
    for (Size r = 0; r < 2; ++r, w += 4) {
        const uint32_t even = even_bytes(word_at(w)), odd = odd_bytes(word_at(w));
        s.of[r][0] = add_products(add_products(s.of[r][0], even, x[0]), odd, x[2]);
        s.of[r][1] = add_products(add_products(s.of[r][1], even, x[1]), odd, x[3]);
    }
    x += 4;
}
// The same of a row and of both rows in pairs
inline void add_pairs(Sums<2> &s, const int8_t *&w, const uint32_t *&x) {
    for (Size n = 0; n < 2; ++n, w += 4, x += 2) {
        const uint32_t both = word_at(w), row = even_bytes(both);
        for (Size p = 0; p < 2; ++p) {
            s.of[0][p] = add_products(s.of[0][p], row, x[p]);
            s.of[1][p] = add_products(s.of[1][p], both, x[p]);
        }
    }
}
// The same of four rows: words of two pairs, four elements of each in turn
inline void add_pairs(Sums<4> &s, const int8_t *&w, const uint32_t *&x) {
    for (Size n = 0; n < 2; ++n, w += 4, x += 2) {
        for (Size r = 0; r < 4; r += 2) {
            const uint32_t both = word_at(w + 4 * r), row = even_bytes(both);
            for (Size p = 0; p < 2; ++p) {
                s.of[r][p] = add_products(s.of[r][p], row, x[p]);
                s.of[r + 1][p] = add_products(s.of[r + 1][p], both, x[p]);
            }
        }
    }
    w += 8;
}
// One element of four rows and of two patches, whose bytes have a sign or none
template <class Byte = int8_t>
inline void add_one(Sums<4> &s, const int8_t *&w, const int8_t *&x) {
    for (Size r = 0; r < 4; ++r, ++w) {
        s.of[r][0] = wrapped(s.of[r][0], *w * static_cast<Byte>(x[0]));
        s.of[r][1] = wrapped(s.of[r][1], *w * static_cast<Byte>(x[1]));
    }
    x += 2;
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
// 15 instructions for 16 products
__attribute__((always_inline)) inline void add_four(Sums<2> &s, const int8_t *&w, const uint32_t *&x) {
    uint32_t bytes, halves;
    asm("ldmia %[x]!, {r4, r5, r6, r8}\n"
        "ldr %[bytes], [%[w]], #4\n"
        "sxtb16 %[halves], %[bytes]\n"
        "smlad %[a], %[halves], r4, %[a]\n"
        "smlad %[b], %[halves], r5, %[b]\n"
        "sxtb16 %[bytes], %[bytes], ror #8\n"
        "smlad %[a], %[bytes], r6, %[a]\n"
        "smlad %[b], %[bytes], r8, %[b]\n"
        "ldr %[bytes], [%[w]], #4\n"
        "sxtb16 %[halves], %[bytes]\n"
        "smlad %[c], %[halves], r4, %[c]\n"
        "smlad %[d], %[halves], r5, %[d]\n"
        "sxtb16 %[bytes], %[bytes], ror #8\n"
        "smlad %[c], %[bytes], r6, %[c]\n"
        "smlad %[d], %[bytes], r8, %[d]\n"
        : [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [x] "+r"(x), [w] "+r"(w),
          [bytes] "=&r"(bytes), [halves] "=&r"(halves)
        :
        : "r4", "r5", "r6", "r8", "memory");
}
// 12 instructions for 16 products
__attribute__((always_inline)) inline void add_pairs(Sums<2> &s, const int8_t *&w, const uint32_t *&x) {
    uint32_t first, second;
    asm("ldmia %[x]!, {r4, r5, r6, r8}\n"
        "ldrd %[first], %[second], [%[w]], #8\n"
        "smlad %[c], %[first], r4, %[c]\n"
        "smlad %[d], %[first], r5, %[d]\n"
        "sxtb16 %[first], %[first]\n"
        "smlad %[c], %[second], r6, %[c]\n"
        "smlad %[d], %[second], r8, %[d]\n"
        "sxtb16 %[second], %[second]\n"
        "smlad %[a], %[first], r4, %[a]\n"
        "smlad %[b], %[first], r5, %[b]\n"
        "smlad %[a], %[second], r6, %[a]\n"
        "smlad %[b], %[second], r8, %[b]\n"
        : [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [x] "+r"(x), [w] "+r"(w),
          [first] "=&r"(first), [second] "=&r"(second)
        :
        : "r4", "r5", "r6", "r8", "memory");
}
#elif !defined(__AVR__)
inline void add_four(Sums<2> &s, const int8_t *&w, const uint32_t *&x) { portable::add_four(s, w, x); }
inline void add_pairs(Sums<2> &s, const int8_t *&w, const uint32_t *&x) { portable::add_pairs(s, w, x); }
#endif

#ifdef HIL_LOADS_BESIDE_PRODUCTS
// All of a row that blocks read, a multiple of four elements. A product has a load beside it, of what the next step needs; the
// last step, which has nothing to load, comes after the loop.
#define HIL_FOUR_SUMS \
    [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [x] "+r"(x), [w] "+r"(w)
// An odd number of steps of two elements, four of them in the loop; `count` holds as many words of the patches as there are
#define HIL_STEPS_OF_TWO(step) \
    "tst %[count], #4\n" \
    "beq 2f\n" \
    "b 3f\n" \
    ".balign 8\n" \
    "1:\n" step "2:\n" step step "3:\n" step \
    "cmp %[x], %[end]\n" \
    "bne 1b\n"
// 4 cycles for 8 products
#define HIL_PAIRS \
    "sxtb16 %[count], %[both]\n" \
    "smlad %[c], %[both], %[p], %[c]\n" \
    "smlad %[d], %[both], %[q], %[d]\n" \
    "ldr %[both], [%[w]], #4\n" \
    "smlad %[a], %[count], %[p], %[a]\n" \
    "ldr %[p], [%[x]], #4\n" \
    "smlad %[b], %[count], %[q], %[b]\n" \
    "ldr %[q], [%[x]], #4\n"
__attribute__((always_inline)) inline void add_all_pairs(Sums<2> &s, const int8_t *&w, const uint32_t *x, const uint32_t *end) {
    uint32_t both, p, q, count = static_cast<uint32_t>(end - x);
    asm("ldr %[both], [%[w]], #4\n"
        "ldr %[p], [%[x]], #4\n"
        "ldr %[q], [%[x]], #4\n" HIL_STEPS_OF_TWO(HIL_PAIRS)
        "sxtb16 %[count], %[both]\n"
        "smlad %[c], %[both], %[p], %[c]\n"
        "smlad %[d], %[both], %[q], %[d]\n"
        "smlad %[a], %[count], %[p], %[a]\n"
        "smlad %[b], %[count], %[q], %[b]\n"
        : HIL_FOUR_SUMS, [count] "+r"(count), [both] "=&r"(both), [p] "=&r"(p), [q] "=&r"(q)
        : [end] "r"(end)
        : "cc", "memory");
}
#undef HIL_PAIRS
// 10 cycles for 16 products
__attribute__((always_inline)) inline void add_all_fours(Sums<2> &s, const int8_t *&w, const uint32_t *x, const uint32_t *end) {
    uint32_t row, next, even, half, p, q;
    asm("ldr %[row], [%[w]], #4\n"
        "ldr %[p], [%[x]], #4\n"
        "ldr %[next], [%[w]], #4\n"
        "cmp %[x], %[last]\n"
        "sxtb16 %[even], %[row]\n"
        "beq 2f\n"
        ".balign 8\n"
        "1:\n"
        "smlad %[a], %[even], %[p], %[a]\n"
        "ldr %[q], [%[x]], #4\n"
        "sxtb16 %[half], %[next]\n"
        "smlad %[b], %[even], %[q], %[b]\n"
        "smlad %[c], %[half], %[p], %[c]\n"
        "ldr %[p], [%[x]], #4\n"
        "sxtb16 %[even], %[row], ror #8\n"
        "smlad %[d], %[half], %[q], %[d]\n"
        "smlad %[a], %[even], %[p], %[a]\n"
        "ldr %[q], [%[x]], #4\n"
        "sxtb16 %[half], %[next], ror #8\n"
        "ldr %[row], [%[w]], #4\n"
        "smlad %[b], %[even], %[q], %[b]\n"
        "ldr %[next], [%[w]], #4\n"
        "smlad %[c], %[half], %[p], %[c]\n"
        "ldr %[p], [%[x]], #4\n"
        "sxtb16 %[even], %[row]\n"
        "smlad %[d], %[half], %[q], %[d]\n"
        "cmp %[x], %[last]\n"
        "bne 1b\n"
        "2:\n"
        "smlad %[a], %[even], %[p], %[a]\n"
        "ldr %[q], [%[x]], #4\n"
        "sxtb16 %[half], %[next]\n"
        "smlad %[b], %[even], %[q], %[b]\n"
        "smlad %[c], %[half], %[p], %[c]\n"
        "ldr %[p], [%[x]], #4\n"
        "sxtb16 %[even], %[row], ror #8\n"
        "smlad %[d], %[half], %[q], %[d]\n"
        "ldr %[q], [%[x]], #4\n"
        "sxtb16 %[half], %[next], ror #8\n"
        "smlad %[a], %[even], %[p], %[a]\n"
        "smlad %[c], %[half], %[p], %[c]\n"
        "smlad %[b], %[even], %[q], %[b]\n"
        "smlad %[d], %[half], %[q], %[d]\n"
        : HIL_FOUR_SUMS, [row] "=&r"(row), [next] "=&r"(next), [even] "=&r"(even), [half] "=&r"(half), [p] "=&r"(p), [q] "=&r"(q)
        : [last] "r"(end - 3)
        : "cc", "memory");
}
#elif !defined(__AVR__)
__attribute__((always_inline)) inline void add_all_pairs(Sums<2> &s, const int8_t *&w, const uint32_t *x, const uint32_t *end) {
    if ((end - x) & 4) add_pairs(s, w, x);
    while (x != end) {
        add_pairs(s, w, x);
        add_pairs(s, w, x);
    }
}
__attribute__((always_inline)) inline void add_all_fours(Sums<2> &s, const int8_t *&w, const uint32_t *x, const uint32_t *end) {
    if ((end - x) & 4) add_four(s, w, x);
    while (x != end) {
        add_four(s, w, x);
        add_four(s, w, x);
    }
}
#endif

#ifdef HIL_LOADS_BESIDE_PRODUCTS
#define HIL_FIRST_PAIR(step) \
    "sxtb16 r0, r3\n" \
    "smlad r6, r3, r12, r6\n" \
    "smlad r7, r3, lr, r7\n" \
    "ldr r3, [r1], #" step "\n" \
    "smlad r4, r0, r12, r4\n" \
    "smlad r5, r0, lr, r5\n"
// 8 cycles for 16 products; weights move on by `step` to the second pair of rows, and by 8 behind it
#define HIL_FOUR_ROWS(step) \
    HIL_FIRST_PAIR(step) \
    "sxtb16 r0, r3\n" \
    "smlad r10, r3, r12, r10\n" \
    "smlad r11, r3, lr, r11\n" \
    "ldr r3, [r1], #8\n" \
    "smlad r8, r0, r12, r8\n" \
    "ldr r12, [r2], #4\n" \
    "smlad r9, r0, lr, r9\n" \
    "ldr lr, [r2], #4\n"
// 4 x 2 sums of all of a row. They and their operands take all registers: where the last step begins is on the stack. Without `noipa`
// callers may be compiled as if it left r0 to r3 and r12 alone, which the assembler does not name.
__attribute__((naked, noinline, noipa)) inline void add_all_pairs(Sums<4> &, const int8_t *, const uint32_t *, const uint32_t *) {
    asm("subs r12, r3, r2\n"
        "subs r3, r3, #8\n"
        "push {r0, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "ldr r3, [r1], #8\n"
        "tst r12, #16\n"  // an odd number of fours
        "ldr r12, [r2], #4\n"
        "ldr lr, [r2], #4\n"
        "ldmia r0, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
        "beq 2f\n"
        "b 3f\n"
        ".balign 8\n"
        "1:\n" HIL_FOUR_ROWS("4") "2:\n" HIL_FOUR_ROWS("-4") HIL_FOUR_ROWS("4") "3:\n" HIL_FIRST_PAIR("-4")
        "ldr r0, [sp, #4]\n"
        "cmp r2, r0\n"
        "smlad r10, r3, r12, r10\n"
        "sxtb16 r0, r3\n"
        "smlad r11, r3, lr, r11\n"
        "smlad r8, r0, r12, r8\n"
        "ldr r3, [r1], #8\n"
        "smlad r9, r0, lr, r9\n"
        "ldr r12, [r2], #4\n"
        "ldr lr, [r2], #4\n"
        "bne 1b\n" HIL_FIRST_PAIR("4")
        "sxtb16 r0, r3\n"
        "smlad r10, r3, r12, r10\n"
        "smlad r11, r3, lr, r11\n"
        "ldr r3, [sp], #8\n"
        "smlad r8, r0, r12, r8\n"
        "smlad r9, r0, lr, r9\n"
        "stmia r3, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}
#undef HIL_FOUR_ROWS
#undef HIL_FIRST_PAIR
#elif defined(HIL_LOADS_IN_A_ROW)
// 15 cycles for 16 products: sums in r6 to r12 and lr, patches at r4, weights at r5
#define HIL_TWO_OF_FOUR_ROWS(x, next_x, row, next_row) \
    "ldr r0, [r4, #" #x "]\n" \
    "ldr r1, [r4, #" #next_x "]\n" \
    "ldr r2, [r5, #" #row "]\n" \
    "ldr r3, [r5, #" #next_row "]\n" \
    "smlad r8, r2, r0, r8\n" \
    "smlad r9, r2, r1, r9\n" \
    "sxtb16 r2, r2\n" \
    "smlad r12, r3, r0, r12\n" \
    "smlad lr, r3, r1, lr\n" \
    "sxtb16 r3, r3\n" \
    "smlad r6, r2, r0, r6\n" \
    "smlad r7, r2, r1, r7\n" \
    "smlad r10, r3, r0, r10\n" \
    "smlad r11, r3, r1, r11\n"
// All of a row, 16 elements in the loop, into whose middle r0 leads: that many bytes of code. `end` is where the patches' end is: all
// registers are taken.
#define HIL_ALL_OF_FOUR_ROWS(end) \
    ".balign 4\n" \
    "add pc, r0\n" \
    "nop\n" \
    "1:\n" HIL_TWO_OF_FOUR_ROWS(0, 4, 0, 8) HIL_TWO_OF_FOUR_ROWS(8, 12, 4, 12) HIL_TWO_OF_FOUR_ROWS(16, 20, 16, 24) \
        HIL_TWO_OF_FOUR_ROWS(24, 28, 20, 28) HIL_TWO_OF_FOUR_ROWS(32, 36, 32, 40) HIL_TWO_OF_FOUR_ROWS(40, 44, 36, 44) \
            HIL_TWO_OF_FOUR_ROWS(48, 52, 48, 56) HIL_TWO_OF_FOUR_ROWS(56, 60, 52, 60) "ldr r0, " end "\n" \
    "adds r5, #64\n" \
    "adds r4, #64\n" \
    "cmp r4, r0\n" \
    "bne 1b\n"
__attribute__((naked, noinline, noipa)) inline void add_all_pairs(Sums<4> &, const int8_t *, const uint32_t *, const uint32_t *) {
    asm("push {r0, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "subs r3, r2, r3\n"
        "and r3, r3, #48\n"  // bytes of patches, and of weights, to a multiple of 16 elements
        "subs r4, r2, r3\n"
        "subs r5, r1, r3\n"
        "add r3, r3, r3, lsl #1\n"
        "ldmia r0, {r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "lsls r0, r3, #1\n"  // 96 bytes of code for 16
        HIL_ALL_OF_FOUR_ROWS("[sp, #4]")
        "ldr r0, [sp], #8\n"
        "stmia r0, {r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}
#elif !defined(__AVR__)
inline void add_all_pairs(Sums<4> &s, const int8_t *w, const uint32_t *x, const uint32_t *end) {
    while (x != end) portable::add_pairs(s, w, x);
}
#endif

#ifndef __AVR__
constexpr int32_t twice(int32_t sum) { return static_cast<int32_t>(static_cast<uint32_t>(sum) << 1); }
// The sum of a row and of the next one in pairs, and what the next one is of both, or twice that; sums wrap around
inline int32_t paired(int32_t row, int32_t next) {
    return static_cast<int32_t>(static_cast<uint32_t>(row) + (static_cast<uint32_t>(next) << 8));
}
template <bool Twice = false>
inline int32_t unpaired(int32_t row, int32_t both) {
    return static_cast<int32_t>(static_cast<uint32_t>(both) - static_cast<uint32_t>(row)) >> (Twice ? 7 : 8);
}
#endif

#if defined(__ARM_ARCH_7M__)
// 14 instructions for 8 products, in 13 registers
#define HIL_ROW_OF_TWO(a, b) \
    "ldrsb %[factor], [%[w]], #1\n" \
    "mla %[" a "], %[factor], %[p], %[" a "]\n" \
    "mla %[" b "], %[factor], %[q], %[" b "]\n"
#define HIL_ROW_BEHIND(a, b, bytes) \
    "ldrsb %[factor], [%[w], #-" bytes "]\n" \
    "mla %[" a "], %[factor], %[p], %[" a "]\n" \
    "mla %[" b "], %[factor], %[q], %[" b "]\n"
#define HIL_EIGHT_SUMS \
    [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [e] "+r"(s.of[2][0]), \
    [f] "+r"(s.of[2][1]), [g] "+r"(s.of[3][0]), [h] "+r"(s.of[3][1])
#define HIL_ADD_ONE(name, load) \
    __attribute__((always_inline)) inline void name(Sums<4> &s, const int8_t *&w, const int8_t *&x) { \
        int32_t p, q, factor; \
        asm(load " %[p], [%[x]], #1\n" load " %[q], [%[x]], #1\n" \
            HIL_ROW_OF_TWO("a", "b") HIL_ROW_OF_TWO("c", "d") HIL_ROW_OF_TWO("e", "f") HIL_ROW_OF_TWO("g", "h") \
            : HIL_EIGHT_SUMS, [x] "+r"(x), [w] "+r"(w), [p] "=&r"(p), [q] "=&r"(q), [factor] "=&r"(factor) \
            : \
            : "memory"); \
    }
HIL_ADD_ONE(add_one, "ldrsb")
HIL_ADD_ONE(add_one_unsigned, "ldrb")
#undef HIL_ADD_ONE
// The same: two elements that are 0 cost 3 instructions, others 16
#define HIL_ADD_ONE_UNLESS_ZERO(name, extend) \
    __attribute__((always_inline)) inline void name(Sums<4> &s, const int8_t *&w, const int8_t *&x) { \
        int32_t p, q, factor; \
        asm("ldrh %[p], [%[x]], #2\n" \
            "add %[w], %[w], #4\n" \
            "cbz %[p], 1f\n" \
            extend " %[q], %[p], ror #8\n" \
            extend " %[p], %[p]\n" \
            HIL_ROW_BEHIND("a", "b", "4") HIL_ROW_BEHIND("c", "d", "3") HIL_ROW_BEHIND("e", "f", "2") HIL_ROW_BEHIND("g", "h", "1") \
            "1:\n" \
            : HIL_EIGHT_SUMS, [x] "+r"(x), [w] "+r"(w), [p] "=&l"(p), [q] "=&r"(q), [factor] "=&r"(factor) \
            : \
            : "memory"); \
    }
HIL_ADD_ONE_UNLESS_ZERO(add_one_unless_zero, "sxtb")
HIL_ADD_ONE_UNLESS_ZERO(add_one_unsigned_unless_zero, "uxtb")
#undef HIL_ADD_ONE_UNLESS_ZERO
#undef HIL_EIGHT_SUMS
#undef HIL_ROW_BEHIND
#undef HIL_ROW_OF_TWO
#elif !defined(__AVR__)
inline void add_one(Sums<4> &s, const int8_t *&w, const int8_t *&x) { portable::add_one(s, w, x); }
inline void add_one_unless_zero(Sums<4> &s, const int8_t *&w, const int8_t *&x) { portable::add_one(s, w, x); }
inline void add_one_unsigned(Sums<4> &s, const int8_t *&w, const int8_t *&x) { portable::add_one<uint8_t>(s, w, x); }
inline void add_one_unsigned_unless_zero(Sums<4> &s, const int8_t *&w, const int8_t *&x) { portable::add_one<uint8_t>(s, w, x); }
#endif

}  // namespace hil

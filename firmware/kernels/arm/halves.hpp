// Blocks of sums (blocks.hpp) where weights or operands have 16 bits. Two products of 16 x 16 bits may exceed 32 bits: sums are as
// wide as passes/arrange.py has proven them to be.
#pragma once
#include "firmware/kernels/arm/two_pixels.hpp"

namespace hil {

namespace portable {

// Two elements of two rows and of two patches, pairs of neighbours: the words w(row), w(next) and a, b
template <class Acc>
inline void add_two(Sums<2, Acc> &s, const int16_t *&w, const uint32_t *&x) {
    for (Size r = 0; r < 2; ++r, w += 2) {
        for (Size p = 0; p < 2; ++p) s.of[r][p] = add_products(s.of[r][p], word_at(w), x[p]);
    }
    x += 2;
}
// One element of four rows and of two patches
template <class W>
inline void add_one(Sums<4> &s, const W *&w, const int16_t *&x) {
    for (Size r = 0; r < 4; ++r, ++w) {
        for (Size p = 0; p < 2; ++p) s.of[r][p] = wrapped(s.of[r][p], int64_t(*w) * x[p]);
    }
    x += 2;
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
// 6 instructions for 8 products
__attribute__((always_inline)) inline void add_two(Sums<2> &s, const int16_t *&w, const uint32_t *&x) {
    uint32_t row, next, first, second;
    asm("ldrd %[row], %[next], [%[w]], #8\n"
        "ldrd %[first], %[second], [%[x]], #8\n"
        "smlad %[a], %[row], %[first], %[a]\n"
        "smlad %[b], %[row], %[second], %[b]\n"
        "smlad %[c], %[next], %[first], %[c]\n"
        "smlad %[d], %[next], %[second], %[d]\n"
        : [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [x] "+r"(x), [w] "+r"(w),
          [row] "=&r"(row), [next] "=&r"(next), [first] "=&r"(first), [second] "=&r"(second)
        :
        : "memory");
}
__attribute__((always_inline)) inline void add_two(Sums<2, int64_t> &s, const int16_t *&w, const uint32_t *&x) {
    uint32_t row, next, first, second;
    asm("ldrd %[row], %[next], [%[w]], #8\n"
        "ldrd %[first], %[second], [%[x]], #8\n"
        "smlald %Q[a], %R[a], %[row], %[first]\n"
        "smlald %Q[b], %R[b], %[row], %[second]\n"
        "smlald %Q[c], %R[c], %[next], %[first]\n"
        "smlald %Q[d], %R[d], %[next], %[second]\n"
        : [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [x] "+r"(x), [w] "+r"(w),
          [row] "=&r"(row), [next] "=&r"(next), [first] "=&r"(first), [second] "=&r"(second)
        :
        : "memory");
}
#elif !defined(__AVR__)
template <class Acc>
inline void add_two(Sums<2, Acc> &s, const int16_t *&w, const uint32_t *&x) {
    portable::add_two(s, w, x);
}
#endif

#ifndef __AVR__
template <class Acc>
__attribute__((always_inline)) inline void add_all_twos(Sums<2, Acc> &s, const int16_t *&w, const uint32_t *x, const uint32_t *end) {
    while (x != end) {
        add_two(s, w, x);
        add_two(s, w, x);
    }
}
#endif
#ifdef HIL_LOADS_BESIDE_PRODUCTS
// 4 cycles for 8 products
#define HIL_TWOS \
    "smlad %[a], %[row], %[p], %[a]\n" \
    "ldr %[count], [%[w]], #4\n" \
    "smlad %[b], %[row], %[q], %[b]\n" \
    "ldr %[row], [%[w]], #4\n" \
    "smlad %[c], %[count], %[p], %[c]\n" \
    "ldr %[p], [%[x]], #4\n" \
    "smlad %[d], %[count], %[q], %[d]\n" \
    "ldr %[q], [%[x]], #4\n"
__attribute__((always_inline)) inline void add_all_twos(Sums<2> &s, const int16_t *&w, const uint32_t *x, const uint32_t *end) {
    uint32_t row, p, q, count = static_cast<uint32_t>(end - x);
    asm("ldr %[row], [%[w]], #4\n"
        "ldr %[p], [%[x]], #4\n"
        "ldr %[q], [%[x]], #4\n" HIL_STEPS_OF_TWO(HIL_TWOS) "ldr %[count], [%[w]], #4\n"
                                                            "smlad %[a], %[row], %[p], %[a]\n"
                                                            "smlad %[b], %[row], %[q], %[b]\n"
                                                            "smlad %[c], %[count], %[p], %[c]\n"
                                                            "smlad %[d], %[count], %[q], %[d]\n"
        : HIL_FOUR_SUMS, [count] "+r"(count), [row] "=&r"(row), [p] "=&r"(p), [q] "=&r"(q)
        : [end] "r"(end)
        : "cc", "memory");
}
#undef HIL_TWOS
// The same in sums of 64 bits. They and their operands take all registers: where the last step begins is on the stack.
#define HIL_WIDE_TWOS \
    "smlald r4, r5, r3, r12\n" \
    "ldr r0, [r1], #4\n" \
    "smlald r6, r7, r3, lr\n" \
    "ldr r3, [r1], #4\n" \
    "smlald r8, r9, r0, r12\n" \
    "ldr r12, [r2], #4\n" \
    "smlald r10, r11, r0, lr\n" \
    "ldr lr, [r2], #4\n"
// Of a multiple of four elements. Without `noipa` callers may be compiled as if it left r0 to r3 and r12 alone.
__attribute__((naked, noinline, noipa)) inline void add_wide_twos(Sums<2, int64_t> &, const int16_t *, const uint32_t *, const uint32_t *) {
    asm("subs r12, r3, r2\n"
        "push {r0, r3, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldr r3, [r1], #4\n"
        "tst r12, #16\n"  // an odd number of fours
        "ldr r12, [r2], #4\n"
        "ldr lr, [r2], #4\n"
        "ldmia r0, {r4, r5, r6, r7, r8, r9, r10, r11}\n" HIL_WIDE_TWOS "beq 2f\n"
        "ldr r0, [sp, #4]\n"
        "cmp r2, r0\n"
        "beq 3f\n"
        ".balign 8\n"
        "1:\n" HIL_WIDE_TWOS HIL_WIDE_TWOS "2:\n" HIL_WIDE_TWOS HIL_WIDE_TWOS "ldr r0, [sp, #4]\n"
        "cmp r2, r0\n"
        "bne 1b\n"
        "3:\n"
        "smlald r4, r5, r3, r12\n"
        "ldr r0, [r1], #4\n"
        "smlald r6, r7, r3, lr\n"
        "ldr r3, [sp], #8\n"
        "smlald r8, r9, r0, r12\n"
        "smlald r10, r11, r0, lr\n"
        "stmia r3, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_WIDE_TWOS
__attribute__((always_inline)) inline void add_all_twos(Sums<2, int64_t> &s, const int16_t *&w, const uint32_t *x, const uint32_t *end) {
    Sums<2, int64_t> held = s;  // in memory, which `s` need not be
    add_wide_twos(held, w, x, end);
    w += 2 * (end - x);
    s = held;
}
#undef HIL_STEPS_OF_TWO
#undef HIL_FOUR_SUMS
#endif

#if defined(__ARM_ARCH_7M__)
// 14 instructions for 8 products, in 13 registers
#define HIL_ROW_OF_TWO(load, a, b) \
    load "\n" \
         "mla %[" a "], %[factor], %[p], %[" a "]\n" \
         "mla %[" b "], %[factor], %[q], %[" b "]\n"
#define HIL_ADD_ONE(load) \
    int32_t p, q, factor; \
    asm("ldrsh %[p], [%[x]], #2\n" \
        "ldrsh %[q], [%[x]], #2\n" HIL_ROW_OF_TWO(load, "a", "b") HIL_ROW_OF_TWO(load, "c", "d") HIL_ROW_OF_TWO(load, "e", "f") \
            HIL_ROW_OF_TWO(load, "g", "h") \
        : [a] "+r"(s.of[0][0]), [b] "+r"(s.of[0][1]), [c] "+r"(s.of[1][0]), [d] "+r"(s.of[1][1]), [e] "+r"(s.of[2][0]), \
          [f] "+r"(s.of[2][1]), [g] "+r"(s.of[3][0]), [h] "+r"(s.of[3][1]), [x] "+r"(x), [w] "+r"(w), [p] "=&r"(p), [q] "=&r"(q), \
          [factor] "=&r"(factor) \
        : \
        : "memory");
__attribute__((always_inline)) inline void add_one(Sums<4> &s, const int8_t *&w, const int16_t *&x) {
    HIL_ADD_ONE("ldrsb %[factor], [%[w]], #1")
}
__attribute__((always_inline)) inline void add_one(Sums<4> &s, const int16_t *&w, const int16_t *&x) {
    HIL_ADD_ONE("ldrsh %[factor], [%[w]], #2")
}
#undef HIL_ADD_ONE
#undef HIL_ROW_OF_TWO
#elif !defined(__AVR__)
template <class W>
inline void add_one(Sums<4> &s, const W *&w, const int16_t *&x) {
    portable::add_one(s, w, x);
}
#endif

// Cortex-M7: 2 x 2 sums; patches are halfwords, whatever the operand is
template <class X, class Acc>
struct TwoPixels<Blocks<int16_t, 2, 2>, X, Acc> {
    static constexpr Size rows = 2;

    template <bool Twice>
    __attribute__((always_inline)) static inline void add(Sums<2, Acc> &sums, const int16_t *&w, const uint32_t *x, Size inner) {
        static_assert(!Twice, "sums of bytes alone are doubled");
        add_all_twos(sums, w, x, x + rounded_up(inner, 4));
    }
};

// Cortex-M3: 4 x 2 sums; the elements of the two patches in turn, of 16 bits
template <class W>
struct FourRows {
    static constexpr Size rows = 4;

    template <bool Twice>
    __attribute__((always_inline)) static inline void add(Sums<4> &sums, const W *&w, const uint32_t *words, Size inner) {
        static_assert(!Twice, "sums of bytes alone are doubled");
        const int16_t *x = reinterpret_cast<const int16_t *>(words);
        add_pairs_of_elements(sums, w, x, rounded_up(inner, 4) / 2);
    }
    __attribute__((always_inline)) static inline void add_pairs_of_elements(Sums<4> &sums, const W *&w, const int16_t *&x, Size pairs) {
        const int16_t *const end = x + 4 * pairs;
        if (pairs & 1) {
            add_one(sums, w, x);
            add_one(sums, w, x);
        }
        while (x != end) {
            add_one(sums, w, x);
            add_one(sums, w, x);
            add_one(sums, w, x);
            add_one(sums, w, x);
        }
    }
};
template <>
struct TwoPixels<Blocks<int8_t, 4, 1>, int16_t, int32_t> : FourRows<int8_t> {};
template <class X>
struct TwoPixels<Blocks<int16_t, 4, 1>, X, int32_t> : FourRows<int16_t> {};

// The same in sums of 64 bits: 32 that hold a part and the lowest 16 bits of what is before it, and the bits above those
template <class X>
struct TwoPixels<Blocks<int16_t, 4, in_parts>, X, int64_t> {
    static constexpr Size rows = 4;

    // Without a loop: compilers keep in registers what is never reached by a variable
    template <class Visit>
    __attribute__((always_inline)) static inline void each(Visit visit) {
        visit(0, 0);
        visit(0, 1);
        visit(1, 0);
        visit(1, 1);
        visit(2, 0);
        visit(2, 1);
        visit(3, 0);
        visit(3, 1);
    }
    template <bool Twice>
    __attribute__((noinline, noclone)) static void add(Sums<4, int64_t> &sums, const int16_t *&weights, const uint32_t *words, Size inner) {
        static_assert(!Twice, "sums of bytes alone are doubled");
        const int16_t *w = weights, *x = reinterpret_cast<const int16_t *>(words), *const end = x + 2 * rounded_up(inner, 4);
        Sums<4> low, high;
        each([&](Size r, Size p) {
            low.of[r][p] = static_cast<uint16_t>(sums.of[r][p]);
            high.of[r][p] = static_cast<int32_t>(sums.of[r][p] >> 16);
        });
        while (x != end) {
            const Size pairs = static_cast<Size>(*w++);
            FourRows<int16_t>::add_pairs_of_elements(low, w, x, pairs);
            each([&](Size r, Size p) {
                high.of[r][p] += low.of[r][p] >> 16;
                low.of[r][p] &= 0xFFFF;
            });
        }
        each([&](Size r, Size p) { sums.of[r][p] = static_cast<int64_t>(high.of[r][p]) * 65536 + low.of[r][p]; });
        weights = w;
    }
};

}  // namespace hil

// Dot products of constants in flash (Z, lpm) with tensors in RAM (X) for the ATmega, one loop per pair of widths.
// Cycles per element, loads and loop included: 8x8 12 into 24 bits and 13 into 32, 8x16 25, 16x8 26, 16x16 into 32 bits 37, into 40 bits 39.
#pragma once
#include "firmware/kernels/common/numeric.hpp"
#include "firmware/kernels/avr/packed_avr.hpp"

namespace hil {

template <class A, class B>
inline void accumulate(Acc40 &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum.add(static_cast<int32_t>(a[i]) * b[i]);
}

template <class A, class B>
inline void accumulate(Acc48 &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum.add(static_cast<int32_t>(a[i]) * b[i]);
}

// One loop of `steps` per round. The text of a step is repeated, not .rept: the compiler counts lines to see how far
// branches reach.
#define HIL_ROUNDS(steps) "1:\n" steps "sbiw %[count], 1\nbrne 1b\nclr r1\n"
#define HIL_FOUR(step) step step step step

// Carry: the product is negative. mulsu takes the upper registers up to r23 alone.
#define HIL_BYTE_TIMES_BYTE_24(mul) \
    "lpm %[x], Z+\n" \
    "ld %[y], X+\n" mul " %[x], %[y]\n" \
    "sbc %[sign], %[sign]\n" \
    "add %A[sum], r0\n" \
    "adc %B[sum], r1\n" \
    "adc %C[sum], %[sign]\n"
#define HIL_BYTE_TIMES_BYTE(mul) HIL_BYTE_TIMES_BYTE_24(mul) "adc %D[sum], %[sign]\n"
// The count is in any upper registers: sbiw needs one of four pairs, and beside X and Z the compiler did not always find one.
#define HIL_BYTE_ROUNDS(steps, rounds, upper) \
    asm volatile("1:\n" steps "subi %A[count], 1\nsbci %B[count], 0\nbrne 1b\nclr r1\n" \
                 : [sum] "+r"(sum), [count] "+d"(rounds), "+z"(a.at), "+x"(b.at), [x] upper(x), [y] upper(y), [sign] "=&r"(sign) \
                 : \
                 : "r0", "memory")
#define HIL_BYTES(Acc, X, step, upper) \
    inline void accumulate(Acc &sum, Flash<int8_t> a, Ram<X> b, Size count) { \
        uint8_t x, y, sign; \
        Size fours = count >> 2, rest = count & 3; \
        if (fours) HIL_BYTE_ROUNDS(HIL_FOUR(step), fours, upper); \
        if (rest) HIL_BYTE_ROUNDS(step, rest, upper); \
    }
HIL_BYTES(int32_t, int8_t, HIL_BYTE_TIMES_BYTE("muls"), "=&d")
HIL_BYTES(__int24, int8_t, HIL_BYTE_TIMES_BYTE_24("muls"), "=&d")
HIL_BYTES(int32_t, uint8_t, HIL_BYTE_TIMES_BYTE("mulsu"), "=&a")
HIL_BYTES(__int24, uint8_t, HIL_BYTE_TIMES_BYTE_24("mulsu"), "=&a")
#undef HIL_BYTES
#undef HIL_BYTE_TIMES_BYTE
#undef HIL_BYTE_TIMES_BYTE_24
#undef HIL_BYTE_ROUNDS

// The 24-bit product of a signed byte and a signed word: word high times byte, word low (unsigned) times byte.
#define HIL_BYTE_TIMES_WORD                                                \
    "muls %[wh], %[byte]\n"                                                \
    "mov %[p1], r0\n"                                                      \
    "mov %[p2], r1\n"                                                      \
    "mulsu %[byte], %[wl]\n" /* carry: that part is negative */            \
    "sbc %[p2], %[zero]\n"                                                 \
    "add %[p1], r1\n"                                                      \
    "adc %[p2], %[zero]\n"                                                 \
    "add %A[sum], r0\n"                                                    \
    "adc %B[sum], %[p1]\n"                                                 \
    "adc %C[sum], %[p2]\n"                                                 \
    "adc %D[sum], %[zero]\n"                                               \
    "sbrc %[p2], 7\n"                                                      \
    "dec %D[sum]\n"
#define HIL_MIXED_ROUNDS(steps, rounds)                                                                              \
    asm volatile("clr %[zero]\n" HIL_ROUNDS(steps)                                                                   \
                 : [sum] "+r"(sum), [count] "+w"(rounds), "+z"(a.at), "+x"(b.at), [byte] "=&a"(byte), [wl] "=&a"(wl), \
                   [wh] "=&a"(wh), [p1] "=&r"(p1), [p2] "=&r"(p2), [zero] "=&r"(zero)                                 \
                 :                                                                                                   \
                 : "r0", "memory")
#define HIL_BYTE_WEIGHT "lpm %[byte], Z+\nld %[wl], X+\nld %[wh], X+\n" HIL_BYTE_TIMES_WORD
#define HIL_WORD_WEIGHT "lpm %[wl], Z+\nlpm %[wh], Z+\nld %[byte], X+\n" HIL_BYTE_TIMES_WORD

inline void accumulate(int32_t &sum, Flash<int8_t> a, Ram<int16_t> b, Size count) {
    uint8_t byte, wl, wh, p1, p2, zero;
    Size pairs = count >> 1, rest = count & 1;
    if (pairs) HIL_MIXED_ROUNDS(HIL_BYTE_WEIGHT HIL_BYTE_WEIGHT, pairs);
    if (rest) HIL_MIXED_ROUNDS(HIL_BYTE_WEIGHT, rest);
}

inline void accumulate(int32_t &sum, Flash<int16_t> a, Ram<int8_t> b, Size count) {
    uint8_t byte, wl, wh, p1, p2, zero;
    Size pairs = count >> 1, rest = count & 1;
    if (pairs) HIL_MIXED_ROUNDS(HIL_WORD_WEIGHT HIL_WORD_WEIGHT, pairs);
    if (rest) HIL_MIXED_ROUNDS(HIL_WORD_WEIGHT, rest);
}
// Not inlined: in a convolution that rescales its sums no registers are left for it.
__attribute__((noinline)) inline void accumulate_apart(int32_t &sum, Flash<int16_t> a, Ram<int8_t> b, Size count) {
    accumulate(sum, a, b, count);
}
#undef HIL_BYTE_TIMES_WORD
#undef HIL_BYTE_WEIGHT
#undef HIL_WORD_WEIGHT
#undef HIL_MIXED_ROUNDS
#undef HIL_FOUR
#undef HIL_ROUNDS

// 16 x 16 -> 32 bits from four byte products, added into `low` and, by `carry`, into what lies above it.
#define HIL_WORD_TIMES_WORD(carry)          \
    "clr %[zero]\n"                         \
    "1:\n"                                  \
    "lpm %[al], Z+\n"                       \
    "lpm %[ah], Z+\n"                       \
    "ld %[bl], X+\n"                        \
    "ld %[bh], X+\n"                        \
    "muls %[ah], %[bh]\n"                   \
    "mov %[p2], r0\n"                       \
    "mov %[p3], r1\n"                       \
    "mul %[al], %[bl]\n"                    \
    "mov %[p0], r0\n"                       \
    "mov %[p1], r1\n"                       \
    "mulsu %[ah], %[bl]\n"                  \
    "sbc %[p3], %[zero]\n"                  \
    "add %[p1], r0\n"                       \
    "adc %[p2], r1\n"                       \
    "adc %[p3], %[zero]\n"                  \
    "mulsu %[bh], %[al]\n"                  \
    "sbc %[p3], %[zero]\n"                  \
    "add %[p1], r0\n"                       \
    "adc %[p2], r1\n"                       \
    "adc %[p3], %[zero]\n"                  \
    "add %A[low], %[p0]\n"                  \
    "adc %B[low], %[p1]\n"                  \
    "adc %C[low], %[p2]\n"                  \
    "adc %D[low], %[p3]\n" carry            \
    "sbiw %[count], 1\n"                    \
    "brne 1b\n"                             \
    "clr r1\n"
#define HIL_WORD_OPERANDS                                                                                               \
    [count] "+w"(count), "+z"(a.at), "+x"(second), [al] "=&a"(al), [ah] "=&a"(ah), [bl] "=&a"(bl), [bh] "=&a"(bh),       \
        [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3), [zero] "=&r"(zero)

inline void accumulate(int32_t &low, Flash<int16_t> a, Ram<int16_t> b, Size count) {
    if (count == 0) return;
    uint8_t al, ah, bl, bh, p0, p1, p2, p3, zero;
    register const int16_t *second asm("r26") = b.at;  // gcc 5.4 may want X for the count, too, and gives up
    asm volatile(HIL_WORD_TIMES_WORD("") : [low] "+r"(low), HIL_WORD_OPERANDS : : "r0", "memory");
}

inline void accumulate(Acc40 &sum, Flash<int16_t> a, Ram<int16_t> b, Size count) {
    if (count == 0) return;
    uint8_t al, ah, bl, bh, p0, p1, p2, p3, zero;
    register const int16_t *second asm("r26") = b.at;  // gcc 5.4 may want X for the count, too, and gives up
    uint32_t low = sum.low;
    int8_t high = sum.high;
    asm volatile(HIL_WORD_TIMES_WORD("adc %[high], %[zero]\n"
                                     "sbrc %[p3], 7\n"
                                     "dec %[high]\n")
                 : [low] "+r"(low), [high] "+r"(high), HIL_WORD_OPERANDS
                 :
                 : "r0", "memory");
    sum.low = low;
    sum.high = high;
}

// 40 bits hold 256 products of 16-bit numbers whatever they are.
inline void accumulate(Acc48 &sum, Flash<int16_t> a, Ram<int16_t> b, Size count) {
    while (count > 0) {
        const Size some = count < 256 ? count : 256;
        Acc40 part(0);
        accumulate(part, a, b, some);
        sum.add(part);
        a = a + some;
        b = b + some;
        count -= some;
    }
}
#undef HIL_WORD_TIMES_WORD
#undef HIL_WORD_OPERANDS

// 32 bits hold 256 products of 8 and 16 bits.
inline void accumulate(Acc40 &sum, Flash<int8_t> a, Ram<int16_t> b, Size count) {
    while (count > 0) {
        const Size some = count < 256 ? count : 256;
        int32_t part = 0;
        accumulate(part, a, b, some);
        sum.add(part);
        a = a + some;
        b = b + some;
        count -= some;
    }
}

// What has no loop of 24 bits is summed in 32.
template <class A, class B>
inline void accumulate(__int24 &sum, A a, B b, Size count) {
    int32_t wide = sum;
    accumulate(wide, a, b, count);
    sum = static_cast<__int24>(wide);
}

}  // namespace hil

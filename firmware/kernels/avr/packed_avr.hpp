// Rows of packed constants for the ATmega, which shifts bit by bit: codes are read in order, each by constant shifts of the one
// or two bytes it lies in, and multiplied at once.
#pragma once
#include "firmware/kernels/common/codebook.hpp"
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// Codes that lie alike in their bytes after so many
template <int Bits>
struct Phases {
    static constexpr uint8_t count = Bits % 2 ? 8 : Bits % 4 ? 4 : Bits % 8 ? 2 : 1;
};

// `byte`: the last one read; `at`: the one behind. The next code is shifted to the highest bits of a byte, the others there are
// shifted out below: by `shift`, asr or lsr.
#define HIL_NEXT_CODE(shift)                                                                            \
    asm(".if %[first] == 0\n"                                                                           \
        "lpm %[byte], Z+\n"                                                                             \
        ".endif\n"                                                                                      \
        "mov %[code], %[byte]\n"                                                                        \
        ".if %[beyond] > 0\n"                                                                           \
        "lpm %[byte], Z+\n"                                                                             \
        "mov r0, %[byte]\n"                                                                             \
        ".if %[beyond] <= 4\n"                                                                          \
        ".rept %[beyond]\nlsr r0\nror %[code]\n.endr\n\n\n\n\n\n\n\n"                                  \
        ".else\n"                                                                                       \
        ".rept 8 - %[beyond]\nlsl %[code]\nrol r0\n.endr\nmov %[code], r0\n\n\n\n\n\n"                  \
        ".endif\n"                                                                                      \
        ".else\n"                                                                                       \
        ".if %[beyond] <= -4\nswap %[code]\nandi %[code], 0xF0\n.endif\n"                              \
        ".rept (-%[beyond]) & 3\nlsl %[code]\n.endr\n\n"                                               \
        ".endif\n"                                                                                      \
        ".rept 8 - %[bits]\n" shift " %[code]\n.endr\n\n\n\n\n\n\n"                                       \
        : [code] "=&d"(code), [byte] "+r"(byte), "+z"(at)                                               \
        : [first] "i"(Phase * Bits % 8), [beyond] "i"(Phase * Bits % 8 + Bits - 8), [bits] "i"(Bits)    \
        : "r0")

template <int Bits, int Phase>
inline uint8_t next_code(const uint8_t *&at, uint8_t &byte) {
    uint8_t code;
    HIL_NEXT_CODE("lsr");
    return code;
}
template <int Bits, int Phase>
inline int8_t next_signed(const uint8_t *&at, uint8_t &byte) {
    int8_t code;
    HIL_NEXT_CODE("asr");
    return code;
}
#undef HIL_NEXT_CODE

// What the next code and an element in RAM are multiplied as
template <int Phase, int Bits, class Entry>
inline Entry next_factor(const Codebook<Bits, Entry> &a, const uint8_t *&at, uint8_t &byte) {
    return a.entries[next_code<Bits, Phase>(at, byte)];
}
template <int Phase, int Bits>
inline int8_t next_factor(const Packed<Fixed<Bits>> &, const uint8_t *&at, uint8_t &byte) {
    return next_signed<Bits, Phase>(at, byte);
}
inline int8_t factor(int8_t x) { return x; }
inline int16_t factor(int16_t x) { return x; }

// sum += a * b
inline void multiply_add(int32_t &sum, int8_t a, int8_t b) {
    uint8_t sign;
    asm("muls %[a], %[b]\n"  // carry: it is negative
        "sbc %[sign], %[sign]\n"
        "add %A[sum], r0\n"
        "adc %B[sum], r1\n"
        "adc %C[sum], %[sign]\n"
        "adc %D[sum], %[sign]\n"
        "clr r1\n"
        : [sum] "+r"(sum), [sign] "=&r"(sign)
        : [a] "d"(a), [b] "d"(b)
        : "r0");
}
inline void multiply_add(int32_t &sum, int8_t a, int16_t b) {
    uint8_t p1, p2, zero;
    asm("clr %[zero]\n"
        "muls %B[b], %[a]\n"
        "mov %[p1], r0\n"
        "mov %[p2], r1\n"
        "mulsu %[a], %A[b]\n"
        "sbc %[p2], %[zero]\n"
        "add %[p1], r1\n"
        "adc %[p2], %[zero]\n"
        "add %A[sum], r0\n"
        "adc %B[sum], %[p1]\n"
        "adc %C[sum], %[p2]\n"
        "adc %D[sum], %[zero]\n"
        "sbrc %[p2], 7\n"
        "dec %D[sum]\n"
        "clr r1\n"
        : [sum] "+r"(sum), [p1] "=&r"(p1), [p2] "=&r"(p2), [zero] "=&r"(zero)
        : [a] "a"(a), [b] "a"(b)
        : "r0");
}
inline void multiply_add(int32_t &sum, int16_t a, int8_t b) { multiply_add(sum, b, a); }

// The product of two words, 32 bits
inline int32_t word_product(int16_t a, int16_t b) {
    int32_t product;
    uint8_t zero;
    asm("clr %[zero]\n"
        "muls %B[a], %B[b]\n"
        "movw %C[p], r0\n"
        "mul %A[a], %A[b]\n"
        "movw %A[p], r0\n"
        "mulsu %B[a], %A[b]\n"
        "sbc %D[p], %[zero]\n"
        "add %B[p], r0\n"
        "adc %C[p], r1\n"
        "adc %D[p], %[zero]\n"
        "mulsu %B[b], %A[a]\n"
        "sbc %D[p], %[zero]\n"
        "add %B[p], r0\n"
        "adc %C[p], r1\n"
        "adc %D[p], %[zero]\n"
        "clr r1\n"
        : [p] "=&r"(product), [zero] "=&r"(zero)
        : [a] "a"(a), [b] "a"(b)
        : "r0");
    return product;
}
inline void multiply_add(int32_t &sum, int16_t a, int16_t b) { sum += word_product(a, b); }
inline void multiply_add(Acc40 &sum, int16_t a, int16_t b) {
    const int32_t p = word_product(a, b);
    asm("add %A[low], %A[p]\n"
        "adc %B[low], %B[p]\n"
        "adc %C[low], %C[p]\n"
        "adc %D[low], %D[p]\n"
        "adc %[high], r1\n"
        "sbrc %D[p], 7\n"
        "dec %[high]\n"
        : [low] "+r"(sum.low), [high] "+r"(sum.high)
        : [p] "r"(p));
}
inline void multiply_add(Acc40 &sum, int8_t a, int16_t b) { multiply_add(sum, static_cast<int16_t>(a), b); }
inline void multiply_add(Acc40 &sum, int16_t a, int8_t b) { multiply_add(sum, a, static_cast<int16_t>(b)); }
inline void multiply_add(Acc40 &sum, int8_t a, int8_t b) { multiply_add(sum, static_cast<int16_t>(a), static_cast<int16_t>(b)); }

// Starts in the midst of the round, at the place of the first code
template <int Bits, class Acc, class A, class X>
__attribute__((noinline)) void accumulate_codes(Acc &sum, Flash<uint8_t> bytes, A a, const X *b, Size count) {
    constexpr uint8_t phases = Phases<Bits>::count;
    if (count == 0) return;
    const uint8_t bit = static_cast<uint8_t>((a.first & 7) * Bits), phase = static_cast<uint8_t>(a.first & (phases - 1));
    const uint8_t *at = bytes.at + static_cast<Size>((a.first >> 3) * Bits + static_cast<uint8_t>(bit >> 3));
    uint8_t byte = 0;
    if (phase) byte = pgm_read_byte(at++);
    Acc total = sum;
    switch (phase) {
#define HIL_PHASE(n)                                                                         \
    case n:                                                                                  \
        if (phases > n) {                                                                    \
            multiply_add(total, next_factor<(n < phases ? n : 0)>(a, at, byte), factor(*b++)); \
            if (--count == 0) break;                                                         \
        }
        for (;;) {
            HIL_PHASE(0)
            HIL_PHASE(1)
            HIL_PHASE(2)
            HIL_PHASE(3)
            HIL_PHASE(4)
            HIL_PHASE(5)
            HIL_PHASE(6)
            HIL_PHASE(7)
        }
#undef HIL_PHASE
    }
    sum = total;
}

template <int Bits, class X>
inline void accumulate(int32_t &sum, Packed<Fixed<Bits>> a, Ram<X> b, Size count) { accumulate_codes<Bits>(sum, a.bytes, a, b.at, count); }
template <int Bits, class X>
inline void accumulate(Acc40 &sum, Packed<Fixed<Bits>> a, Ram<X> b, Size count) { accumulate_codes<Bits>(sum, a.bytes, a, b.at, count); }
template <int Bits, class Entry, class X>
inline void accumulate(int32_t &sum, Codebook<Bits, Entry> a, Ram<X> b, Size count) { accumulate_codes<Bits>(sum, a.indices, a, b.at, count); }
template <int Bits, class Entry, class X>
inline void accumulate(Acc40 &sum, Codebook<Bits, Entry> a, Ram<X> b, Size count) { accumulate_codes<Bits>(sum, a.indices, a, b.at, count); }

}  // namespace hil

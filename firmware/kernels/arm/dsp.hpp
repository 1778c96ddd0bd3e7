// The instructions of the DSP extension (Cortex-M7) that kernels use, each with a portable form in C++ that says what it computes.
// Where the chip has none that form is the function (tests/test_arm_kernels.py holds the two to the same results).
#pragma once
#include <stdint.h>
#ifdef __ARM_FEATURE_DSP
#include <arm_acle.h>
#endif
// Cortex-M7: a load by itself goes beside a product, one of several registers stops both pipes. Cortex-M4 has one pipe, and the
// fewer instructions, the better. Compilers tell the two apart by the FPU alone.
#if defined(__ARM_FEATURE_DSP) && (__ARM_FP & 8)
#define HIL_LOADS_BESIDE_PRODUCTS
#elif defined(__ARM_FEATURE_DSP)
#define HIL_LOADS_IN_A_ROW  // of one memory, by low registers: each behind another one takes a cycle
#endif

namespace hil {

template <class T>
inline uint32_t word_at(const T *p) {
    uint32_t word;
    __builtin_memcpy(&word, p, 4);
    return word;
}

// Four bytes as two pairs of halfwords, sign extended: (0, 2) and (1, 3)
struct Pairs { uint32_t first, second; };

namespace portable {

constexpr int32_t low_half(uint32_t pair) { return static_cast<int16_t>(pair); }
constexpr int32_t high_half(uint32_t pair) { return static_cast<int16_t>(pair >> 16); }

inline uint32_t even_bytes(uint32_t word) {
    const uint32_t high = static_cast<uint32_t>(static_cast<int8_t>(word >> 16)) << 16;
    return (static_cast<uint32_t>(static_cast<int8_t>(word)) & 0xFFFF) | high;
}
inline uint32_t odd_bytes(uint32_t word) { return even_bytes(word >> 8); }
inline uint32_t even_unsigned_bytes(uint32_t word) { return word & 0x00FF00FF; }
inline uint32_t odd_unsigned_bytes(uint32_t word) { return even_unsigned_bytes(word >> 8); }
// sums wrap around, as the chip's do; that none does is proven when a program is made
inline int32_t wrapped(int32_t sum, int64_t more) { return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(more)); }
inline int32_t add_products(int32_t sum, uint32_t a, uint32_t b) {
    return wrapped(sum, int64_t(low_half(a)) * low_half(b) + int64_t(high_half(a)) * high_half(b));
}
inline int64_t add_products(int64_t sum, uint32_t a, uint32_t b) {
    return sum + int64_t(low_half(a)) * low_half(b) + int64_t(high_half(a)) * high_half(b);
}
inline int32_t add_low(int32_t sum, uint32_t pair, int32_t factor) { return wrapped(sum, low_half(pair) * factor); }
inline int32_t add_high(int32_t sum, uint32_t pair, int32_t factor) { return wrapped(sum, high_half(pair) * factor); }

// sum + a * b / 2^32, rounded down
inline int32_t add_upper(int32_t sum, int32_t a, int32_t b) { return wrapped(sum, (int64_t(a) * b) >> 32); }
// the upper half of a product to nearest, ties towards plus infinity
inline int32_t upper_product(int32_t a, int32_t b) { return static_cast<int32_t>((int64_t(a) * b + (int64_t(1) << 31)) >> 32); }

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
inline uint32_t even_bytes(uint32_t word) {
    uint32_t pair;
    asm("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}
inline uint32_t odd_bytes(uint32_t word) {
    uint32_t pair;
    asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}
inline uint32_t even_unsigned_bytes(uint32_t word) {
    uint32_t pair;
    asm("uxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}
inline uint32_t odd_unsigned_bytes(uint32_t word) {
    uint32_t pair;
    asm("uxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}
inline int32_t add_products(int32_t sum, uint32_t a, uint32_t b) {
    return __smlad(static_cast<int16x2_t>(a), static_cast<int16x2_t>(b), sum);
}
inline int64_t add_products(int64_t sum, uint32_t a, uint32_t b) {
    return __smlald(static_cast<int16x2_t>(a), static_cast<int16x2_t>(b), sum);
}
// sum + one half of a pair times a factor of 16 bits
inline int32_t add_low(int32_t sum, uint32_t pair, int32_t factor) { return __smlabb(static_cast<int32_t>(pair), factor, sum); }
inline int32_t add_high(int32_t sum, uint32_t pair, int32_t factor) { return __smlatb(static_cast<int32_t>(pair), factor, sum); }
inline int32_t add_upper(int32_t sum, int32_t a, int32_t b) {
    int32_t made;
    asm("smmla %0, %1, %2, %3" : "=r"(made) : "r"(a), "r"(b), "r"(sum));
    return made;
}
inline int32_t upper_product(int32_t a, int32_t b) {
    int32_t upper;
    asm("smmulr %0, %1, %2" : "=r"(upper) : "r"(a), "r"(b));
    return upper;
}
#elif !defined(__AVR__)
// no 64-bit half to add: the bit that decides is the highest of the lower half
inline int32_t upper_product(int32_t a, int32_t b) {
    const int64_t whole = int64_t(a) * b;
    return static_cast<int32_t>(whole >> 32) + static_cast<int32_t>(static_cast<uint32_t>(whole) >> 31);
}
inline int32_t add_upper(int32_t sum, int32_t a, int32_t b) { return sum + static_cast<int32_t>((int64_t(a) * b) >> 32); }
inline uint32_t even_bytes(uint32_t word) { return portable::even_bytes(word); }
inline uint32_t odd_bytes(uint32_t word) { return portable::odd_bytes(word); }
inline uint32_t even_unsigned_bytes(uint32_t word) { return portable::even_unsigned_bytes(word); }
inline uint32_t odd_unsigned_bytes(uint32_t word) { return portable::odd_unsigned_bytes(word); }
inline int32_t add_products(int32_t sum, uint32_t a, uint32_t b) { return portable::add_products(sum, a, b); }
inline int64_t add_products(int64_t sum, uint32_t a, uint32_t b) { return portable::add_products(sum, a, b); }
inline int32_t add_low(int32_t sum, uint32_t pair, int32_t factor) { return portable::add_low(sum, pair, factor); }
inline int32_t add_high(int32_t sum, uint32_t pair, int32_t factor) { return portable::add_high(sum, pair, factor); }
#endif

#ifndef __AVR__
// The same for sums of 64 bits: compilers know these instructions
inline int64_t add_low(int64_t sum, uint32_t pair, int32_t factor) {
    return sum + int64_t(static_cast<int16_t>(pair)) * static_cast<int16_t>(factor);
}
inline int64_t add_high(int64_t sum, uint32_t pair, int32_t factor) {
    return sum + int64_t(static_cast<int16_t>(pair >> 16)) * static_cast<int16_t>(factor);
}
// Two halfwords each, one by one
inline uint32_t add_halves(uint32_t a, uint32_t b) { return (((a ^ b) & 0x80008000) ^ ((a & 0x7FFF7FFF) + (b & 0x7FFF7FFF))); }
inline Pairs split(uint32_t word) { return {even_bytes(word), odd_bytes(word)}; }
// The same of the four bytes at p, which have a sign or none
inline uint32_t even_bytes_at(const int8_t *p) { return even_bytes(word_at(p)); }
inline uint32_t even_bytes_at(const uint8_t *p) { return even_unsigned_bytes(word_at(p)); }
inline Pairs split(const int8_t *p) { return split(word_at(p)); }
inline Pairs split(const uint8_t *p) { return {even_unsigned_bytes(word_at(p)), odd_unsigned_bytes(word_at(p))}; }
// The lower halves of two words, and the upper ones
inline uint32_t lower_halves(uint32_t first, uint32_t second) { return (first & 0xFFFF) | (second << 16); }
inline uint32_t upper_halves(uint32_t first, uint32_t second) { return (first >> 16) | (second & 0xFFFF0000); }
#endif

}  // namespace hil

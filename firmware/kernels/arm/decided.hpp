// Results that are defined in single precision, made of integers: these are exact, or their error is bounded, and so is the distance of
// the floats from the true value. Both round alike unless a result lies closer to a tie than both bounds together; there the floats decide.
#pragma once
#include "firmware/kernels/arm/dsp.hpp"
#include "firmware/kernels/common/affine.hpp"
#include "firmware/kernels/common/single_functions.hpp"

namespace hil {

constexpr float float_unit = 5.9604645e-8f;  // 2^-24: how wrong a float is of itself at most

// How approximations t become codes: t * 2^-f, to nearest. `start` joins them first: a half, the bound of the error, the zero point.
struct Decided {
    int32_t start;
    uint32_t open;  // twice the bound, at the top of a word
    int f;
};
inline Decided decided(int f, int32_t bound, int zero) {
    return {(int32_t(1) << (f - 1)) + bound + static_cast<int32_t>(static_cast<uint32_t>(zero) << f),
            static_cast<uint32_t>(2 * bound) << (32 - f), f};
}
// what is decided by floats alone
inline Decided undecided(int f) { return {0, 0xFFFFFFFFu, f}; }
inline bool is_open(int32_t t, const Decided &to) { return (static_cast<uint32_t>(t) << (32 - to.f)) <= to.open; }

inline uint32_t without_zero(uint32_t pair, uint32_t zeros) {
#ifdef __ARM_FEATURE_DSP
    return __ssub16(static_cast<int16x2_t>(pair), static_cast<int16x2_t>(zeros));
#else
    const uint32_t low = (pair - zeros) & 0xFFFF;
    return low | (((pair >> 16) - (zeros >> 16)) << 16);
#endif
}
inline uint32_t in_both(int zero) { return static_cast<uint32_t>(zero & 0xFFFF) * 0x10001u; }

// Up to three bytes that are left of a row, and the code of 0
inline uint32_t rest_at(const int8_t *p, Size count, int zero) {
    uint32_t word = static_cast<uint32_t>(zero & 0xFF) * 0x01010101u;
    __builtin_memcpy(&word, p, count);
    return word;
}

// The larger byte of each of four
inline uint32_t larger_bytes(uint32_t a, uint32_t b) {
#ifdef __ARM_FEATURE_DSP
    (void)__ssub8(a, b);
    return __sel(a, b);
#else
    uint32_t result = 0;
    for (int at = 0; at < 32; at += 8) {
        const int8_t one = static_cast<int8_t>(a >> at), other = static_cast<int8_t>(b >> at);
        result |= static_cast<uint32_t>(static_cast<uint8_t>(one > other ? one : other)) << at;
    }
    return result;
#endif
}

#ifdef __ARM_FEATURE_DSP
// Whether one of four codes is the largest or the least, as those that were clipped are
inline bool has_an_end(uint32_t codes) { return __uqsub8(0x02020202u, __uadd8(codes, 0x81818181u)) != 0; }
#endif

// Sums and sums of squares of a row of codes less their zero point, or as they are
struct Moments { int32_t sum, squares; };
template <bool LessZero = true>
__attribute__((always_inline)) inline Moments moments_of(const int8_t *x, Size count, uint32_t zeros, int zero) {
    Moments m = {0, 0};
    const auto add = [&](uint32_t word) {
        const uint32_t even = even_bytes(word), odd = odd_bytes(word);
        const uint32_t p = LessZero ? without_zero(even, zeros) : even, q = LessZero ? without_zero(odd, zeros) : odd;
        m.sum = add_products(add_products(m.sum, p, 0x10001), q, 0x10001);
        m.squares = add_products(add_products(m.squares, p, p), q, q);
    };
    const int8_t *const end = x + (count & ~Size(3));
#pragma GCC unroll 2
    for (; x != end; x += 4) add(word_at(x));
    if (count & 3) add(rest_at(x, count & 3, LessZero ? zero : 0));
    return m;
}

}  // namespace hil

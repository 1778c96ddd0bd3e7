// The products of asymmetric integers for the ATmega, whose multiplier takes bytes: the same results as the 64-bit forms in
// rescale.hpp. A signed factor of n bytes and a sign is multiplied as its lowest n bytes; the multiplier is subtracted above them
// if it is negative. Multipliers are 0 or 2^30 to 2^31 - 1.
#pragma once
#include "firmware/kernels/common/numeric.hpp"
#include "firmware/kernels/common/real.hpp"

namespace hil {

// Columns of a product of bytes: a carry goes into the third byte.
#define HIL_COLUMN(a, b, low, middle, high) "mul " a "," b "\nadd " low ",r0\nadc " middle ",r1\nadc " high ",%[zero]\n"

// From the fourth column on, up to the sign of x; what follows is left out unless x is negative.
#define HIL_UPPER_COLUMNS                                                                                             \
    HIL_COLUMN("%A[x]", "%D[m]", "%[low]", "%A[high]", "%B[high]")                                                    \
    HIL_COLUMN("%B[x]", "%C[m]", "%[low]", "%A[high]", "%B[high]")                                                    \
    HIL_COLUMN("%C[x]", "%B[m]", "%[low]", "%A[high]", "%B[high]")                                                    \
    HIL_COLUMN("%D[x]", "%A[m]", "%[low]", "%A[high]", "%B[high]")                                                    \
    "clr %C[high]\n"                                                                                                  \
    HIL_COLUMN("%B[x]", "%D[m]", "%A[high]", "%B[high]", "%C[high]")                                                  \
    HIL_COLUMN("%C[x]", "%C[m]", "%A[high]", "%B[high]", "%C[high]")                                                  \
    HIL_COLUMN("%D[x]", "%B[m]", "%A[high]", "%B[high]", "%C[high]")                                                  \
    "clr %D[high]\n"                                                                                                  \
    HIL_COLUMN("%C[x]", "%D[m]", "%B[high]", "%C[high]", "%D[high]")                                                  \
    HIL_COLUMN("%D[x]", "%C[m]", "%B[high]", "%C[high]", "%D[high]")                                                  \
    "mul %D[x],%D[m]\n"                                                                                               \
    "add %C[high],r0\n"                                                                                               \
    "adc %D[high],r1\n"                                                                                               \
    "clr r1\n"                                                                                                        \
    "sbrs %D[x],7\n"                                                                                                  \
    "rjmp 1f\n"

// floor((x * m + round * 2^24) / 2^31)
HIL_SHARED inline int32_t high_product(int32_t x, int32_t m, uint8_t round) {
    int32_t high;  // the bytes 4 to 7 of the product; C and D hold its bytes 2 and 1 before
    uint8_t low, zero;
    asm("clr %[zero]\n"
        "mul %A[x],%A[m]\n"
        "mov %D[high],r1\n"
        "clr %C[high]\n"
        "clr %[low]\n"
        HIL_COLUMN("%A[x]", "%B[m]", "%D[high]", "%C[high]", "%[low]")
        HIL_COLUMN("%B[x]", "%A[m]", "%D[high]", "%C[high]", "%[low]")
        "clr %A[high]\n"
        HIL_COLUMN("%A[x]", "%C[m]", "%C[high]", "%[low]", "%A[high]")
        HIL_COLUMN("%B[x]", "%B[m]", "%C[high]", "%[low]", "%A[high]")
        HIL_COLUMN("%C[x]", "%A[m]", "%C[high]", "%[low]", "%A[high]")
        "clr %B[high]\n"
        HIL_UPPER_COLUMNS
        "sub %A[high],%A[m]\n"
        "sbc %B[high],%B[m]\n"
        "sbc %C[high],%C[m]\n"
        "sbc %D[high],%D[m]\n"
        "1:\n"
        "add %[low],%[round]\n"
        "adc %A[high],r1\n"
        "adc %B[high],r1\n"
        "adc %C[high],r1\n"
        "adc %D[high],r1\n"
        "lsl %[low]\n"
        "rol %A[high]\n"
        "rol %B[high]\n"
        "rol %C[high]\n"
        "rol %D[high]\n"
        : [high] "=&r"(high), [low] "=&r"(low), [zero] "=&r"(zero)
        : [x] "r"(x), [m] "r"(m), [round] "r"(round)
        : "r0");
    return high;
}

// floor((x * m + 2^30 - 2^31 (x < 0)) / 2^32), or up to 4 less: the product without its three lowest columns, which are below 2^34.
// Where the lowest byte is below 0xFC the others are right.
HIL_SHARED inline int32_t upper_product(int32_t x, int32_t m) {
    int32_t high;
    uint8_t low, zero;
    asm("clr %[zero]\n"
        "ldi %[low],0x40\n"
        "sbrc %D[x],7\n"
        "ldi %[low],0xC0\n"
        "clr %A[high]\n"
        "clr %B[high]\n"
        HIL_UPPER_COLUMNS
        "sec\n"
        "sbc %A[high],%A[m]\n"
        "sbc %B[high],%B[m]\n"
        "sbc %C[high],%C[m]\n"
        "sbc %D[high],%D[m]\n"
        "1:\n"
        : [high] "=&r"(high), [low] "=&d"(low), [zero] "=&r"(zero)
        : [x] "r"(x), [m] "r"(m)
        : "r0");
    return high;
}

// floor(x * m / 2^8)
inline int32_t high_of_byte(uint8_t x, int32_t m) {
    int32_t high;
    asm("mul %[x],%B[m]\n"
        "movw %A[high],r0\n"
        "mul %[x],%D[m]\n"
        "movw %C[high],r0\n"
        "mul %[x],%A[m]\n"
        "add %A[high],r1\n"
        "clr r1\n"
        "adc %B[high],r1\n"
        "mul %[x],%C[m]\n"
        "add %B[high],r0\n"
        "adc %C[high],r1\n"
        "clr r1\n"
        "adc %D[high],r1\n"
        : [high] "=&r"(high)
        : [x] "r"(x), [m] "r"(m)
        : "r0");
    return high;
}

// floor(x * m / 2^16)
inline int32_t high_of_word(uint16_t x, int32_t m) {
    int32_t high;
    uint8_t low, zero;
    asm("clr %[zero]\n"
        "mul %B[x],%B[m]\n"
        "movw %A[high],r0\n"
        "mul %B[x],%D[m]\n"
        "movw %C[high],r0\n"
        HIL_COLUMN("%A[x]", "%D[m]", "%B[high]", "%C[high]", "%D[high]")
        HIL_COLUMN("%B[x]", "%C[m]", "%B[high]", "%C[high]", "%D[high]")
        HIL_COLUMN("%A[x]", "%C[m]", "%A[high]", "%B[high]", "%C[high]")
        "adc %D[high],%[zero]\n"
        "mul %A[x],%A[m]\n"
        "mov %[low],r1\n"
        HIL_COLUMN("%A[x]", "%B[m]", "%[low]", "%A[high]", "%B[high]")
        "adc %C[high],%[zero]\n"
        "adc %D[high],%[zero]\n"
        HIL_COLUMN("%B[x]", "%A[m]", "%[low]", "%A[high]", "%B[high]")
        "adc %C[high],%[zero]\n"
        "adc %D[high],%[zero]\n"
        "clr r1\n"
        : [high] "=&r"(high), [low] "=&r"(low), [zero] "=&r"(zero)
        : [x] "r"(x), [m] "r"(m)
        : "r0");
    return high;
}
#undef HIL_COLUMN

// floor(x / 2^n + 1/2), 0 < n < 32
HIL_SHARED inline int32_t rounded_right(int32_t x, uint8_t n) {
    for (--n; n >= 8; n = static_cast<uint8_t>(n - 8)) x >>= 8;
    for (; n > 0; --n) x >>= 1;
    return (x >> 1) + (x & 1);
}

// x * m * 2^(shift - 31): to nearest, and, shifted right, to nearest again with ties away from zero
inline int32_t rescale(int32_t x, int32_t m, int shift) {
    if (shift > 0) x = static_cast<int32_t>(static_cast<uint32_t>(x) << shift);
    const int32_t high = high_product(x, m, 0x40);
    return shift >= 0 ? high : rounded_right(high - (high < 0), static_cast<uint8_t>(-shift));
}

inline int32_t rescale_once(int32_t x, int32_t m, int shift) {
    if (shift >= 0) return rescale(x, m, shift);
    return rounded_right(high_product(x, m, 0), static_cast<uint8_t>(-shift));
}

inline int32_t rescale(__int24 x, int32_t m, int shift) { return rescale(static_cast<int32_t>(x), m, shift); }
inline int32_t rescale_once(__int24 x, int32_t m, int shift) { return rescale_once(static_cast<int32_t>(x), m, shift); }

// rescale(d * 2^20, m, shift) of the difference of two codes of 8 bits
template <int Shift>
inline int32_t rescale_lifted(int16_t d, int32_t m, Const<Shift>) {
    constexpr int n = -Shift;
    if (n < 0 || n > 16) return rescale(static_cast<int32_t>(d) * (int32_t(1) << 20), m, Shift);
    if (n == 0 && m == int32_t(1) << 30) return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(d << 3)) << 16);
    // floor((d * m + 2^10 + 2^(n + 10) - 2^11 (d < 0)) / 2^(n + 11)): its lowest byte is that of the product
    constexpr int32_t half = n > 0 ? int32_t(1) << (n > 0 && n <= 16 ? n + 2 : 0) : 0;
    const int32_t addend = d < 0 ? (n > 0 ? half - 4 : 4) - m : half + 4;
    return shift_right(high_of_byte(static_cast<uint8_t>(d), m) + addend, Const<(n >= 0 && n <= 16 ? n + 3 : 0)>());
}

template <bool> struct ShortOr { using type = int32_t; };
template <> struct ShortOr<true> { using type = int16_t; };

// The last step of a sum of at most 2^28
template <int Shift>
inline typename ShortOr<(Shift <= -14)>::type rescale_sum(int32_t sum, int32_t m, Const<Shift>) {
    constexpr int n = -Shift;
    if (n <= 0 || n > 28) return rescale(sum, m, Shift);
    if (n >= 17) {  // floor((sum * m + 2^30 - 2^31 (sum < 0) + 2^(n + 30)) / 2^(n + 31))
        const int32_t upper = upper_product(sum, m) + (int32_t(1) << (n >= 17 && n <= 28 ? n - 2 : 0));
        if (static_cast<uint8_t>(upper) < 0xFC) {
            return static_cast<int16_t>(static_cast<int16_t>(upper >> 16) >> (n >= 17 && n <= 28 ? n - 17 : 0));
        }
    }
    constexpr int32_t half = int32_t(1) << (n > 0 && n <= 28 ? n - 1 : 0);
    int32_t high = high_product(sum, m, 0x40);
    if (high < 0) high += half - 1; else high += half;
    return shift_right(high, Const<(n > 0 && n <= 28 ? n : 0)>());
}

// rescale(a * b, m, shift) of differences of two codes of 8 bits
template <int Shift>
inline typename ShortOr<(Shift <= -2)>::type rescale_product(int16_t a, int16_t b, int32_t m, Const<Shift>) {
    constexpr int n = -Shift;
    const bool negative = (a < 0) != (b < 0);
    const uint8_t left = static_cast<uint8_t>(a < 0 ? -a : a), right = static_cast<uint8_t>(b < 0 ? -b : b);
    const uint16_t size = static_cast<uint16_t>(static_cast<uint16_t>(left) * right);
    if (n < 2 || n > 17) return rescale(negative ? -static_cast<int32_t>(size) : static_cast<int32_t>(size), m, Shift);
    if (size == 0) return 0;
    // floor((x * m + 2^30 - 2^31 (x < 0)) / 2^(n + 30)), and half of it to nearest
    int32_t high;
    if (negative) {
        high = high_of_word(static_cast<uint16_t>(-size), m) - (m + (int32_t(1) << 14));
    } else {
        high = high_of_word(size, m) + (int32_t(1) << 14);
    }
    const int16_t twice = static_cast<int16_t>(shift_right(high, Const<(n >= 2 && n <= 17 ? n + 14 : 16)>()));
    return static_cast<int16_t>((twice >> 1) + (twice & 1));
}

}  // namespace hil

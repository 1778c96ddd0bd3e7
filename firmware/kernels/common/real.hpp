// Numbers that are mantissa * 2^exponent: what codes of posits and minifloats decode to, and the one rounding back.
// tinyhil/formats/exact.py is the numpy side: single sums and products are exact until that rounding.
#pragma once
#include "firmware/kernels/common/numeric.hpp"

// Called, not inlined, where flash is small: 64-bit arithmetic takes hundreds of bytes on an ATmega.
#ifdef __AVR__
#define HIL_SHARED __attribute__((noinline))
#else
#define HIL_SHARED
#endif

namespace hil {

// |x| = (top + tail) * 2^(exponent - 31), 0 <= tail < 1; top has its highest bit set, or the number is 0.
// `sticky`: the tail is not 0.
struct Parts {
    uint32_t top;
    int16_t exponent;
    bool negative, sticky;
};

#ifdef __AVR__
// Shifts a number other than 0 left until its highest bit is set; by how many bits
inline uint8_t normalize(uint16_t &x) {
    uint8_t bits = 0;
    asm("tst %B[x]\n"
        "brmi 2f\n"
        "1:\n"
        "inc %[bits]\n"
        "lsl %A[x]\n"
        "rol %B[x]\n"
        "brpl 1b\n"
        "2:\n"
        : [x] "+r"(x), [bits] "+r"(bits));
    return bits;
}
// Moves the highest n bits of `from` to the low end of `to`, n < 128
inline void shift_in(uint8_t &to, uint16_t &from, uint8_t n) {
    asm("rjmp 2f\n"
        "1:\n"
        "lsl %A[from]\n"
        "rol %B[from]\n"
        "rol %[to]\n"
        "2:\n"
        "dec %[n]\n"
        "brpl 1b\n"
        : [to] "+r"(to), [from] "+r"(from), [n] "+r"(n));
}
// Elements of at most 8 bits are rounded from 16 bits, scalars all: pack_top(top, exponent, negative, sticky)
template <class Out>
inline Out pack_upper(const Parts &x) {
    return Out::pack_top(static_cast<uint16_t>(x.top >> 16), x.exponent, x.negative, x.sticky || static_cast<uint16_t>(x.top) != 0);
}
#endif

inline uint8_t leading_zeros(uint32_t x) {  // x != 0
    return static_cast<uint8_t>(__builtin_clzl(static_cast<unsigned long>(x)) - (sizeof(unsigned long) == 8 ? 32 : 0));
}

HIL_SHARED inline Parts parts_of(bool negative, uint32_t magnitude, int16_t exponent, bool sticky = false) {
    if (magnitude == 0) return {0, 0, false, false};
#ifdef __AVR__  // which shifts by a variable bit by bit
    exponent = static_cast<int16_t>(exponent + 31);
    for (; magnitude < 0x01000000; exponent = static_cast<int16_t>(exponent - 8)) magnitude <<= 8;
    for (; magnitude < 0x80000000; --exponent) magnitude <<= 1;
    return {magnitude, exponent, negative, sticky};
#else
    const uint8_t zeros = leading_zeros(magnitude);
    return {magnitude << zeros, static_cast<int16_t>(exponent + 31 - zeros), negative, sticky};
#endif
}

HIL_SHARED inline Parts parts_of(bool negative, uint64_t magnitude, int16_t exponent, bool sticky = false) {
    const uint32_t high = static_cast<uint32_t>(magnitude >> 32), low = static_cast<uint32_t>(magnitude);
    if (high == 0) return parts_of(negative, low, exponent, sticky);
    const uint8_t zeros = leading_zeros(high);
    const uint32_t top = zeros == 0 ? high : (high << zeros) | (low >> (32 - zeros));
    return {top, static_cast<int16_t>(exponent + 63 - zeros), negative, sticky || static_cast<uint32_t>(low << zeros) != 0};
}

inline uint32_t magnitude_of(int32_t x) { return x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x); }
inline uint64_t magnitude_of(int64_t x) { return x < 0 ? 0u - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); }

// floor(x / 2^shift) of a sum, its lowest bit set if anything was lost: rounded to odd, so that one later rounding to
// fewer bits is right.
HIL_SHARED inline int64_t shift_to_odd(int64_t x, int shift) {
    if (shift <= 0) return x;
    if (shift > 62) return x == 0 ? 0 : x < 0 ? -1 : 1;
    return (x >> shift) | ((x & ((int64_t(1) << shift) - 1)) != 0);
}

template <class T>
struct IsElement {
    static constexpr bool value = false;
};

// Mantissa: int32_t for formats of at most 16 bits (30 bits are kept), int64_t for posit32, fixed32, float32 (60 bits).
template <class Mantissa>
struct RealOf {
    Mantissa mantissa;
    int16_t exponent;
    static constexpr int width = sizeof(Mantissa) == 4 ? 30 : 60;

    constexpr RealOf() : mantissa(0), exponent(0) {}
    constexpr RealOf(Mantissa m, int16_t e) : mantissa(m), exponent(e) {}
    constexpr RealOf(Mantissa whole) : mantissa(whole), exponent(0) {}
    template <class Element, class = typename EnableIf<IsElement<Element>::value>::type>
    RealOf(Element x) : RealOf(Element::unpack(x)) {}
    template <class Other, class = typename EnableIf<(sizeof(Other) < sizeof(Mantissa))>::type, int = 0>
    RealOf(RealOf<Other> x) : mantissa(x.mantissa), exponent(x.exponent) {}

    // x * 2^e in `width` bits, the rest rounded to odd
    HIL_SHARED static RealOf limited(int64_t x, int16_t e) {
        int drop = 0;
        for (uint64_t m = magnitude_of(x) >> width; m != 0; m >>= 1) ++drop;
        return {static_cast<Mantissa>(shift_to_odd(x, drop)), static_cast<int16_t>(e + drop)};
    }

    // The same number with a mantissa below 2^31
    HIL_SHARED RealOf narrow() const {
        int drop = 0;
        for (uint64_t m = magnitude_of(static_cast<int64_t>(mantissa)) >> 31; m != 0; m >>= 1) ++drop;
        return {static_cast<Mantissa>(shift_to_odd(mantissa, drop)), static_cast<int16_t>(exponent + drop)};
    }

    friend RealOf operator-(RealOf x) { return {static_cast<Mantissa>(-x.mantissa), x.exponent}; }

    friend HIL_SHARED RealOf operator*(RealOf a, RealOf b) {
        if (a.is_short() && b.is_short()) {
            const int32_t product = static_cast<int32_t>(static_cast<int16_t>(a.mantissa)) * static_cast<int16_t>(b.mantissa);
            return {static_cast<Mantissa>(product), static_cast<int16_t>(a.exponent + b.exponent)};
        }
        if (sizeof(Mantissa) == 8) {
            a = a.narrow();
            b = b.narrow();
        }
        return limited(static_cast<int64_t>(a.mantissa) * b.mantissa, static_cast<int16_t>(a.exponent + b.exponent));
    }

    friend HIL_SHARED RealOf operator+(RealOf a, RealOf b) {
        if (a.mantissa == 0) return b;
        if (b.mantissa == 0) return a;
        if (a.is_short() && b.is_short()) return short_sum(a, b);
        int64_t x = a.raised(), y = b.raised();
        if (a.exponent < b.exponent) {
            const int64_t swapped = x;
            x = y;
            y = swapped;
        }
        const int16_t high = a.exponent < b.exponent ? b.exponent : a.exponent;
        const int16_t low = a.exponent < b.exponent ? a.exponent : b.exponent;
        return limited(x + shift_to_odd(y, high - low), high);
    }
    friend HIL_SHARED RealOf operator-(RealOf a, RealOf b) { return a + -b; }

    friend bool operator<(RealOf a, RealOf b) { return (a - b).mantissa < 0; }
    friend bool operator>(RealOf a, RealOf b) { return (a - b).mantissa > 0; }
    friend bool operator<=(RealOf a, RealOf b) { return (a - b).mantissa <= 0; }
    friend bool operator>=(RealOf a, RealOf b) { return (a - b).mantissa >= 0; }
    friend bool operator==(RealOf a, RealOf b) { return (a - b).mantissa == 0; }
    friend bool operator!=(RealOf a, RealOf b) { return (a - b).mantissa != 0; }
    RealOf &operator+=(RealOf other) { return *this = *this + other; }

private:
    // What formats of at most 16 bits decode to: 32-bit arithmetic is enough for one operation.
    bool is_short() const { return sizeof(Mantissa) == 4 && static_cast<int16_t>(mantissa) == mantissa; }

    // A short mantissa moved up to bit 28, the exponent along with it
    int32_t lifted() {
        int32_t x = static_cast<int32_t>(mantissa);
        while (x < (int32_t(1) << 20) && x >= -(int32_t(1) << 20)) {
            x *= 256;
            exponent = static_cast<int16_t>(exponent - 8);
        }
        while (x < (int32_t(1) << 27) && x >= -(int32_t(1) << 27)) {
            x *= 2;
            exponent = static_cast<int16_t>(exponent - 1);
        }
        return x;
    }

    static RealOf short_sum(RealOf a, RealOf b) {
        int32_t x = a.lifted(), y = b.lifted();
        if (a.exponent < b.exponent) {
            const int32_t swapped = x;
            x = y;
            y = swapped;
        }
        const int16_t high = a.exponent < b.exponent ? b.exponent : a.exponent;
        int16_t shift = static_cast<int16_t>(high - (a.exponent < b.exponent ? a.exponent : b.exponent));
        if (shift > 30) return {static_cast<Mantissa>(x + (y < 0 ? -1 : 1)), high};
        const int32_t moved = y >> shift;
        const bool lost = static_cast<int32_t>(static_cast<uint32_t>(moved) << shift) != y;
        return {static_cast<Mantissa>(x + (moved | static_cast<int32_t>(lost))), high};
    }

    // The mantissa moved up to bit 61, the exponent along with it: sums keep two bits below the 60 that count
    HIL_SHARED int64_t raised() {
        int64_t x = mantissa;
        while (x < (int64_t(1) << 60) && x >= -(int64_t(1) << 60)) {
            const bool far = x < (int64_t(1) << 52) && x >= -(int64_t(1) << 52);
            x *= far ? 256 : 2;
            exponent = static_cast<int16_t>(exponent - (far ? 8 : 1));
        }
        return x;
    }
};

using Real = RealOf<int32_t>;
using LongReal = RealOf<int64_t>;

template <class Mantissa, class Shift>
inline RealOf<Mantissa> scaled(RealOf<Mantissa> x, Shift shift) {
    return {x.mantissa, static_cast<int16_t>(x.exponent + int(shift))};
}

template <class Mantissa>
struct Start<RealOf<Mantissa>> {
    template <class Bias, class Shift>
    static RealOf<Mantissa> of(Bias bias, Shift shift) {
        return scaled(RealOf<Mantissa>(bias), shift);
    }
};

// ---- any accumulator as parts

inline Parts parts(int32_t x) { return parts_of(x < 0, magnitude_of(x), 0); }
inline Parts parts(int64_t x) { return parts_of(x < 0, magnitude_of(x), 0); }
#ifdef __AVR__
inline Parts parts(Acc40 x) { return parts(x.wide()); }
inline Parts parts(Acc48 x) { return parts(x.wide()); }
inline Parts parts(__int24 x) { return parts(static_cast<int32_t>(x)); }
inline Parts parts(int x) { return parts(static_cast<int32_t>(x)); }
#endif
template <class Mantissa>
inline Parts parts(RealOf<Mantissa> x) {
    return parts_of(x.mantissa < 0, magnitude_of(x.mantissa), x.exponent);
}

inline uint32_t bits_of(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}
inline float float_of(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

// An infinity is 2^200, beyond every format's range. NaN must be asked for.
HIL_SHARED inline Parts parts(float x) {
    const uint32_t bits = bits_of(x);
#ifdef __AVR__  // a shift by 23 bits takes it 160 cycles
    const uint8_t field = static_cast<uint8_t>(static_cast<uint16_t>(bits >> 16) >> 7);
#else
    const uint8_t field = static_cast<uint8_t>(bits >> 23);
#endif
    const uint32_t fraction = bits & 0x7FFFFF;
    const bool negative = bits >> 31;
    if (field == 255) return {0x80000000, 200, negative, false};
    Parts made = parts_of(negative, field == 0 ? fraction : fraction | 0x800000, static_cast<int16_t>((field ? field : 1) - 150));
    made.negative = negative;  // zeros keep their sign
    return made;
}
template <class Number>
inline bool is_nan(Number) {
    return false;
}
inline bool is_nan(float x) { return x != x; }

// ---- parts as an element: `Pack<Out>::of(parts)` rounds once

template <class Out>
struct Pack {
    static Out of(Parts x) { return Out::pack(x); }
    static Out nan() { return Out::nan(); }
};

// Fixed point: to nearest, ties towards plus infinity
template <class Out, int Bits>
struct PackFixed {
    HIL_SHARED static Out of(Parts x) {
        if (x.top == 0 || x.exponent < -1) return Saturate<Out>::of(static_cast<int32_t>(0));
        if (x.exponent > 31) return limit(x.negative);
        const uint8_t drop = static_cast<uint8_t>(31 - x.exponent);
        uint32_t whole = drop < 32 ? x.top >> drop : 0;
        const uint32_t rest = drop == 0 ? 0 : x.top << (32 - drop);
        const bool more = (rest & 0x7FFFFFFF) != 0 || x.sticky;
        if ((rest & 0x80000000) && (more || !x.negative)) {
            ++whole;
            if (whole == 0) return limit(x.negative);
        }
        if (whole > 0x7FFFFFFF) {
            if (x.negative && whole == 0x80000000) return Saturate<Out>::of(static_cast<int32_t>(-2147483647 - 1));
            return limit(x.negative);
        }
        return Saturate<Out>::of(x.negative ? -static_cast<int32_t>(whole) : static_cast<int32_t>(whole));
    }
    static Out nan() {
        ++saturations;
        return Saturate<Out>::of(static_cast<int32_t>(0));
    }

private:
    static Out limit(bool negative) {
        if (Bits == 32) ++saturations;
        return Saturate<Out>::of(negative ? static_cast<int32_t>(-2147483647 - 1) : static_cast<int32_t>(2147483647));
    }
};
template <>
struct Pack<int8_t> : PackFixed<int8_t, 8> {};
template <>
struct Pack<int16_t> : PackFixed<int16_t, 16> {};
template <>
struct Pack<int32_t> : PackFixed<int32_t, 32> {};
template <>
struct Pack<Signed> {
    static Signed of(Parts x) { return Signed(x.negative && x.top != 0 ? -1 : 1); }
    static Signed nan() { return ++saturations, Signed(1); }
};
template <int Bits>
struct Pack<Fixed<Bits>> : PackFixed<Fixed<Bits>, Bits> {};
template <int Bits>
struct Pack<Unsigned<Bits>> : PackFixed<Unsigned<Bits>, Bits> {};

template <class Out, class Number, class Shift>
inline SpecialOut<Out, Number> requantize(Number sum, Shift shift) {
    if (is_nan(sum)) return Pack<Out>::nan();
    Parts x = parts(sum);
    x.exponent = static_cast<int16_t>(x.exponent - int(shift));
    return Pack<Out>::of(x);
}

template <class Mantissa>
struct IsSpecial<RealOf<Mantissa>> {
    static constexpr bool value = true;
};
template <>
struct IsSpecial<float> {
    static constexpr bool value = true;
};

}  // namespace hil

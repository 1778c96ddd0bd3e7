// Sums and products of two coded elements of at most 8 bits on the ATmega: 16 bits hold what one rounding to such an element
// needs (tinyhil/formats/exact.py: exact until that rounding), where Real takes 32 and more.
#pragma once
#include "firmware/kernels/common/element.hpp"

namespace hil {

template <class Element>
inline SmallReal small_real(Element x) { return Flash<SmallReal>{Decoded<Element>::table.entries}[x.code]; }

// mantissa * 2^exponent, its lowest bit set if anything below it was lost. Of an element: 2^13 <= |mantissa| < 2^14, so 7 bits
// of its own and 7 below them.
struct ShortReal {
    int16_t mantissa, exponent;

    ShortReal() = default;
    ShortReal(int16_t m, int16_t e) : mantissa(m), exponent(e) {}
    template <class Element>
    explicit ShortReal(Element x) {
        constexpr int up = 14 - Element::mantissa_bits;
        const SmallReal r = small_real(x);
        mantissa = static_cast<int16_t>(r.mantissa * (1 << up));
        exponent = static_cast<int16_t>(r.exponent - up);
        if (mantissa == 0) return;
        while (mantissa < 0x2000 && mantissa > -0x2000) {  // subnormal
            mantissa = static_cast<int16_t>(mantissa * 2);
            --exponent;
        }
    }
    friend ShortReal operator-(ShortReal x) { return {static_cast<int16_t>(-x.mantissa), x.exponent}; }
};

// Where bits are lost the operands are two or more places apart: nothing but one leading bit can cancel.
HIL_SHARED inline ShortReal short_sum(ShortReal a, ShortReal b) {
    if (a.mantissa == 0) return b;
    if (b.mantissa == 0) return a;
    if (a.exponent < b.exponent) {
        const ShortReal swapped = a;
        a = b;
        b = swapped;
    }
    const int16_t apart = static_cast<int16_t>(a.exponent - b.exponent);
    if (apart > 14) return {static_cast<int16_t>(a.mantissa + (b.mantissa < 0 ? -1 : 1)), a.exponent};
    int16_t y = b.mantissa;
    bool lost = false;
    uint8_t n = static_cast<uint8_t>(apart);
    if (n >= 8) {
        lost = static_cast<uint8_t>(y) != 0;
        y = static_cast<int16_t>(y >> 8);
        n = static_cast<uint8_t>(n - 8);
    }
    for (; n > 0; --n) {
        lost |= y & 1;
        y = static_cast<int16_t>(y >> 1);
    }
    return {static_cast<int16_t>(a.mantissa + (y | static_cast<int16_t>(lost))), a.exponent};
}
inline ShortReal operator+(ShortReal a, ShortReal b) { return short_sum(a, b); }
inline ShortReal operator-(ShortReal a, ShortReal b) { return short_sum(a, -b); }

template <class Shift>
inline ShortReal scaled(ShortReal x, Shift shift) { return {x.mantissa, static_cast<int16_t>(x.exponent + int(shift))}; }

// Mantissas of at most 7 bits
template <>
struct Multiply<ShortReal> {
    template <class A, class B>
    static ShortReal of(A a, B b) {
        const SmallReal x = small_real(a), y = small_real(b);
        return {static_cast<int16_t>(static_cast<int16_t>(x.mantissa) * y.mantissa), static_cast<int16_t>(x.exponent + y.exponent)};
    }
};

template <class Out>
HIL_SHARED Out pack_short(int16_t mantissa, int16_t exponent) {
    uint16_t top = static_cast<uint16_t>(mantissa < 0 ? -mantissa : mantissa);
    if (top == 0) return {0};
    exponent = static_cast<int16_t>(exponent + 15);
    if (top < 0x100) {
        top = static_cast<uint16_t>(top << 8);
        exponent = static_cast<int16_t>(exponent - 8);
    }
    const uint8_t bits = normalize(top);
    return Out::pack_top(top, static_cast<int16_t>(exponent - bits), mantissa < 0, false);
}

template <> struct IsSpecial<ShortReal> { static constexpr bool value = true; };

template <class Out, class Shift>
inline Out requantize(ShortReal x, Shift shift) {
    return pack_short<Out>(x.mantissa, static_cast<int16_t>(x.exponent - int(shift)));
}

template <class T, bool Element = IsElement<T>::value> struct IsSmall { static constexpr bool value = false; };
template <class T> struct IsSmall<T, true> { static constexpr bool value = T::is_small; };

template <class Out, class A, class B>
struct Working<Real, Out, A, B, typename EnableIf<IsSmall<Out>::value && IsSmall<A>::value && IsSmall<B>::value>::type> {
    using type = ShortReal;
};

}  // namespace hil

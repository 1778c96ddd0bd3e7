// Dot products of coded formats on the ATmega, whose multiplier takes bytes: an 8-bit code is a signed byte times
// 2^(digit * place), the product of two such bytes is added to the bin of its place. Bins are put together at the end.
#pragma once
#include "firmware/kernels/quire.hpp"

namespace hil {

// value = parts[code] * 2^(Digit * places[code]) in units of the granule
template <class Element, int Digit>
struct PlacesTable {
    int8_t parts[1 << Element::bits];
    uint8_t places[1 << Element::bits];

    constexpr PlacesTable() : parts(), places() {
        for (int code = 0; code < 1 << Element::bits; ++code) {
            const Real x = Element::decode(static_cast<typename Element::Code>(code));
            int32_t size = x.mantissa < 0 ? -x.mantissa : x.mantissa;
            int up = x.exponent - Element::granule;  // below 0: the mantissa ends in zeros
            for (; up < 0; ++up) size >>= 1;
            for (; up % Digit != 0; --up) size <<= 1;
            parts[code] = static_cast<int8_t>(x.mantissa < 0 ? -size : size);
            places[code] = static_cast<uint8_t>(size == 0 ? 0 : up / Digit);
        }
    }
};
template <class Element, int Digit>
struct Places {
    static const PlacesTable<Element, Digit> table;
};
template <class Element, int Digit>
const PlacesTable<Element, Digit> Places<Element, Digit>::table HIL_FLASH = PlacesTable<Element, Digit>();

template <class A, class B, int Bits, int Low, int Guard, bool Small = (IsElement<A>::value && IsElement<B>::value)>
struct BinUse {
    static constexpr bool small = A::bits <= 8 && B::bits <= 8 && A::mantissa_bits <= 7 && B::mantissa_bits <= 7;
    static constexpr int longest = A::mantissa_bits > B::mantissa_bits ? A::mantissa_bits : B::mantissa_bits;
    static constexpr int digit = longest < 4 ? 4 : longest > 7 ? 1 : 8 - longest;  // parts stay below 2^7, products 2^14
    static constexpr int up = A::granule + B::granule - Low;
    static constexpr int all = (A::top - A::granule - 1) / digit + (B::top - B::granule - 1) / digit + 1;
    // bins whose products never clip; with Guard = 0 the constants prove that none does
    static constexpr int safe = (Bits - 1 - Guard - 14 - up) / digit + 1;
    static constexpr int bins = Guard > 0 && safe < all ? safe : all;
    static constexpr bool value = small && up >= 0 && bins > 0 && bins <= 40;
};
template <class A, class B, int Bits, int Low, int Guard>
struct BinUse<A, B, Bits, Low, Guard, false> {
    static constexpr bool value = false;
};

template <int Bits, int Low, int Guard, class A, class B>
HIL_SHARED inline void accumulate_quire(Quire<Bits, Low, Guard> &sum, A a, B b, Size count, Const<0>) {
    for (Size i = 0; i < count; ++i) sum += Multiply<Quire<Bits, Low, Guard>>::of(a[i], b[i]);
}

template <int Bits, int Low, int Guard, class A, class B>
HIL_SHARED inline void accumulate_quire(Quire<Bits, Low, Guard> &sum, A a, B b, Size count, Const<1>) {
    using Sum = Quire<Bits, Low, Guard>;
    using Left = decltype(a[0]);
    using Right = decltype(b[0]);
    using Use = BinUse<Left, Right, Bits, Low, Guard>;
    const auto &left = Places<Left, Use::digit>::table;
    const auto &right = Places<Right, Use::digit>::table;
    while (count > 0) {
        uint16_t now = count < 256 ? count : 256;  // 256 products of 2^14 fit 24 bits
        count = static_cast<Size>(count - now);
        __int24 bins[Use::bins] = {};
        for (; now > 0; --now, a = a + 1, b = b + 1) {
            const Left x = a[0];
            const Right y = b[0];
            const uint8_t place = static_cast<uint8_t>(pgm_read_byte(left.places + x.code) + pgm_read_byte(right.places + y.code));
            const int8_t p = static_cast<int8_t>(pgm_read_byte(left.parts + x.code));
            const int8_t q = static_cast<int8_t>(pgm_read_byte(right.parts + y.code));
            if (Use::bins < Use::all && place >= Use::bins) sum += Multiply<Sum>::of(x, y);
            else bins[place] += static_cast<int16_t>(p) * q;
        }
        typename Sum::Whole whole = 0;
        for (uint8_t place = Use::bins; place-- > 0;) {
            whole = static_cast<typename Sum::Whole>(static_cast<typename Sum::Unsigned>(whole) << Use::digit) + bins[place];
        }
        sum.units += static_cast<typename Sum::Whole>(static_cast<typename Sum::Unsigned>(whole) << Use::up);
    }
}

template <int Bits, int Low, int Guard, class A, class B>
inline void accumulate(Quire<Bits, Low, Guard> &sum, A a, B b, Size count) {
    accumulate_quire(sum, a, b, count, Const<BinUse<decltype(a[0]), decltype(b[0]), Bits, Low, Guard>::value>());
}

}  // namespace hil

// Dot products of coded formats on the ATmega, whose multiplier takes bytes: an 8-bit code is a signed byte times
// 2^(digit * place), the product of two such bytes is added to the bin of its place. Bins are put together at the end.
#pragma once
#include "firmware/kernels/quire.hpp"

namespace hil {

// value = parts[code] * 2^(Digit * places[code]) in units of the granule
template <class Element, int Digit>
struct PlacesTable {
    int8_t parts[1 << Element::bits];
    uint8_t places[1 << Element::bits];  // as offsets of bins of three bytes

    constexpr PlacesTable() : parts(), places() {
        for (int code = 0; code < 1 << Element::bits; ++code) {
            const Real x = Element::decode(static_cast<typename Element::Code>(code));
            int32_t size = x.mantissa < 0 ? -x.mantissa : x.mantissa;
            int up = x.exponent - Element::granule;  // below 0: the mantissa ends in zeros
            for (; up < 0; ++up) size >>= 1;
            for (; up % Digit != 0; --up) size <<= 1;
            parts[code] = static_cast<int8_t>(x.mantissa < 0 ? -size : size);
            places[code] = static_cast<uint8_t>(size == 0 ? 0 : 3 * (up / Digit));
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
    static constexpr int digit = longest <= 4 ? 4 : longest <= 6 ? 2 : 1;  // parts stay below 2^7, products 2^14
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

// sum of bins[k] * 2^(Digit * k), byte by byte from the lowest
template <class Whole, int Digit, int Bins>
inline Whole total(const __int24 (&bins)[Bins]) {
    constexpr uint8_t together = 8 / Digit;
    union {
        Whole whole;
        uint8_t bytes[sizeof(Whole)];
    } sum;
    int32_t carry = 0;
    uint8_t bin = 0;
    for (uint8_t byte = 0; byte < sizeof(Whole); ++byte) {
        for (uint8_t k = 0; k < together && bin < Bins; ++k) carry += static_cast<int32_t>(bins[bin++]) * (1 << (Digit * k));
        sum.bytes[byte] = static_cast<uint8_t>(carry);
        carry >>= 8;
    }
    return sum.whole;
}

// Adds up to `count` products to their bins and stops after one whose place is `Limit` or more, which it leaves out.
// Returns how many are left, the one left out included; 0: all done.
template <int Limit, class Left, class Right, class A, class B>
inline uint8_t fill_bins(__int24 *bins, const Left &left, const Right &right, A &a, B &b, uint8_t count) {
    for (; count > 0; --count) {
        const auto x = a[0];
        const auto y = b[0];
        a = a + 1;
        b = b + 1;
        const uint8_t place = static_cast<uint8_t>(pgm_read_byte(left.places + x.code) + pgm_read_byte(right.places + y.code));
        if (Limit < 256 && place >= Limit) return count;
        const int8_t p = static_cast<int8_t>(pgm_read_byte(left.parts + x.code));
        const int8_t q = static_cast<int8_t>(pgm_read_byte(right.parts + y.code));
        *reinterpret_cast<__int24 *>(reinterpret_cast<uint8_t *>(bins) + place) += static_cast<int16_t>(p) * q;
    }
    return 0;
}

// The same for constants in flash: 57 cycles per product
template <int Limit, class Left, class Right, class T, class U>
inline uint8_t fill_bins(__int24 *bins, const Left &left, const Right &right, Flash<T> &a, Ram<U> &b, uint8_t count) {
    uint8_t p, q, place, sign, zero, low, middle;
    asm volatile("clr %[zero]\n"
                 "1:\n"
                 "movw r30, %[a]\n"
                 "lpm %[p], Z+\n"
                 "movw %[a], r30\n"
                 "movw r30, %[left]\n"
                 "add r30, %[p]\n"
                 "adc r31, %[zero]\n"
                 "lpm %[p], Z\n"
                 "subi r30, lo8(-(%[left_codes]))\n"
                 "sbci r31, hi8(-(%[left_codes]))\n"
                 "lpm %[place], Z\n"
                 "movw r26, %[b]\n"
                 "ld %[q], X+\n"
                 "movw %[b], r26\n"
                 "movw r30, %[right]\n"
                 "add r30, %[q]\n"
                 "adc r31, %[zero]\n"
                 "lpm %[q], Z\n"
                 "subi r30, lo8(-(%[right_codes]))\n"
                 "sbci r31, hi8(-(%[right_codes]))\n"
                 "lpm r0, Z\n"
                 "add %[place], r0\n"
                 ".if %[limit] < 256\n"
                 "cpi %[place], %[limit]\n"
                 "brsh 2f\n"
                 ".endif\n"
                 "muls %[p], %[q]\n"  // carry: the product is negative
                 "sbc %[sign], %[sign]\n"
                 "movw r26, %[bins]\n"
                 "add r26, %[place]\n"
                 "adc r27, %[zero]\n"
                 "ld %[low], X+\n"
                 "ld %[middle], X+\n"
                 "ld %[q], X\n"
                 "add %[low], r0\n"
                 "adc %[middle], r1\n"
                 "adc %[q], %[sign]\n"
                 "st X, %[q]\n"
                 "st -X, %[middle]\n"
                 "st -X, %[low]\n"
                 "dec %[count]\n"
                 "brne 1b\n"
                 "2:\n"
                 "clr r1\n"
                 : [a] "+r"(a.at), [b] "+r"(b.at), [count] "+r"(count), [p] "=&d"(p), [q] "=&d"(q), [place] "=&d"(place),
                   [sign] "=&r"(sign), [zero] "=&r"(zero), [low] "=&r"(low), [middle] "=&r"(middle)
                 : [left] "r"(left.parts), [right] "r"(right.parts), [bins] "r"(bins), [left_codes] "i"(sizeof left.parts),
                   [right_codes] "i"(sizeof right.parts), [limit] "i"(Limit)
                 : "r0", "r26", "r27", "r30", "r31", "memory");
    return count;
}

template <int Bits, int Low, int Guard, class A, class B>
HIL_SHARED inline void accumulate_quire(Quire<Bits, Low, Guard> &sum, A a, B b, Size count, Const<1>) {
    using Sum = Quire<Bits, Low, Guard>;
    using Whole = typename Sum::Whole;
    using Unsigned = typename Sum::Unsigned;
    using Use = BinUse<decltype(a[0]), decltype(b[0]), Bits, Low, Guard>;
    constexpr int limit = Use::bins < Use::all ? 3 * Use::bins : 256;
    while (count > 0) {
        uint8_t left = count < 255 ? static_cast<uint8_t>(count) : 255;  // 255 products of 2^14 fit 24 bits
        count = static_cast<Size>(count - left);
        __int24 bins[Use::bins] = {};
        while (left > 0) {
            left = fill_bins<limit>(bins, Places<decltype(a[0]), Use::digit>::table, Places<decltype(b[0]), Use::digit>::table,
                                    a, b, left);
            if (left == 0) break;
            sum += Multiply<Sum>::of((a + static_cast<Size>(-1))[0], (b + static_cast<Size>(-1))[0]);
            --left;
        }
        sum.units += static_cast<Whole>(static_cast<Unsigned>(total<Whole, Use::digit>(bins)) << Use::up);
    }
}

template <int Bits, int Low, int Guard, class A, class B>
inline void accumulate(Quire<Bits, Low, Guard> &sum, A a, B b, Size count) {
    accumulate_quire(sum, a, b, count, Const<BinUse<decltype(a[0]), decltype(b[0]), Bits, Low, Guard>::value>());
}

}  // namespace hil

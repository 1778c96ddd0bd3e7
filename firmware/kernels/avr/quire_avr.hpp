// Dot products of coded formats on the ATmega, whose multiplier takes bytes: an 8-bit code is a signed byte times
// 2^(digit * place), the product of two such bytes is added to the bin of its place. Bins are put together at the end.
#pragma once
#include "firmware/kernels/common/quire.hpp"
#include "firmware/kernels/avr/window_avr.hpp"

namespace hil {

// value = parts[code] * 2^(Digit * places[code]) in units of the granule
template <class Element, int Digit>
struct PlacesTable {
    int8_t parts[1 << Element::bits];
    uint8_t places[1 << Element::bits];  // as offsets of bins of three bytes

    constexpr PlacesTable() : PlacesTable(typename UpTo<(1 << Element::bits)>::type()) {}
    template <int... Codes>
    constexpr PlacesTable(Indices<Codes...>)
        : parts{part(decoded<Element>(Codes))...}, places{place(decoded<Element>(Codes))...} {}

private:
    static constexpr int up(Real x) { return x.exponent - Element::granule; }  // below 0: the mantissa ends in zeros
    static constexpr int32_t size(Real x) { return up(x) < 0 ? size_of(x) >> -up(x) : size_of(x) << up(x) % Digit; }
    static constexpr int8_t part(Real x) { return static_cast<int8_t>(x.mantissa < 0 ? -size(x) : size(x)); }
    static constexpr uint8_t place(Real x) { return static_cast<uint8_t>(size(x) == 0 || up(x) < 0 ? 0 : 3 * (up(x) / Digit)); }
};
template <class Element, int Digit>
struct Places {
    static const PlacesTable<Element, Digit> table;
};
template <class Element, int Digit>
const PlacesTable<Element, Digit> Places<Element, Digit>::table HIL_FLASH = PlacesTable<Element, Digit>();

template <class Element>
struct UnitsFitWord { static constexpr bool value = Element::bits <= 8 && Element::top - Element::granule <= 15; };

// Values in units of the granule, where they fit 16 bits
template <class Element>
struct WordUnitsTable {
    int16_t units[1 << Element::bits];

    constexpr WordUnitsTable() : WordUnitsTable(typename UpTo<(1 << Element::bits)>::type()) {}
    template <int... Codes>
    constexpr WordUnitsTable(Indices<Codes...>) : units{unit(decoded<Element>(Codes))...} {}

private:
    static constexpr int up(Real x) { return x.exponent - Element::granule; }  // below 0: the mantissa ends in zeros
    static constexpr int32_t size(Real x) { return up(x) < 0 ? size_of(x) >> -up(x) : size_of(x) << up(x); }
    static constexpr int16_t unit(Real x) { return static_cast<int16_t>(x.mantissa == 0 ? 0 : x.mantissa < 0 ? -size(x) : size(x)); }
};
template <class Element>
struct WordUnits {
    static const WordUnitsTable<Element> table;
};
template <class Element>
const WordUnitsTable<Element> WordUnits<Element>::table HIL_FLASH = WordUnitsTable<Element>();

// The same in a byte where they fit one
template <class Element, bool Byte = (Element::top - Element::granule <= 7)>
struct UnitOf {
    static int16_t at(uint8_t code) { return flash(WordUnits<Element>::table.units)[code]; }
};
template <class Element>
struct UnitOf<Element, true> {
    static int8_t at(uint8_t code) { return static_cast<int8_t>(pgm_read_byte(WordUnits<Element>::table.units + code)); }
};
template <int Phase, class Element>
inline auto next_factor(const Packed<Element> &, const uint8_t *&at, uint8_t &byte) -> decltype(UnitOf<Element>::at(0)) {
    return UnitOf<Element>::at(next_code<Element::bits, Phase>(at, byte));
}
template <class Element>
inline auto factor(Element x) -> decltype(UnitOf<Element>::at(0)) { return UnitOf<Element>::at(x.code); }

// How products are added up: 0 one by one, 1 in bins, 2 as whole units of 16 bits each
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
    static constexpr bool in_bins = small && up >= 0 && bins > 0 && bins <= 40;
    // Guard = 0: no sum of them overflows
    static constexpr bool in_words = UnitsFitWord<A>::value && UnitsFitWord<B>::value && up >= 0 && Bits == 32 && Guard == 0;
    static constexpr int value = in_words ? 2 : in_bins;
};
template <class A, class B, int Bits, int Low, int Guard>
struct BinUse<A, B, Bits, Low, Guard, false> {
    static constexpr int value = 0;
};

template <int Bits, int Low, int Guard, class A, class B>
HIL_SHARED inline void accumulate_quire(Quire<Bits, Low, Guard> &sum, A a, B b, Size count, Const<0>) {
    using Sum = Quire<Bits, Low, Guard>;
    constexpr int left = MantissaBits<decltype(a[0])>::value, right = MantissaBits<decltype(b[0])>::value;
    constexpr bool in_words = Bits == 64 && left < 16 && right < 16;
    for (Size i = 0; i < count; ++i) {
        if (!in_words) {
            sum += Multiply<Sum>::of(a[i], b[i]);
            continue;
        }
        const Real x(a[i]), y(b[i]);
        const int32_t product = static_cast<int32_t>(static_cast<int16_t>(x.mantissa)) * static_cast<int16_t>(y.mantissa);
        const int16_t exponent = static_cast<int16_t>(x.exponent + y.exponent), shift = static_cast<int16_t>(exponent - Low);
        if (product == 0) continue;
        if (shift >= 0 && shift <= (Guard > 0 ? Bits - 1 - Guard - left - right : 63)) {
            add_shifted(sum.units, product, static_cast<uint8_t>(shift));
        } else {
            sum += Sum(Sum::template cut_short<(in_words ? left + right : 30)>(product, exponent));
        }
    }
}

// The sum of bins[k] * 2^(Digit * k) over `K` bins from the first on; a bin is below 2^22, a sum below 2^30
template <int Digit, int K>
struct Together {
    static int32_t of(const __int24 *bins) { return (Together<Digit, K - 1>::of(bins + 1) << Digit) + bins[0]; }
};
template <int Digit>
struct Together<Digit, 1> {
    static int32_t of(const __int24 *bins) { return bins[0]; }
};

// sum of bins[k] * 2^(Digit * k), byte by byte from the lowest
template <class Whole, int Digit, int Bins>
inline Whole total(const __int24 (&bins)[Bins]) {
    constexpr uint8_t together = 8 / Digit, groups = Bins / together;
    static_assert(Bins % together == 0, "bins fill bytes");
    union {
        Whole whole;
        uint8_t bytes[sizeof(Whole)];
    } sum;
    int32_t carry = 0;
    const __int24 *bin = bins;
    for (uint8_t byte = 0; byte < sizeof(Whole); ++byte) {
        if (byte < groups) {
            carry += Together<Digit, together>::of(bin);
            bin += together;
        }
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
        __int24 bins[(Use::bins * Use::digit + 7) / 8 * 8 / Use::digit] = {};  // whole bytes of them
        while (left > 0) {
            left = fill_bins<limit>(bins, Places<decltype(a[0]), Use::digit>::table, Places<decltype(b[0]), Use::digit>::table,
                                    a, b, left);
            if (left == 0) break;
            sum += Multiply<Sum>::of((a + static_cast<Size>(-1))[0], (b + static_cast<Size>(-1))[0]);
            --left;
        }
        const Whole units = total<Whole, Use::digit>(bins);
        sum.units += Use::up == 0 ? units : static_cast<Whole>(static_cast<Unsigned>(units) << Use::up);
    }
}

template <class A, class B>
inline void add_words(int32_t &sum, A a, B b, Size count) {
    const auto left = flash(WordUnits<decltype(a[0])>::table.units);
    const auto right = flash(WordUnits<decltype(b[0])>::table.units);
    for (Size i = 0; i < count; ++i) sum += static_cast<int32_t>(left[a[i].code]) * right[b[i].code];
}

template <class T, class U>
inline void add_words(int32_t &sum, Packed<T> a, Ram<U> b, Size count) { accumulate_codes<T::bits>(sum, a.bytes, a, b.at, count); }

// The same for constants in flash: 58 cycles per product
template <class T, class U>
inline void add_words(int32_t &sum, Flash<T> a, Ram<U> b, Size count) {
    if (count == 0) return;
    uint8_t al, ah, bl, bh, p0, p1, p2, p3, zero;
    asm volatile("clr %[zero]\n"
                 "1:\n"
                 "movw r30, %[a]\n"
                 "lpm %[p0], Z+\n"
                 "movw %[a], r30\n"
                 "movw r30, %[left]\n"
                 "add r30, %[p0]\n"
                 "adc r31, %[zero]\n"
                 "add r30, %[p0]\n"
                 "adc r31, %[zero]\n"
                 "lpm %[al], Z+\n"
                 "lpm %[ah], Z\n"
                 "ld %[p0], X+\n"
                 "movw r30, %[right]\n"
                 "add r30, %[p0]\n"
                 "adc r31, %[zero]\n"
                 "add r30, %[p0]\n"
                 "adc r31, %[zero]\n"
                 "lpm %[bl], Z+\n"
                 "lpm %[bh], Z\n"
                 "muls %[ah], %[bh]\n"
                 "mov %[p2], r0\n"
                 "mov %[p3], r1\n"
                 "mul %[al], %[bl]\n"
                 "mov %[p0], r0\n"
                 "mov %[p1], r1\n"
                 "mulsu %[ah], %[bl]\n"
                 "sbc %[p3], %[zero]\n"
                 "add %[p1], r0\n"
                 "adc %[p2], r1\n"
                 "adc %[p3], %[zero]\n"
                 "mulsu %[bh], %[al]\n"
                 "sbc %[p3], %[zero]\n"
                 "add %[p1], r0\n"
                 "adc %[p2], r1\n"
                 "adc %[p3], %[zero]\n"
                 "add %A[sum], %[p0]\n"
                 "adc %B[sum], %[p1]\n"
                 "adc %C[sum], %[p2]\n"
                 "adc %D[sum], %[p3]\n"
                 "subi %A[count], 1\n"
                 "sbci %B[count], 0\n"
                 "brne 1b\n"
                 "clr r1\n"
                 : [sum] "+r"(sum), [count] "+d"(count), [a] "+r"(a.at), "+x"(b.at), [al] "=&a"(al), [ah] "=&a"(ah),
                   [bl] "=&a"(bl), [bh] "=&a"(bh), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3),
                   [zero] "=&r"(zero)
                 : [left] "r"(WordUnits<T>::table.units), [right] "r"(WordUnits<U>::table.units)
                 : "r0", "r30", "r31", "memory");
}

template <int Bits, int Low, int Guard, class A, class B>
HIL_SHARED inline void accumulate_quire(Quire<Bits, Low, Guard> &sum, A a, B b, Size count, Const<2>) {
    int32_t units = 0;
    add_words(units, a, b, count);
    using Use = BinUse<decltype(a[0]), decltype(b[0]), Bits, Low, Guard>;
    sum.units += static_cast<int32_t>(static_cast<uint32_t>(units) << Use::up);
}

template <class Out, int Bits, int Low, int Guard, class Shift>
inline typename EnableIf<IsSmall<Out>::value, Out>::type requantize(Quire<Bits, Low, Guard> sum, Shift shift) {
    return pack_bytes<Out>(reinterpret_cast<uint8_t *>(&sum.units), sizeof sum.units, static_cast<int16_t>(Low - int(shift)));
}

template <int Bits, int Low, int Guard, class A, class B>
inline void accumulate(Quire<Bits, Low, Guard> &sum, A a, B b, Size count) {
    accumulate_quire(sum, a, b, count, Const<BinUse<decltype(a[0]), decltype(b[0]), Bits, Low, Guard>::value>());
}

}  // namespace hil

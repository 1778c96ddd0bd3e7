// Dot products of coded formats for chips with wide multiplications. Codes decode by a table to whole units; where the
// window reaches down to products of those units none needs a cut: one multiply-accumulate each.
#pragma once
#include "firmware/kernels/common/quire.hpp"

namespace hil {

// The entry of codes whose value takes too many bits: posits far from 1, which the general product serves.
constexpr int32_t no_units = -2147483647 - 1;

// Values of an element in units of its granule: all of them if they fit 32 bits, else those below 2^26.
template <class Element>
struct UnitsTable {
    static constexpr bool complete = Element::top - Element::granule <= 31;
    int32_t units[1 << Element::bits];

    constexpr UnitsTable() : UnitsTable(typename UpTo<(1 << Element::bits)>::type()) {}
    template <int... Codes>
    constexpr UnitsTable(Indices<Codes...>)
        : units{unit(decoded<Element>(Codes), decoded<Element>(Codes).exponent - Element::granule)...} {}

private:
    static constexpr int most = complete ? 31 : 26;
    // `up` below 0: the mantissa ends in zeros
    static constexpr int32_t unit(Real x, int up) {
        return x.mantissa == 0 ? 0
            : up < 0           ? (size_of(x) >> -up) * (x.mantissa < 0 ? -1 : 1)
            : up < most && size_of(x) <= static_cast<int32_t>(((uint32_t(1) << most) - 1) >> up) ? x.mantissa * (int32_t(1) << up)
                                                                                                 : no_units;
    }
};
template <class Element>
struct Units {
    static const UnitsTable<Element> table;
    static constexpr bool complete = UnitsTable<Element>::complete;
    static constexpr bool skips_zero = false;
    static constexpr int unit = Element::granule, bits = complete ? 31 : 26;
    static int32_t at(Element x) { return table.units[x.code]; }
};
template <class Element>
const UnitsTable<Element> Units<Element>::table HIL_FLASH = UnitsTable<Element>();

// Between two powers of two the value of a posit is linear in its code, negative ones included. The highest 8 bits of a
// code tell where; short regimes only (2^lowest to 8), in units of the finest posit there: value = code * 2^up + offset.
template <int Bits, int Es>
struct BinadesTable {
    static constexpr int room = 6 - Es;  // bits of the regime before the one that ends it
    static constexpr int most = (10 >> Es) > 1 ? (10 >> Es) : 1, run = most < room ? most : room;
    static constexpr int lowest = -run * (1 << Es), unit = lowest - (Bits - 2 - run - Es);
    int32_t offsets[256];
    uint8_t ups[256];

    constexpr BinadesTable() : BinadesTable(typename UpTo<256>::type()) {}
    template <int... High>
    constexpr BinadesTable(Indices<High...>) : offsets{offset(first(High))...}, ups{up(inside(first(High)))...} {}

private:
    // The first code whose highest byte is `high`, and one of that byte whose magnitude is not at the edge
    static constexpr int32_t first(int high) { return (high < 128 ? high : high - 256) * (int32_t(1) << (Bits - 8)); }
    static constexpr int32_t inside(int32_t code) { return code < 0 ? -code - 1 : code; }
    static constexpr Real value(int32_t code) { return decoded<Posit<Bits, Es>>(static_cast<int>(code)); }
    // 2^power <= x < 2^(power + 1)
    static constexpr int power(Real x) { return x.mantissa > 1 ? 1 + power(Real(x.mantissa >> 1, x.exponent)) : x.exponent; }
    static constexpr int length(int regime) { return regime >= 0 ? regime + 1 : -regime; }
    static constexpr bool serves(Real x) {
        return x.mantissa != 0 && power(x) >= lowest && power(x) <= 2 && length(power(x) >> Es) <= room;
    }
    // Bits of the fraction: a step is 2^(power - fraction)
    static constexpr int fraction(int32_t code) { return Bits - 2 - length(power(value(code)) >> Es) - Es; }
    static constexpr uint8_t up(int32_t code) {
        return serves(value(code)) ? static_cast<uint8_t>(power(value(code)) - fraction(code) - unit) : 0;
    }
    static constexpr int32_t positive_offset(int32_t code) {
        return (int32_t(1) << (power(value(code)) - unit)) - ((code >> fraction(code)) << fraction(code)) * (int32_t(1) << up(code));
    }
    static constexpr int32_t offset(int32_t code) {
        return !serves(value(inside(code))) ? no_units : code < 0 ? -positive_offset(inside(code)) : positive_offset(inside(code));
    }
};

template <int Bits, int Es>
struct Binades {
    static const BinadesTable<Bits, Es> table;
    static constexpr bool complete = false, skips_zero = true;  // 0 lies in a long regime
    static constexpr int unit = BinadesTable<Bits, Es>::unit, bits = 3 - unit;
    static int32_t at(Posit<Bits, Es> x) {
        const int32_t code = static_cast<int32_t>(static_cast<uint32_t>(x.code) << (32 - Bits)) >> (32 - Bits);
        const uint8_t high = static_cast<uint8_t>(code >> (Bits - 8));
        const int32_t offset = table.offsets[high];
        return offset == no_units ? no_units : static_cast<int32_t>(static_cast<uint32_t>(code) << table.ups[high]) + offset;
    }
};
template <int Bits, int Es>
const BinadesTable<Bits, Es> Binades<Bits, Es>::table HIL_FLASH = BinadesTable<Bits, Es>();

struct NoUnits {
    static constexpr bool complete = false, skips_zero = false;
    static constexpr int unit = -1000, bits = 64;  // finer than any window
};
template <class Element, bool Small = Element::bits <= 8>
struct UnitsOf {
    using type = NoUnits;
};
template <class Element>
struct UnitsOf<Element, true> {
    using type = Units<Element>;
};
template <int Bits, int Es>
struct UnitsOf<Posit<Bits, Es>, false> {
    using type = Binades<Bits, Es>;
};
template <int Es>
struct UnitsOf<Posit<32, Es>, false> {
    using type = NoUnits;
};

// 2: complete tables in a window that is proven; 1: tables with holes, whose products never clip; 0: every product by
// itself. Products in whole units need no cut if the window reaches down to them.
template <class A, class B, int Low, int Guard>
struct TableUse {
    using Left = typename UnitsOf<A>::type;
    using Right = typename UnitsOf<B>::type;
    static constexpr int up = Left::unit + Right::unit - Low;
    static constexpr bool complete = Left::complete && Right::complete;
    static constexpr bool clips = Guard > 0 && Left::bits + Right::bits + up > 63 - Guard;
    using type = Const < up<0 ? 0 : complete && Guard == 0 ? 2 : !clips ? 1 : 0>;
};

// sums[r] += sum_i rows[r][i] * x[i]
template <int Bits, int Low, int Guard, int Rows, class W, class X>
inline void quire_rows(Quire<Bits, Low, Guard> (&sums)[Rows], const W (&rows)[Rows], X x, Size count, Const<0>) {
    using Product = Multiply<Quire<Bits, Low, Guard>>;
    constexpr int most = MantissaBits<decltype(rows[0][0])>::value + MantissaBits<decltype(x[0])>::value;
    for (Size i = 0; i < count; ++i) {
        const Real factor(x[i]);
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) sums[r] += Product::template decoded<most>(Real(rows[r][i]), factor);
    }
}

// One element of x for all rows, out of the way of the loop's registers
template <int Bits, int Low, int Guard, int Rows, class W, class X>
__attribute__((noinline, cold)) void add_column(Quire<Bits, Low, Guard> (&sums)[Rows], const W (&rows)[Rows], X x, Size i) {
    for (int r = 0; r < Rows; ++r) sums[r] += Multiply<Quire<Bits, Low, Guard>>::of(rows[r][i], x[i]);
}

template <int Bits, int Low, int Guard, int Rows, class W, class X>
inline void quire_rows(Quire<Bits, Low, Guard> (&sums)[Rows], const W (&rows)[Rows], X x, Size count, Const<1>) {
    using Sum = Quire<Bits, Low, Guard>;
    using A = decltype(rows[0][0]);
    using B = decltype(x[0]);
    using Left = typename UnitsOf<A>::type;
    using Right = typename UnitsOf<B>::type;
    const W first = rows[0], second = rows[Rows > 1], third = rows[Rows > 2 ? 2 : 0], fourth = rows[Rows > 3 ? 3 : 0];
    int64_t whole[4] = {};
    for (Size i = 0; i < count; ++i) {
        if (Right::skips_zero && x[i].code == 0) continue;
        const int32_t factor = Right::at(x[i]), p = Left::at(first[i]), q = Left::at(second[i]);
        const int32_t s = Rows > 2 ? Left::at(third[i]) : 0, t = Rows > 3 ? Left::at(fourth[i]) : 0;
        if (__builtin_expect(factor == no_units || p == no_units || q == no_units || s == no_units || t == no_units, 0)) {
            add_column(sums, rows, x, i);
            continue;
        }
        whole[0] += static_cast<int64_t>(p) * factor;
        if (Rows > 1) whole[1] += static_cast<int64_t>(q) * factor;
        if (Rows > 2) whole[2] += static_cast<int64_t>(s) * factor;
        if (Rows > 3) whole[3] += static_cast<int64_t>(t) * factor;
    }
    using Unsigned = typename Sum::Unsigned;
    for (int r = 0; r < Rows; ++r) {
        sums[r].units += static_cast<typename Sum::Whole>(static_cast<Unsigned>(whole[r]) << (Left::unit + Right::unit - Low));
    }
}

template <int Bits, int Low, int Guard, int Rows, class W, class X>
inline void quire_rows(Quire<Bits, Low, Guard> (&sums)[Rows], const W (&rows)[Rows], X x, Size count, Const<2>) {
    using Sum = Quire<Bits, Low, Guard>;
    using Whole = typename Sum::Whole;
    using A = decltype(rows[0][0]);
    using B = decltype(x[0]);
    const int32_t *const left = Units<A>::table.units, *const right = Units<B>::table.units;
    Whole whole[Rows] = {};
    for (Size i = 0; i < count; ++i) {
        const Whole factor = right[x[i].code];
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) whole[r] += left[rows[r][i].code] * factor;
    }
    using Unsigned = typename Sum::Unsigned;
    for (int r = 0; r < Rows; ++r) {
        sums[r].units += static_cast<Whole>(static_cast<Unsigned>(whole[r]) << (A::granule + B::granule - Low));
    }
}

// Operands that are no elements (fixed point beside posits) have no tables.
template <class A, class B, int Low, int Guard, bool Elements = IsElement<A>::value && IsElement<B>::value>
struct RowsUse {
    using type = typename TableUse<A, B, Low, Guard>::type;
};
template <class A, class B, int Low, int Guard>
struct RowsUse<A, B, Low, Guard, false> {
    using type = Const<0>;
};

template <int Bits, int Low, int Guard, int Rows, class W, class X>
inline void quire_rows(Quire<Bits, Low, Guard> (&sums)[Rows], const W (&rows)[Rows], X x, Size count) {
    quire_rows(sums, rows, x, count, typename RowsUse<decltype(rows[0][0]), decltype(x[0]), Low, Guard>::type());
}

template <int Bits, int Low, int Guard, class A, class B>
inline void accumulate(Quire<Bits, Low, Guard> &sum, A a, B b, Size count) {
    Quire<Bits, Low, Guard> sums[1] = {sum};
    const A rows[1] = {a};
    quire_rows(sums, rows, b, count);
    sum = sums[0];
}

template <int Bits, int Low, int Guard, class W, class X>
inline void accumulate_rows(Quire<Bits, Low, Guard> (&sums)[2], W weights, X x, Size count) {
    const W rows[2] = {weights, weights + count};
    quire_rows(sums, rows, x, count);
}
template <int Bits, int Low, int Guard, class W, class X>
inline void accumulate_rows(Quire<Bits, Low, Guard> (&sums)[4], W weights, X x, Size count) {
    const W rows[4] = {weights, weights + count, weights + 2 * count, weights + 3 * count};
    quire_rows(sums, rows, x, count);
}

}  // namespace hil

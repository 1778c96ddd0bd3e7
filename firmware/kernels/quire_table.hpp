// Dot products of coded formats for chips with wide multiplications. Codes of 8 bits decode by a table to whole units of
// their format's granule; where the window is exact for both formats no product needs a cut: one multiply-accumulate each.
#pragma once
#include "firmware/kernels/quire.hpp"

namespace hil {

// The entry of codes whose value takes too many bits: posits far from 1, which the general product serves.
constexpr int32_t no_units = -2147483647 - 1;

// Values of an element in units of its granule: all of them if they fit 32 bits, else those below 2^26.
template <class Element>
struct UnitsTable {
    static constexpr bool complete = Element::top - Element::granule <= 31;
    int32_t units[1 << Element::bits];

    constexpr UnitsTable() : units() {
        const int most = complete ? 31 : 26;
        for (int code = 0; code < 1 << Element::bits; ++code) {
            const Real x = Element::decode(static_cast<typename Element::Code>(code));
            const uint32_t size = static_cast<uint32_t>(x.mantissa < 0 ? -x.mantissa : x.mantissa);
            const int up = x.exponent - Element::granule;  // below 0: the mantissa ends in zeros
            const uint32_t limit = (uint32_t(1) << most) - 1;
            const bool fits = size == 0 || up <= 0 || (up < most && size <= limit >> up);
            const uint32_t whole = size == 0 || !fits ? 0 : up < 0 ? size >> -up : size << up;
            units[code] = fits ? static_cast<int32_t>(whole) * (x.mantissa < 0 ? -1 : 1) : no_units;
        }
    }
};
template <class Element>
struct Units {
    static const UnitsTable<Element> table;
};
template <class Element>
const UnitsTable<Element> Units<Element>::table HIL_FLASH = UnitsTable<Element>();

// 2: complete tables in a window that is proven; 1: tables with holes, whose products are below 2^52 units and never
// clip; 0: every product by itself.
template <class A, class B, int Low, int Guard, bool Small = (A::bits <= 8 && B::bits <= 8 && Low <= A::granule + B::granule)>
struct TableUse {
    static constexpr bool complete = UnitsTable<A>::complete && UnitsTable<B>::complete;
    static constexpr int up = A::granule + B::granule - Low;
    using type = Const<complete && Guard == 0 ? 2 : !complete && (Guard == 0 || Guard + up <= 11) ? 1 : 0>;
};
template <class A, class B, int Low, int Guard>
struct TableUse<A, B, Low, Guard, false> {
    using type = Const<0>;
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
    const int32_t *const left = Units<A>::table.units, *const right = Units<B>::table.units;
    const W first = rows[0], second = rows[Rows > 1], third = rows[Rows > 2 ? 2 : 0], fourth = rows[Rows > 3 ? 3 : 0];
    int64_t whole[4] = {};
    for (Size i = 0; i < count; ++i) {
        const int32_t factor = right[x[i].code], p = left[first[i].code], q = left[second[i].code];
        const int32_t s = Rows > 2 ? left[third[i].code] : 0, t = Rows > 3 ? left[fourth[i].code] : 0;
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
        sums[r].units += static_cast<typename Sum::Whole>(static_cast<Unsigned>(whole[r]) << (A::granule + B::granule - Low));
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
struct RowsUse { using type = typename TableUse<A, B, Low, Guard>::type; };
template <class A, class B, int Low, int Guard>
struct RowsUse<A, B, Low, Guard, false> { using type = Const<0>; };

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

// Exact dot products of coded formats: an integer window of Bits bits whose lowest weighs 2^Low (tinyhil/formats/window.py
// computes both). Each product is cut to floor(product / 2^Low). Guard = 0: the constants prove that no sum overflows.
// Guard > 0: products saturate at +-(2^(Bits - 1 - Guard) - 1) and are counted; 2^Guard of them cannot overflow the sum.
#pragma once
#include "firmware/kernels/minifloat.hpp"
#include "firmware/kernels/posit.hpp"
#include "firmware/kernels/single.hpp"

namespace hil {

template <int Bits> struct WindowInteger { using type = int64_t; };
template <> struct WindowInteger<32> { using type = int32_t; };

template <int Bits, int Low, int Guard = 0>
struct Quire {
    using Whole = typename WindowInteger<Bits>::type;
    static constexpr Whole limit = static_cast<Whole>((uint64_t(1) << (Bits - 1 - Guard)) - 1);
    Whole units;

    Quire() : units(0) {}
    explicit Quire(Whole u) : units(u) {}

    HIL_SHARED static Whole cut(int64_t product, int16_t exponent) {
        const int16_t shift = static_cast<int16_t>(exponent - Low);
        if (shift <= 0) {
            const int64_t floored = shift > -63 ? product >> -shift : product < 0 ? -1 : 0;
            return Guard > 0 ? clipped(floored) : static_cast<Whole>(floored);
        }
        if (Guard > 0 && (shift >= Bits - 1 - Guard || product > (int64_t(limit) >> shift) || product < -(int64_t(limit) >> shift))) {
            if (product == 0) return 0;
            ++saturations;
            return product < 0 ? -limit : limit;
        }
        return static_cast<Whole>(static_cast<uint64_t>(product) << shift);
    }
    static Whole clipped(int64_t x) {
        if (x >= -int64_t(limit) && x <= int64_t(limit)) return static_cast<Whole>(x);
        ++saturations;
        return x < 0 ? -limit : limit;
    }

    Quire &operator+=(Quire other) {
        units += other.units;
        return *this;
    }
};

template <int Bits, int Low, int Guard> struct IsSpecial<Quire<Bits, Low, Guard>> { static constexpr bool value = true; };

template <int Bits, int Low, int Guard>
inline Parts parts(Quire<Bits, Low, Guard> x) { return parts_of(x.units < 0, magnitude_of(x.units), Low); }

template <int Bits, int Low, int Guard>
struct Multiply<Quire<Bits, Low, Guard>> {
    using Sum = Quire<Bits, Low, Guard>;
    template <class A, class B>
    static Sum of(A a, B b) {
        const Real x(a), y(b);
        return Sum(Sum::cut(static_cast<int64_t>(x.mantissa) * y.mantissa, static_cast<int16_t>(x.exponent + y.exponent)));
    }
};

template <int Bits, int Low, int Guard>
struct Start<Quire<Bits, Low, Guard>> {
    using Sum = Quire<Bits, Low, Guard>;
    template <class Bias, class Shift>
    static Sum of(Bias bias, Shift shift) {
        const Real x(bias);
        return Sum(Sum::cut(x.mantissa, static_cast<int16_t>(x.exponent + int(shift))));
    }
};

template <int Bits, int Low, int Guard, class A, class B>
inline void accumulate(Quire<Bits, Low, Guard> &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += Multiply<Quire<Bits, Low, Guard>>::of(a[i], b[i]);
}

#ifndef __AVR__
template <int Bits, int Low, int Guard, int Rows, class W, class X>
inline void accumulate_quires(Quire<Bits, Low, Guard> (&sums)[Rows], W weights, X x, Size count) {
    using Sum = Quire<Bits, Low, Guard>;
    for (Size i = 0; i < count; ++i) {
        const Real factor(x[i]);
        for (Size row = 0; row < Rows; ++row) sums[row] += Multiply<Sum>::of(weights[row * count + i], factor);
    }
}
template <int Bits, int Low, int Guard, class W, class X>
inline void accumulate_rows(Quire<Bits, Low, Guard> (&sums)[2], W weights, X x, Size count) {
    accumulate_quires(sums, weights, x, count);
}
template <int Bits, int Low, int Guard, class W, class X>
inline void accumulate_rows(Quire<Bits, Low, Guard> (&sums)[4], W weights, X x, Size count) {
    accumulate_quires(sums, weights, x, count);
}
#endif

template <class A, class B>
inline void accumulate(float &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
}

}  // namespace hil

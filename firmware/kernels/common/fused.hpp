// Operators that fusion makes (tinyhil/ops/distance.py, sparse.py).
#pragma once
#include "firmware/kernels/common/dense.hpp"
#include "firmware/kernels/common/quire.hpp"

namespace hil {

template <class Acc, class Product>
inline void add_product(Acc &sum, Product product) {
    sum += product;
}
#ifdef __AVR__
inline void add_product(Acc40 &sum, int32_t product) { sum.add(product); }
inline void add_product(Acc48 &sum, int32_t product) { sum.add(product); }
#endif

// Narrow multiplications, for which an AVR has instructions.
template <class A, class B>
inline int32_t product(A a, B b) {
    return static_cast<int32_t>(static_cast<int16_t>(a)) * static_cast<int16_t>(b);
}
inline int16_t product(int8_t a, int8_t b) { return static_cast<int16_t>(static_cast<int16_t>(a) * static_cast<int16_t>(b)); }

// (a - b)^2: integers round the difference to 16 bits
template <class Acc>
struct SquaredDifference {
    template <class A, class B, class L, class R, class Drop>
    __attribute__((always_inline)) static inline int32_t of(A a, B b, L a_shift, R b_shift, Drop drop) {
        const int32_t left = static_cast<int32_t>(a) * (int32_t(1) << int(a_shift));
        const int32_t right = static_cast<int32_t>(b) * (int32_t(1) << int(b_shift));
        const int16_t difference = requantize<int16_t>(static_cast<int32_t>(left - right), drop);
        return product(difference, difference);
    }
};

template <>
struct SquaredDifference<float> {
    template <class A, class B, class L, class R, class Drop>
    static float of(A a, B b, L a_shift, R b_shift, Drop) {
        const float difference = scaled(static_cast<float>(a), a_shift) - scaled(static_cast<float>(b), b_shift);
        return difference * difference;
    }
};

// Coded: 24 bits of the difference, or 30 where an operand has 32, rounded to odd
template <int Bits, int Low, int Guard>
struct SquaredDifference<Quire<Bits, Low, Guard>> {
    using Sum = Quire<Bits, Low, Guard>;

    template <class A, class B, class L, class R, class Drop>
    static Sum of(A a, B b, L a_shift, R b_shift, Drop) {
        constexpr bool is_long = MantissaBits<A>::value > 16 || MantissaBits<B>::value > 16;
        constexpr int longest = MantissaBits<A>::value > MantissaBits<B>::value ? MantissaBits<A>::value : MantissaBits<B>::value;
        constexpr int reach = longest <= 8 ? 14 - longest : -1;  // so far apart 16 bits hold the difference
        using Number = RealOf<typename WindowInteger<(is_long ? 64 : 32)>::type>;
        const Number x = scaled(Number(a), a_shift), y = scaled(Number(b), b_shift);
        const int16_t apart = static_cast<int16_t>(x.exponent - y.exponent);
        if (reach >= 0 && apart <= reach && apart >= -reach) {
            const int16_t left = static_cast<int16_t>(static_cast<int16_t>(x.mantissa) * (1 << (apart > 0 ? apart : 0)));
            const int16_t right = static_cast<int16_t>(static_cast<int16_t>(y.mantissa) * (1 << (apart < 0 ? -apart : 0)));
            const int16_t difference = static_cast<int16_t>(left - right), low = apart > 0 ? y.exponent : x.exponent;
            const int32_t exact = static_cast<int32_t>(difference) * difference;
            return Sum(Sum::template cut_short<30>(exact, static_cast<int16_t>(2 * low)));
        }
        return square(x - y, Const<(is_long ? 30 : 24)>());
    }

private:
    template <class Mantissa, int Significant>
    HIL_SHARED static Sum square(RealOf<Mantissa> difference, Const<Significant>) {
        int16_t drop = 0;
        for (auto more = magnitude_of(difference.mantissa) >> Significant; more != 0; more >>= 1) ++drop;
        const bool lost = (difference.mantissa & ((Mantissa(1) << drop) - 1)) != 0;
        const int32_t significand = static_cast<int32_t>(difference.mantissa >> drop) | static_cast<int32_t>(lost);
        const int16_t exponent = static_cast<int16_t>(difference.exponent + drop);
        if (Significant == 24 && (significand & 0x1FF) == 0) {  // the last of the 24 bits are zeros: 16 bits hold the others
            const int16_t few = static_cast<int16_t>(significand >> 9);
            return Sum(Sum::template cut_short<31>(static_cast<int32_t>(few) * few, static_cast<int16_t>(2 * (exponent + 9))));
        }
        return Sum(Sum::cut(static_cast<int64_t>(significand) * significand, static_cast<int16_t>(2 * exponent)));
    }
};

template <class Acc, class A, class B, class L, class R, class Drop>
inline void add_squares(Acc &sum, A a, B b, Size count, L a_shift, R b_shift, Drop drop) {
    for (Size k = 0; k < count; ++k) add_product(sum, SquaredDifference<Acc>::of(a[k], b[k], a_shift, b_shift, drop));
}

// Products of a stream of steps and weights, which moves on
template <class Acc>
inline void add_stream(Acc &sum, Flash<uint8_t> &stream, Ram<int8_t> x, uint8_t count) {
    for (; count > 0; --count, stream = stream + 2) {
        x = x + stream[0];
        add_product(sum, product(static_cast<int8_t>(stream[1]), x[0]));
    }
}
template <class Acc>
inline void add_stream(Acc &sum, Flash<uint8_t> &stream, Ram<int16_t> x, uint8_t count) {
    for (; count > 0; --count, stream = stream + 3) {
        x = x + stream[0];
        add_product(sum, product(static_cast<int16_t>(stream[1] | stream[2] << 8), x[0]));
    }
}

}  // namespace hil
#ifdef __AVR__
#include "firmware/kernels/avr/fused_avr.hpp"
#endif
namespace hil {

// out[r] = sum_k (a[r][k] - b[r][k])^2; a step of 0 uses the same row for all results
template <class Acc, class Out, class A, class B, class L, class R, class Drop, class Shift>
void squared_distance(Out *out, A a, B b, Size rows, Size inner, Size a_step, Size b_step, L a_shift, R b_shift, Drop drop, Shift shift) {
    for (; rows > 0; --rows, a = a + a_step, b = b + b_step) {
        Acc sum = Acc(0);
        add_squares(sum, a, b, inner, a_shift, b_shift, drop);
        *out++ = requantize<Out>(sum, shift);
    }
}

template <class Acc, class Out, class Table, class W, class X, class B, class Shift, class BiasShift>
void sparse_dense_bias(Out *out, Table lists, W weights, X x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                       BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner) {
        Table list = lists;
        W factors = weights;
        for (Size n = 0; n < outputs; ++n) {
            Acc sum = Start<Acc>::of(bias[n], bias_shift);
            Size count = list[0];
            list = list + 1;
            for (; count > 0; --count, list = list + 1, factors = factors + 1) { add_product(sum, product(factors[0], x[list[0]])); }
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

template <class Acc, class Out, class Table, class W, class X, class Shift>
void sparse_dense(Out *out, Table lists, W weights, X x, Size rows, Size outputs, Size inner, Shift shift) {
    sparse_dense_bias<Acc>(out, lists, weights, x, NoBias(), rows, outputs, inner, shift, Const<0>());
}

// The same from one stream of bytes: per output a count, then steps to the next column and weights, as wide as x, in turn
template <class Acc, class Out, class X, class B, class Shift, class BiasShift>
void stream_dense_bias(Out *out, Flash<uint8_t> stream, X x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                       BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner) {
        Flash<uint8_t> at = stream;
        for (Size n = 0; n < outputs; ++n) {
            Acc sum = Start<Acc>::of(bias[n], bias_shift);
            const uint8_t count = at[0];
            at = at + 1;
            add_stream(sum, at, x, count);
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

template <class Acc, class Out, class X, class Shift>
void stream_dense(Out *out, Flash<uint8_t> stream, X x, Size rows, Size outputs, Size inner, Shift shift) {
    stream_dense_bias<Acc>(out, stream, x, NoBias(), rows, outputs, inner, shift, Const<0>());
}

}  // namespace hil

// Matrix products (tinyhil/ops/linear.py).
#pragma once
#include "firmware/kernels/common/dot.hpp"

namespace hil {

// The bias of a product that has none.
struct NoBias {
    int8_t operator[](Size) const { return 0; }
};
struct NoChannelBias : NoBias {
    NoChannelBias operator+(Size) const { return *this; }
};

// Where the sum of output n starts, and the biases of one row or pixel: what joins the sum besides the products. Some
// biases differ from pixel to pixel (residual.hpp).
template <class Acc, class B, class Shift>
inline Acc start_of(const B &bias, Size n, Shift shift) {
    return Start<Acc>::of(bias[n], shift);
}
template <class B>
inline const B &at_pixel(const B &bias, Size) {
    return bias;
}
// The same for results in planes, or with channels innermost
template <bool Innermost, class B>
inline const B &laid_out(const B &bias) {
    return bias;
}
template <class B>
struct VariesByPixel {
    static constexpr bool value = false;
};
template <class B>
inline void next_row(B &, Size) {}

// out[r][n] = sum_k weights[n][k] * x[r][k] + bias[n] * 2^bias_shift, all inside the exact sum
template <class Acc, class Out, class W, class X, class B, class Shift, class BiasShift>
void dense_bias(Out *out, W weights, X x, B bias, Size rows, Size outputs, Size inner, Shift shift, BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner, next_row(bias, outputs)) {
        const auto start = [&](Size n) { return start_of<Acc>(bias, n, bias_shift); };
        W row = weights;
        Size n = 0;
#ifndef __AVR__
        constexpr Size together = sizeof(Acc) == 4 ? 4 : 2;
        for (; n + together <= outputs; n += together, row = row + together * inner) {
            Acc sums[together];
            for (Size i = 0; i < together; ++i) sums[i] = start(n + i);
            accumulate_rows(sums, row, x, inner);
            for (Size i = 0; i < together; ++i) *out++ = requantize<Out>(sums[i], of_channel(shift, n + i));
        }
        const Size end = n + outputs % together;  // `outputs`, but compilers do not see that, and warn of 2^32 rounds
#else
        const Size end = outputs;
#endif
        for (; n < end; ++n, row = row + inner) {
            Acc sum = start(n);
#ifdef __AVR__
            if (IsApart<Acc, Shift, W, X>::value) accumulate_called(sum, row, x, inner);
            else
#endif
                accumulate(sum, row, x, inner);
            *out++ = requantize<Out>(sum, of_channel(shift, n));
        }
    }
}

#ifdef __AVR__
}  // namespace hil
#include "firmware/kernels/avr/dense_avr.hpp"
namespace hil {

template <class Acc, class Out, Size Step, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Blocks<int8_t, 4, Step> weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner, out += outputs, next_row(bias, outputs)) {
        rows_of_blocks<Acc, Step>(out, 1, flash(weights.at), x, bias, outputs, inner, shift, bias_shift);
    }
}
template <class Acc, class Out, int By, Size Step, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Blocks<Raised<By>, 4, Step> weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner, out += outputs) {
        const auto start = raised_start<By>(bias, x, inner);
        rows_of_blocks<Acc, Step>(out, 1, flash(&weights.at->code), x, start, outputs, inner, shift, bias_shift);
    }
}
#endif

// out[r][n] = sum_k weights[n][k] * x[r][k]
template <class Acc, class Out, class W, class X, class Shift>
void dense(Out *out, W weights, X x, Size rows, Size outputs, Size inner, Shift shift) {
    dense_bias<Acc>(out, weights, x, NoBias(), rows, outputs, inner, shift, Const<0>());
}

// out[r][c] = sum_k a[r][k] * b[k][c], both computed at run time
template <class Acc, class Out, class A, class B, class Shift>
void matmul(Out *out, A a, B b, Size rows, Size inner, Size columns, Shift shift) {
    for (; rows > 0; --rows, a = a + inner) {
        for (Size c = 0; c < columns; ++c) {
            Acc sum = Acc(0);
            for (Size k = 0; k < inner; ++k) sum += Multiply<Acc>::of(a[k], b[k * columns + c]);
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

}  // namespace hil

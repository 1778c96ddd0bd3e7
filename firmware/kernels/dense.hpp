// Matrix products (tinyhil/ops/linear.py).
#pragma once
#include "firmware/kernels/dot.hpp"

namespace hil {

// out[r][n] = sum_k weights[n][k] * x[r][k]
template <class Acc, class Out, class W, class X, class Shift>
void dense(Out *out, W weights, X x, Size rows, Size outputs, Size inner, Shift shift) {
    for (; rows > 0; --rows, x = x + inner) {
        W row = weights;
        for (Size n = 0; n < outputs; ++n, row = row + inner) {
            Acc sum(0);
            accumulate(sum, row, x, inner);
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

// out[r][n] = sum_k weights[n][k] * x[r][k] + bias[n] * 2^bias_shift, all inside the exact sum
template <class Acc, class Out, class W, class X, class B, class Shift, class BiasShift>
void dense_bias(Out *out, W weights, X x, B bias, Size rows, Size outputs, Size inner, Shift shift, BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner) {
        W row = weights;
        for (Size n = 0; n < outputs; ++n, row = row + inner) {
            Acc sum(static_cast<int64_t>(bias[n]) * (int64_t(1) << int(bias_shift)));
            accumulate(sum, row, x, inner);
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

// out[r][c] = sum_k a[r][k] * b[k][c], both computed at run time
template <class Acc, class Out, class A, class B, class Shift>
void matmul(Out *out, A a, B b, Size rows, Size inner, Size columns, Shift shift) {
    for (; rows > 0; --rows, a = a + inner) {
        for (Size c = 0; c < columns; ++c) {
            Acc sum = 0;
            for (Size k = 0; k < inner; ++k) sum += static_cast<Acc>(a[k]) * b[k * columns + c];
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

}  // namespace hil

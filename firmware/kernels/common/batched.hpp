// Batches of matrix products, and slopes per element (tinyhil/ops/batched.py, slope.py).
#pragma once
#include "firmware/kernels/common/dense.hpp"
#include "firmware/kernels/common/elementwise.hpp"

namespace hil {

// out[i] = a[i] b[i]; a step of 0 uses the same matrix every time
template <class Acc, class Out, class A, class B, class Shift>
void batch_matmul(Out *out, A a, B b, Size batch, Size a_step, Size b_step, Size rows, Size inner, Size columns, Shift shift) {
    for (; batch > 0; --batch, a = a + a_step, b = b + b_step, out += rows * columns) {
        matmul<Acc>(out, a, b, rows, inner, columns, shift);
    }
}

template <class Acc, class Out, class X, class S, class Count, class P, class Q, class One, class Shift>
void prelu(Out *out, X x, S slopes, Count count, P x_period, Q period, One one_shift, Shift shift) {
    auto i = walk(x_period, count);
    auto j = walk(period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc value = static_cast<Acc>(x[i.next(n)]), slope = static_cast<Acc>(slopes[j.next(n)]);
        out[n] = requantize<Out>(static_cast<Acc>(value < Acc(0) ? value * slope : scaled(value, one_shift)), shift);
    }
}

}  // namespace hil

// Operators that fusion makes (tinyhil/ops/distance.py, sparse.py).
#pragma once
#include "firmware/kernels/dense.hpp"

namespace hil {

template <class Acc>
inline void add_product(Acc &sum, int32_t product) { sum += product; }
#ifdef __AVR__
inline void add_product(Acc40 &sum, int32_t product) { sum.add(product); }
inline void add_product(Acc48 &sum, int32_t product) { sum.add(product); }
#endif

// Narrow multiplications, for which an AVR has instructions.
template <class A, class B>
inline int32_t product(A a, B b) { return static_cast<int32_t>(static_cast<int16_t>(a)) * static_cast<int16_t>(b); }
inline int16_t product(int8_t a, int8_t b) { return static_cast<int16_t>(static_cast<int16_t>(a) * static_cast<int16_t>(b)); }

// out[r] = sum_k (a[r][k] - b[r][k])^2; a step of 0 uses the same row for all results
template <class Acc, class Out, class A, class B, class L, class R, class Drop, class Shift>
void squared_distance(Out *out, A a, B b, Size rows, Size inner, Size a_step, Size b_step, L a_shift, R b_shift, Drop drop,
                      Shift shift) {
    for (; rows > 0; --rows, a = a + a_step, b = b + b_step) {
        Acc sum = Acc(0);
        for (Size k = 0; k < inner; ++k) {
            const int32_t left = static_cast<int32_t>(a[k]) * (int32_t(1) << int(a_shift));
            const int32_t right = static_cast<int32_t>(b[k]) * (int32_t(1) << int(b_shift));
            const int16_t difference = requantize<int16_t>(static_cast<int32_t>(left - right), drop);
            add_product(sum, product(difference, difference));
        }
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
            for (; count > 0; --count, list = list + 1, factors = factors + 1) {
                add_product(sum, product(factors[0], x[list[0]]));
            }
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

template <class Acc, class Out, class Table, class W, class X, class Shift>
void sparse_dense(Out *out, Table lists, W weights, X x, Size rows, Size outputs, Size inner, Shift shift) {
    sparse_dense_bias<Acc>(out, lists, weights, x, NoBias(), rows, outputs, inner, shift, Const<0>());
}

}  // namespace hil

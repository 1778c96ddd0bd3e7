// Reductions along neighbouring axes (tinyhil/ops/reduce.py).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// `finish(row)` once per output element; element k of it is row[k * inner]
template <class X, class Finish>
inline void each_row(X x, Size outer, Size along, Size inner, Finish finish) {
    for (; outer > 0; --outer, x = x + along * inner) {
        for (Size i = 0; i < inner; ++i) finish(x + i);
    }
}

template <class Acc, class Out, class X, class Shift>
void reduce_sum(Out *out, X x, Size outer, Size along, Size inner, int32_t factor, Shift shift) {
    each_row(x, outer, along, inner, [&](X row) {
        using Number = typename Plain<Acc>::type;
        Number sum = Number(0);
        Size at = 0;
        for (Size k = 0; k < along; ++k, at += inner) sum += static_cast<Number>(row[at]);
        *out++ = requantize<Out>(static_cast<Acc>(static_cast<Acc>(sum) * factor), shift);
    });
}

// The index of the first element that no other one beats: Sign 1 the largest, -1 the smallest.
template <class Acc, int Sign, class X>
inline Size first_extreme(X row, Size along, Size inner) {
    using Number = typename Compared<Acc>::type;
    Size best = 0, at = inner;
    Number top = static_cast<Number>(row[0]);
    for (Size k = 1; k < along; ++k, at += inner) {
        const Number value = static_cast<Number>(row[at]);
        if (Sign > 0 ? value > top : value < top) {
            best = k;
            top = value;
        }
    }
    return best;
}

template <class Acc, class Out, class X, class Shift>
void reduce_max(Out *out, X x, Size outer, Size along, Size inner, Shift shift) {
    each_row(x, outer, along, inner,
             [&](X row) { *out++ = requantize<Out>(static_cast<Acc>(row[first_extreme<Acc, 1>(row, along, inner) * inner]), shift); });
}

template <class Acc, class Out, class X, class Shift>
void reduce_min(Out *out, X x, Size outer, Size along, Size inner, Shift shift) {
    each_row(x, outer, along, inner,
             [&](X row) { *out++ = requantize<Out>(static_cast<Acc>(row[first_extreme<Acc, -1>(row, along, inner) * inner]), shift); });
}

template <class Acc, class Out, class X, class Shift>
void arg_max(Out *out, X x, Size outer, Size along, Size inner, Shift shift) {
    each_row(x, outer, along, inner,
             [&](X row) { *out++ = requantize<Out>(static_cast<Acc>(first_extreme<Acc, 1>(row, along, inner)), shift); });
}

}  // namespace hil

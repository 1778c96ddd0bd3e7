// Layers with weights chosen at run time (tinyhil/ops/gathered.py).
#pragma once
#include "firmware/kernels/common/dense.hpp"
#include "firmware/kernels/common/index.hpp"

namespace hil {

// out[r][n] = sum_k weights[index][n][k] * x[r][k]
template <class Acc, class Out, class I, class W, class X, class Drop, class Shift>
void dense_at(Out *out, I index, W weights, X x, Size rows, Size outputs, Size inner, Size size, Drop drop, Shift shift) {
    const Size row = bounded(static_cast<int32_t>(index[0]) >> int(drop), size);
    dense<Acc>(out, weights + row * outputs * inner, x, rows, outputs, inner, shift);
}

}  // namespace hil

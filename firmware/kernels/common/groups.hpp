// Products with weights of few bits, each group of which has a scale of its own (tinyhil/ops/groups.py).
#pragma once
#include "firmware/kernels/common/codebook.hpp"
#include "firmware/kernels/common/limits.hpp"

namespace hil {

// total / 2^shift, to nearest, ties up
template <class Acc>
inline Acc halved_by(Acc total, int shift) {
    return shift > 0 ? shift_right(static_cast<Acc>(total + (static_cast<Acc>(1) << (shift - 1))), shift) : scaled(total, -shift);
}

// sum_k weights[k] * x[k]
template <class W, class X>
inline int32_t sum_of_group(W weights, X x, Size count) {
    int32_t sum = 0;
    for (Size k = 0; k < count; ++k) sum += Multiply<int32_t>::of(weights[k], x[k]);
    return sum;
}
// A byte holds two weights: groups begin with one where their size is even.
template <class X>
inline int32_t sum_of_group(Packed<Fixed<4>> weights, X x, Size count) {
    int32_t sum = 0;
    Size k = 0;
    if (!(weights.first & 1)) {
        Flash<uint8_t> bytes = weights.bytes + weights.first / 2;
        for (; k + 2 <= count; k += 2, bytes = bytes + 1) {
            const uint8_t both = bytes[0];
            sum += Multiply<int32_t>::of(static_cast<int8_t>(static_cast<int8_t>(both << 4) >> 4), x[k]);
            sum += Multiply<int32_t>::of(static_cast<int8_t>(static_cast<int8_t>(both) >> 4), x[k + 1]);
        }
    }
    for (; k < count; ++k) sum += Multiply<int32_t>::of(weights[k], x[k]);
    return sum;
}
template <class X>
inline int32_t sum_of_values(X x, Size count) {
    int32_t sum = 0;
    for (Size k = 0; k < count; ++k) sum += x[k];
    return sum;
}

template <class Acc, class Out, class W, class X, class S, class Z, class B, class Shifts>
void grouped_dense(Out *out, W weights, X x, S scales, Z zeros, B bias, Shifts shifts, Size rows, Size outputs, Size inner, Size size,
                   int bias_shift, int32_t zero) {
    for (; rows > 0; --rows, x = x + inner) {
        W row = weights;
        Size group = 0;
        for (Size n = 0; n < outputs; ++n, row = row + inner) {
            Acc total = scaled(static_cast<Acc>(bias[n]), bias_shift);
            for (Size k = 0; k < inner; k += size, ++group) {
                const Size count = inner - k < size ? static_cast<Size>(inner - k) : size;
                int32_t sum = sum_of_group(row + k, x + k, count);
                const int16_t more = zeros[group];
                if (more) sum += more * sum_of_values(x + k, count);
                total += static_cast<Acc>(scales[group]) * sum;
            }
            *out++ = saturate<Out>(static_cast<Acc>(halved_by(total, shifts[n]) + zero));
        }
    }
}

}  // namespace hil

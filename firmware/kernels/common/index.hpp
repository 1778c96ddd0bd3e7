// Rows chosen at run time (tinyhil/ops/index.py).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// An index within 0..size-1; negative ones count from the end, what is outside is clamped and counted.
inline Size bounded(int32_t index, Size size) {
    const int32_t rows = static_cast<int32_t>(size);
    if (index < 0) index += rows;
    if (index >= 0 && index < rows) return static_cast<Size>(index);
    ++saturations;
    return index < 0 ? 0 : size - 1;
}

template <class Acc, class Out, class I, class X, class Shift>
void gather_at(Out *out, I index, X x, Size outer, Size chosen, Size size, Size inner, int drop, Shift shift) {
    for (; outer > 0; --outer, x = x + size * inner) {
        for (Size n = 0; n < chosen; ++n) {
            const X row = x + bounded(index[n] >> drop, size) * inner;
            for (Size i = 0; i < inner; ++i) *out++ = requantize<Out>(static_cast<Acc>(row[i]), shift);
        }
    }
}

template <class Acc, class Out, class I, class X>
void take_row(Out *out, I counter, X x, Size inner) {
    x = x + static_cast<Size>(counter[0]) * inner;
    for (Size n = 0; n < inner; ++n) out[n] = x[n];
}

// `present` is `out` as it was before
template <class Acc, class Out, class X, class I, class Y>
void place_row(Out *out, X x, I counter, Y present, Size inner) {
    (void)present;
    out += static_cast<Size>(counter[0]) * inner;
    for (Size n = 0; n < inner; ++n) out[n] = x[n];
}

// A row (outer, inner) of `present`, which is `out` as it was before, (outer, size, inner).
template <class Acc, class Out, class X, class I, class Y>
void place_at(Out *out, X x, I place, Y present, Size outer, Size size, Size inner, int drop) {
    (void)present;
    out += bounded(place[0] >> drop, size) * inner;
    for (; outer > 0; --outer, x = x + inner, out += size * inner) {
        for (Size n = 0; n < inner; ++n) out[n] = x[n];
    }
}

template <class Acc, class Out, class X>
void count(Out *out, X x, int by) {
    *out = static_cast<Out>(x[0] + by);
}

}  // namespace hil

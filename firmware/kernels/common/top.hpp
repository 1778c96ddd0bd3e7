// The k largest or smallest along an axis (tinyhil/ops/top.py).
#pragma once
#include "firmware/kernels/common/real.hpp"
#include "firmware/kernels/common/reduce.hpp"

namespace hil {

// Whether `a` comes before `b`: the larger (or smaller) number, any number before NaN.
template <class Number>
inline bool comes_before(bool largest, Number a, Number b) {
    return (largest ? a > b : a < b) || (is_nan(b) && !is_nan(a));
}

// The first element behind element `last` in that order, then in that of indices; of all elements if `last` is `along`.
// There is one: k is at most `along`.
template <class Acc, class X>
inline Size next_top(bool largest, X row, Size along, Size inner, Size last) {
    using Number = typename Compared<Acc>::type;
    const Number before = static_cast<Number>(row[last < along ? last * inner : 0]);
    Number top = before;
    Size best = along, at = 0;
    for (Size n = 0; n < along; ++n, at += inner) {
        const Number value = static_cast<Number>(row[at]);
        const bool equal = value == before || (is_nan(value) && is_nan(before));
        const bool behind = last == along || comes_before(largest, before, value) || (equal && n > last);
        if (behind && (best == along || comes_before(largest, value, top))) {
            best = n;
            top = value;
        }
    }
    return best;
}

// `put(place, row, index)` for each result
template <class Acc, class X, class Put>
inline void each_top(X x, Size outer, Size along, Size inner, Size k, bool largest, Put put) {
    Size first = 0, column = 0;
    each_row(x, outer, along, inner, [&](X row) {
        Size last = along;
        for (Size n = 0; n < k; ++n) put(first + n * inner, row, last = next_top<Acc>(largest, row, along, inner, last));
        ++first;
        if (++column == inner) {
            column = 0;
            first += (k - 1) * inner;
        }
    });
}

template <class Acc, class Out, class X, class Largest, class Shift>
void top_values(Out *out, X x, Size outer, Size along, Size inner, Size k, Largest largest, Shift shift) {
    each_top<Acc>(x, outer, along, inner, k, int(largest) != 0,
                  [&](Size place, X row, Size index) { out[place] = requantize<Out>(static_cast<Acc>(row[index * inner]), shift); });
}

template <class Acc, class Out, class X, class Largest, class Shift>
void top_indices(Out *out, X x, Size outer, Size along, Size inner, Size k, Largest largest, Shift shift) {
    each_top<Acc>(x, outer, along, inner, k, int(largest) != 0,
                  [&](Size place, X, Size index) { out[place] = requantize<Out>(static_cast<Acc>(index), shift); });
}

}  // namespace hil

// Whole numbers that wrap and are never scaled (tinyhil/ops/whole.py).
#pragma once
#include "firmware/kernels/common/memory.hpp"

namespace hil {

template <class Acc, class Out, class X>
void whole_cast(Out *out, X x, Size count) {
    for (Size n = 0; n < count; ++n) out[n] = static_cast<Out>(x[n]);
}

// In the order of tinyhil/ops/whole.py.
enum WholeFunction { whole_add, whole_sub, whole_mul, whole_div, whole_min, whole_max, whole_sum16 };

inline int64_t of_whole(int function, int64_t a, int64_t b) {
    switch (function) {
    case whole_add: return a + b;
    case whole_sub: return a - b;
    case whole_mul: return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case whole_div: return b == 0 ? 0 : a / b;
    case whole_min: return a < b ? a : b;
    case whole_max: return a < b ? b : a;
    default: return a + b < -32768 ? -32768 : a + b > 32767 ? 32767 : a + b;
    }
}

template <class Acc, class Out, class A, class B>
void whole_pair(Out *out, A a, B b, Size count, Size a_period, Size b_period, int function) {
    Size i = 0, j = 0;
    for (Size n = 0; n < count; ++n) {
        out[n] = static_cast<Out>(of_whole(function, a[i], b[j]));
        if (++i == a_period) i = 0;
        if (++j == b_period) j = 0;
    }
}

}  // namespace hil

// Moving tensors (tinyhil/ops/scan.py).
#pragma once
#include "firmware/kernels/memory.hpp"

namespace hil {

template <class Acc, class Out, class X>
void copy(Out *out, X x, Size count) {
    for (Size n = 0; n < count; ++n) out[n] = x[n];
}

template <class Acc, class Out>
void fill(Out *out, Size count, int value) {
    for (Size n = 0; n < count; ++n) out[n] = static_cast<Out>(value);
}

}  // namespace hil

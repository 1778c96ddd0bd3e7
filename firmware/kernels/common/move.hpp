// Moving tensors (tinyhil/ops/scan.py).
#pragma once
#include "firmware/kernels/common/memory.hpp"

namespace hil {

template <class Acc, class Out, class X>
void copy(Out *out, X x, Size count) {
    for (Size n = 0; n < count; ++n) out[n] = x[n];
}

template <class Acc, class Out, class Code>
void fill(Out *out, Size count, Code code) {
    for (Size n = 0; n < count; ++n) out[n] = element_of<Out>(code, 0);
}

}  // namespace hil

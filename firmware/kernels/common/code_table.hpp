// Functions of one operand of at most 8 bits, by a table of its codes (tinyhil/ops/code_table.py).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// out[n] = table[code of x[n]]; results of codes below `lowest` and above `highest` are clipped
template <class Acc, class Out, class Table, class X, class Count, class Mask, class L, class H>
HIL_ELEMENTWISE void code_table(Out *out, Table table, X x, Count count, Mask mask, L lowest, H highest) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const uint8_t code = code_of(x[n], 0);
        const int16_t number = static_cast<int8_t>(code);
        if (int(lowest) > -128 && number < int(lowest)) count_clipped();
        if (int(highest) < 127 && number > int(highest)) count_clipped();
        out[n] = element_of<Out>(table[static_cast<uint8_t>(code & int(mask))], 0);
    }
}

}  // namespace hil

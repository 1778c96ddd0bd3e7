// Softmax of int16 by tables of lines, as TensorFlow Lite Micro computes it (tinyhil/ops/code_softmax.py).
#pragma once
#include "firmware/kernels/common/real.hpp"
#include "firmware/kernels/common/rescale.hpp"

namespace hil {

// The table of 513 ends of lines at x, 16 bits
template <class Table>
inline int32_t on_line(Table table, int32_t x) {
    const int32_t far = x < -32768 ? 0 : x > 32767 ? 65535 : x + 32768;
    const Size at = static_cast<Size>(far >> 7);
    const int32_t from = static_cast<int16_t>(table[at]), to = static_cast<int16_t>(table[at + 1]);
    return from + (((to - from) * (far & 127) + 64) >> 7);
}

// Exponentials of 15 bits lie in the results until their sum, below 2^31, is known
template <class Acc, class Out, class E, class R, class X>
void word_softmax(Out *out, E exponentials, R reciprocals, X x, Size outer, Size count, int32_t multiplier, int power) {
    for (; outer > 0; --outer, x = x + count, out += count) {
        int32_t top = x[0], sum = 0;
        for (Size n = 1; n < count; ++n) top = x[n] > top ? x[n] : top;
        for (Size n = 0; n < count; ++n) {
            const int32_t e = on_line(exponentials, rescale(static_cast<int32_t>(x[n]) - top, multiplier, power) + 32767);
            out[n] = static_cast<Out>(e);
            sum += e;
        }
        const int zeros = leading_zeros(static_cast<uint32_t>(sum)), right = 31 - zeros;
        const int32_t shifted = static_cast<int32_t>((static_cast<int64_t>(sum) * (int64_t(1) << (zeros - 1)) + 8192) >> 14);
        const int32_t r = on_line(reciprocals, shifted - 32768 - 65536);
        for (Size n = 0; n < count; ++n) {
            const int32_t units = static_cast<int32_t>((static_cast<int64_t>(out[n]) * r + (int64_t(1) << (right - 1))) >> right);
            out[n] = static_cast<Out>(units > 32767 ? 32767 : units);
        }
    }
}

}  // namespace hil

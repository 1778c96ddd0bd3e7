// A line plus a tabulated function of the distance from zero (tinyhil/ops/curve.py derives tables and error bounds).
#pragma once
#include "firmware/kernels/common/activation.hpp"

namespace hil {

constexpr int curve_guard_bits = 4, curve_product_bits = 19;

// h * 2^4 in units of an entry, at position / 2^fraction_bits steps: the parabola through three neighbours
template <class Table, class Bits>
inline int32_t between(Table table, uint32_t position, Bits fraction_bits, Size last) {
    const uint32_t index = position >> int(fraction_bits);
    if (index >= last) return static_cast<int32_t>(static_cast<uint32_t>(table[last]) << curve_guard_bits);
    const Size at = static_cast<Size>(index);
    const int32_t f = static_cast<int32_t>(position & ((1UL << int(fraction_bits)) - 1));
    const int32_t first = table[at], second = table[at + 1], third = table[at + 2];
    const int32_t slope = ((second - first) * f * (1 << curve_guard_bits)) >> int(fraction_bits);
    const int spare = 2 * int(fraction_bits) > curve_product_bits ? 2 * int(fraction_bits) - curve_product_bits : 0;
    const int32_t product = (f * ((int32_t(1) << int(fraction_bits)) - f)) >> spare;
    const int32_t bend = ((third - 2 * second + first) * product * (1 << (curve_guard_bits - 1))) >> (2 * int(fraction_bits) - spare);
    return first * (1 << curve_guard_bits) + slope - bend;
}

template <class Acc, class Out, class Table, class X, class Bits, class Line, class L, class H, class Shift>
void curve(Out *out, Table table, X x, Size count, Size last, int drop, Bits fraction_bits, int lift, Line line, int below, int above,
           L x_lift, H h_lift, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const int16_t value = x[n];
        const uint32_t reduced = drop > 15 ? 0 : static_cast<uint32_t>(magnitude(value)) >> drop;
        const Acc h = static_cast<Acc>(between(table, reduced << lift, fraction_bits, last)) * (static_cast<Acc>(1) << int(h_lift));
        const int sign = value < 0 ? below : above;
        Acc sum = sign == 0 ? 0 : sign < 0 ? -h : h;
        if (int(line) && value > 0) sum += static_cast<Acc>(value) * (static_cast<Acc>(1) << int(x_lift));
        out[n] = requantize<Out>(sum, shift);
    }
}

}  // namespace hil

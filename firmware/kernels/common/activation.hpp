// Sigmoid and tanh by table and linear interpolation (tinyhil/ops/activation.py derives table and error bound).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

constexpr uint16_t sigmoid_last = 352;       // table index of t = 11
constexpr int sigmoid_fraction_bits = 17;    // table entries are (sigmoid(t) - 1/2) * 2^17

// (sigmoid(t) - 1/2) * 2^(17 + fraction_bits), t >= 0; below 2^29 for fraction_bits <= 12
template <class Table, class Position, class Bits>
inline int32_t interpolate(Table table, Position position, Bits fraction_bits) {
    const Position index = static_cast<Position>(position >> int(fraction_bits));
    if (index >= sigmoid_last) return static_cast<int32_t>(shift_left(table[sigmoid_last], fraction_bits));
    const uint16_t at = static_cast<uint16_t>(index);
    const uint16_t fraction = static_cast<uint16_t>(position & ((1u << int(fraction_bits)) - 1));
    const uint16_t low = table[at];
    const uint16_t step = static_cast<uint16_t>(table[at + 1] - low);  // <= 1024
    return static_cast<int32_t>(shift_left(low, fraction_bits) + static_cast<uint32_t>(step) * fraction);
}

template <class Table, class Drop, class Bits, class Lift>
inline int32_t half_sigmoid(Table table, uint16_t magnitude, Drop drop, Bits fraction_bits, Lift lift) {
    const uint16_t reduced = int(drop) > 15 ? 0 : static_cast<uint16_t>(magnitude >> (int(drop) & 15));
    if (int(lift) == 0) return interpolate(table, reduced, fraction_bits);
    return interpolate(table, static_cast<uint32_t>(reduced) << int(lift), fraction_bits);
}

template <class T>
inline uint16_t magnitude(T x) {
    return static_cast<uint16_t>(x < 0 ? -static_cast<int32_t>(x) : static_cast<int32_t>(x));
}

template <class Acc, class Out, class Table, class X, class Count, class Drop, class Bits, class Lift, class Shift>
void sigmoid(Out *out, Table table, X x, Count count, Drop drop, Bits fraction_bits, Lift lift, Shift shift) {
    const int32_t half = int32_t(1) << (sigmoid_fraction_bits - 1 + int(fraction_bits));
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t y = half_sigmoid(table, magnitude(x[n]), drop, fraction_bits, lift);
        out[n] = requantize<Out>(static_cast<Acc>(x[n] < 0 ? half - y : half + y), shift);
    }
}

template <class Acc, class Out, class Table, class X, class Count, class Drop, class Bits, class Lift, class Shift>
void tanh(Out *out, Table table, X x, Count count, Drop drop, Bits fraction_bits, Lift lift, Shift shift) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t y = half_sigmoid(table, magnitude(x[n]), drop, fraction_bits, lift);
        out[n] = requantize<Out>(static_cast<Acc>(x[n] < 0 ? -y : y), shift);
    }
}

}  // namespace hil

// Cells of asymmetric integers, code by code as TensorFlow Lite Micro has them (tinyhil/ops/cells.py).
#pragma once
#include "firmware/kernels/common/memory.hpp"
#include "firmware/kernels/common/rescale.hpp"

namespace hil {

template <class Number>
inline int32_t clipped_to(Number x, int bits) {
    const Number most = (Number(1) << (bits - 1)) - 1;
    return static_cast<int32_t>(x < -most - 1 ? -most - 1 : x > most ? most : x);
}

// The table at `size`, whose lowest `bits` are a fraction; `most` beyond its end
template <class T>
inline int32_t between(T table, uint32_t size, int bits, int32_t most) {
    const uint32_t at = size >> bits;
    if (at >= 255) return most;
    const int32_t low = static_cast<uint16_t>(table[static_cast<Size>(at)]), high = static_cast<uint16_t>(table[static_cast<Size>(at + 1)]);
    const int16_t part = static_cast<int16_t>(size & ((uint32_t(1) << bits) - 1)), step = static_cast<int16_t>(high - low);  // <= 511, 683
    return low * (int32_t(1) << bits) + static_cast<int32_t>(part) * step;
}
inline uint32_t size_of_number(int32_t d) { return d < 0 ? 0u - static_cast<uint32_t>(d) : static_cast<uint32_t>(d); }

// In units of 2^-15, of d in units of 1 / (24 * 2^9)
template <class T>
inline int32_t logistic_of(T table, int32_t d) {
    const int32_t r = between(table, size_of_number(d), 9, int32_t(32767) << 10);
    return d >= 0 ? (r + 512) >> 10 : ((int32_t(1) << 25) - r + 511) >> 10;
}
template <class T>
inline int32_t tanh_of(T table, int32_t d) {
    const int32_t r = between(table, size_of_number(d), 8, int32_t(65535) << 8);
    return d >= 0 ? (r - (int32_t(1) << 23) + 128) >> 8 : (-r + (int32_t(1) << 23) + 127) >> 8;
}

// Operands in units of the table: 15 bits of each product's factor, |x * factor| + 2^30 < 2^31 (tinyhil/ops/word_functions.py)
template <class Right>
inline int32_t in_units(int16_t x, int16_t factor, Right right) {
    return (static_cast<int32_t>(x) * factor + ((int32_t(1) << right) >> 1)) >> right;
}
template <class Acc, class Out, class T, class X, class Count, class Right>
void sigmoid_affine(Out *out, T table, X x, Count count, int factor, Right right) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) out[n] = static_cast<Out>(logistic_of(table, in_units(x[n], factor, right)));
}
template <class Acc, class Out, class T, class X, class Count, class Right>
void tanh_affine(Out *out, T table, X x, Count count, int factor, Right right) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) out[n] = static_cast<Out>(tanh_of(table, in_units(x[n], factor, right)));
}

template <class Acc, class Out, class T, class X>
void word_function(Out *out, T table, X x, Size elements, int32_t factor, int right, int is_tanh) {
    for (Size n = 0; n < elements; ++n) {
        const int64_t product = static_cast<int64_t>(x[n]) * factor;
        const int32_t d = static_cast<int32_t>((product + ((int64_t(1) << right) >> 1)) >> right);
        out[n] = static_cast<Out>(is_tanh ? tanh_of(table, d) : logistic_of(table, d));
    }
}

template <class Acc, class Out, class X>
void whole_units(Out *out, X x, Size elements, int32_t multiplier, int power, int32_t x_zero, int32_t zero, int bits) {
    for (Size n = 0; n < elements; ++n) {
        const int32_t distance = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int32_t>(x[n])) - static_cast<uint32_t>(x_zero));
        const int64_t moved = static_cast<int64_t>(rescale(distance, multiplier, power)) + zero;
        out[n] = static_cast<Out>(clipped_to(moved, bits));
    }
}

template <class Acc, class Out, class X, class T>
void byte_function(Out *out, X x, T table, Size elements) {
    for (Size n = 0; n < elements; ++n) out[n] = static_cast<Out>(table[static_cast<Size>(static_cast<int>(x[n]) + 128)]);
}

// The accumulator begins with the scaled minus zero point, as the runtime's does.
template <class Acc, class Out, class X>
void byte_sums(Out *out, X x, Size outer, Size along, Size inner, int exclusive, int reverse, int x_zero, int32_t lift_multiplier,
               int lift_power, int32_t multiplier, int power, int zero) {
    const int32_t start = rescale(static_cast<int32_t>(-x_zero) * (int32_t(1) << 20), lift_multiplier, lift_power);
    for (Size row = 0; row < outer * inner; ++row) {
        const Size first = row / inner * along * inner + row % inner;
        int32_t sum = start;
        for (Size n = 0; n < along; ++n) {
            const Size at = first + (reverse ? along - 1 - n : n) * inner;
            const int32_t distance = static_cast<int32_t>(x[at]) - x_zero;
            const int32_t before = sum;
            const int32_t term = rescale(distance * (int32_t(1) << 20), lift_multiplier, lift_power);
            sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(term));  // wraps
            out[at] = static_cast<Out>(clipped_to(rescale(exclusive ? before : sum, multiplier, power) + zero, 8));
        }
    }
}

// The elements before and behind a result, and how far it is from the one before, in units of 1 / 1024
struct Between {
    Size before, behind;
    int32_t far;
    Between(Size n, Size side, int32_t pace, int middle) {
        const int32_t at = static_cast<int32_t>(n) * pace + (middle ? pace / 2 - 512 : 0);
        const int32_t low = at / 1024 > 0 ? at / 1024 : 0, high = (at + 1023) / 1024;
        before = static_cast<Size>(low);
        behind = high < static_cast<int32_t>(side) - 1 ? static_cast<Size>(high) : side - 1;
        far = at - 1024 * low;
    }
};

template <class Acc, class Out, class X>
void byte_resize(Out *out, X x, Size planes, Size height, Size width, Size out_height, Size out_width, int32_t y_pace, int32_t x_pace,
                 int middle) {
    for (Size plane = 0; plane < planes; ++plane, x = x + height * width) {
        for (Size r = 0; r < out_height; ++r) {
            const Between y(r, height, y_pace, middle);
            for (Size c = 0; c < out_width; ++c) {
                const Between column(c, width, x_pace, middle);
                const int64_t sum = static_cast<int64_t>(x[y.before * width + column.before]) * (1024 - y.far) * (1024 - column.far) +
                    static_cast<int64_t>(x[y.behind * width + column.before]) * y.far * (1024 - column.far) +
                    static_cast<int64_t>(x[y.before * width + column.behind]) * (1024 - y.far) * column.far +
                    static_cast<int64_t>(x[y.behind * width + column.behind]) * y.far * column.far;
                *out++ = static_cast<Out>((sum + (sum > 0 ? int64_t(1) << 19 : -(int64_t(1) << 19))) / (int64_t(1) << 20));
            }
        }
    }
}

// The same in single precision, elements apart
struct SingleBetween {
    Size before, behind;
    float far;
    SingleBetween(Size n, Size side, uint32_t pace_bits, int middle) {
        const float index = static_cast<float>(n), pace = float_of(pace_bits);
        const float at = middle ? (index + 0.5f) * pace - 0.5f : index * pace;
        const int32_t whole = static_cast<int32_t>(at);  // towards zero: `at` is above -1
        before = at > 0 ? static_cast<Size>(whole) : 0;
        behind = at > static_cast<float>(whole) ? static_cast<Size>(whole + 1) : before;
        if (behind > side - 1) behind = side - 1;
        far = at - static_cast<float>(before);
    }
};

// Of uint8, held less 128; terms in the order of LiteRT's sum
template <class Acc, class Out, class X>
void byte_resize_old(Out *out, X x, Size planes, Size height, Size width, Size out_height, Size out_width, uint32_t y_pace, uint32_t x_pace,
                     int middle) {
    const auto element = [&x, width](Size row, Size column) { return static_cast<float>(static_cast<int>(x[row * width + column]) + 128); };
    for (Size plane = 0; plane < planes; ++plane, x = x + height * width) {
        for (Size r = 0; r < out_height; ++r) {
            const SingleBetween y(r, height, y_pace, middle);
            for (Size c = 0; c < out_width; ++c) {
                const SingleBetween column(c, width, x_pace, middle);
                float sum = element(y.before, column.before) * (1.0f - y.far) * (1.0f - column.far);
                sum = sum + element(y.behind, column.before) * y.far * (1.0f - column.far);
                sum = sum + element(y.before, column.behind) * (1.0f - y.far) * column.far;
                sum = sum + element(y.behind, column.behind) * y.far * column.far;
                *out++ = static_cast<Out>(static_cast<int>(sum + 0.5f) - 128);
            }
        }
    }
}

template <class Acc, class Out, class X, class S, class W>
void svdf_memory(Out *out, X x, S state, W weights, Size filters, Size memory, Size inputs, int32_t multiplier, int power, int x_zero,
                 int zero, int bits) {
    for (Size n = 0; n + 1 < filters * memory; ++n) out[n] = static_cast<Out>(state[n + 1]);
    for (Size f = 0; f < filters; ++f) {
        uint32_t sum = 0;  // wraps
        for (Size i = 0; i < inputs; ++i) sum += static_cast<uint32_t>((static_cast<int32_t>(x[i]) - x_zero) * weights[f * inputs + i]);
        const int32_t newest = rescale(static_cast<int32_t>(sum), multiplier, power);
        out[f * memory + memory - 1] = static_cast<Out>(clipped_to(newest, bits) + zero);
    }
}

template <class Acc, class Out, class S, class W, class B>
void svdf(Out *out, S state, W weights, B bias, Size units, Size rank, Size memory, int32_t multiplier, int power, int state_zero, int zero,
          int bits) {
    for (Size u = 0, at = 0; u < units; ++u) {
        uint32_t sum = static_cast<uint32_t>(static_cast<int32_t>(bias[u]));
        for (Size n = 0; n < rank * memory; ++n, ++at) {
            sum += static_cast<uint32_t>(static_cast<int32_t>(static_cast<int32_t>(state[at]) - state_zero) * weights[at]);
        }
        out[u] = static_cast<Out>(clipped_to(rescale(static_cast<int32_t>(sum), multiplier, power) + zero, bits));
    }
}

// What scales a gate's two sums
struct GateFactors {
    int32_t x_multiplier;
    int x_power;
    int32_t h_multiplier;
    int h_power;
};
struct GateShape {
    Size inputs, units;
    int x_zero, h_zero, wide;
};

inline int32_t gate_part(int64_t sum, int32_t multiplier, int power, int wide) {
    return clipped_to(wide ? rescale(sum, multiplier, power) : rescale(static_cast<int32_t>(sum), multiplier, power), 16);
}
template <class X, class H, class W, class U, class B>
inline int32_t gate_of(Size unit, X x, H h, W weights, U recurrent, B bias, GateShape s, GateFactors f) {
    int64_t of_x = bias[unit], of_h = 0;
    for (Size i = 0; i < s.inputs; ++i)
        of_x += (static_cast<int32_t>(x[i]) - s.x_zero) * static_cast<int32_t>(weights[unit * s.inputs + i]);
    for (Size i = 0; i < s.units; ++i)
        of_h += (static_cast<int32_t>(h[i]) - s.h_zero) * static_cast<int32_t>(recurrent[unit * s.units + i]);
    return clipped_to(gate_part(of_x, f.x_multiplier, f.x_power, s.wide) + gate_part(of_h, f.h_multiplier, f.h_power, s.wide), 16);
}

template <class Acc, class Out, class T, class X, class H, class C, class WI, class UI, class BI, class WF, class UF, class BF, class WC,
          class UC, class BC>
void lstm_cell(Out *out, T table, X x, H h, C c, WI wi, UI ui, BI bi, WF wf, UF uf, BF bf, WC wc, UC uc, BC bc, Size inputs, Size units,
               int x_zero, int h_zero, int wide, int32_t ix, int ixp, int32_t ih, int ihp, int32_t fx, int fxp, int32_t fh, int fhp,
               int32_t cx, int cxp, int32_t ch, int chp, int32_t forget_multiplier, int forget_power, int32_t new_multiplier, int new_power,
               int clip, int is_tanh) {
    const GateShape shape = {inputs, units, x_zero, h_zero, wide};
    for (Size u = 0; u < units; ++u) {
        const int32_t opened = logistic_of(table, 3 * gate_of(u, x, h, wi, ui, bi, shape, {ix, ixp, ih, ihp}));
        const int32_t forget = logistic_of(table, 3 * gate_of(u, x, h, wf, uf, bf, shape, {fx, fxp, fh, fhp}));
        const int32_t sum = 3 * gate_of(u, x, h, wc, uc, bc, shape, {cx, cxp, ch, chp});
        const int32_t fresh = is_tanh ? tanh_of(table, sum) : logistic_of(table, sum);
        const int32_t old = clipped_to(rescale(static_cast<int32_t>(forget * c[u]), forget_multiplier, forget_power), 16);
        const int32_t added = clipped_to(rescale(static_cast<int32_t>(opened * fresh), new_multiplier, new_power), 16);
        const int32_t after = clipped_to(old + added, 16);
        out[u] = static_cast<Out>(clip == 0 ? after : after < -clip ? -clip : after > clip ? clip : after);
    }
}

template <class Acc, class Out, class T, class X, class H, class C, class W, class U, class B>
void lstm_output(Out *out, T table, X x, H h, C c, W weights, U recurrent, B bias, Size inputs, Size units, int x_zero, int h_zero,
                 int wide, int32_t ox, int oxp, int32_t oh, int ohp, int32_t multiplier, int power, int left, int right, int zero,
                 int bits) {
    const GateShape shape = {inputs, units, x_zero, h_zero, wide};
    for (Size u = 0; u < units; ++u) {
        const int32_t opened = logistic_of(table, 3 * gate_of(u, x, h, weights, recurrent, bias, shape, {ox, oxp, oh, ohp}));
        const int32_t argument = 3 * static_cast<int32_t>(c[u]) * (int32_t(1) << left);
        const int32_t shown = tanh_of(table, (argument + ((int32_t(1) << right) >> 1)) >> right);
        out[u] = static_cast<Out>(clipped_to(rescale(static_cast<int32_t>(opened * shown), multiplier, power) + zero, bits));
    }
}

}  // namespace hil

// Rows of bytes, and of 16 bits, less their mean over their deviation: by one reciprocal a row in the place of a division an element.
#pragma once
#include "firmware/kernels/arm/decided.hpp"
#include "firmware/kernels/common/normalize.hpp"
#include "firmware/kernels/common/single_ops.hpp"

namespace hil {

// Mean and root of a row as the floats have them
struct SingleRow { float middle, root; };
template <int C>
__attribute__((noinline)) SingleRow single_row(Real32<Ram<int8_t>> x, Size along, uint32_t epsilon_bits) {
    const float count = static_cast<float>(along);
    float middle = 0.0f, squares = 0.0f;
    if (C) {
        for (Size n = 0; n < along; ++n) middle += x[n];
        middle = single::divide(middle, count);
    }
    for (Size n = 0; n < along; ++n) squares += (x[n] - middle) * (x[n] - middle);
    return {middle, single::sqrt(single::divide(squares, count) + float_of(epsilon_bits))};
}
__attribute__((noinline)) inline int8_t single_result(float x, const SingleRow &row, const ToAffine &to) {
    return requantize<int8_t>(row.root == 0.0f ? 0.0f : single::divide(x - row.middle, row.root), to);
}

// How a row's codes become results: code * factor + start, with row_bits behind the point
constexpr int row_bits = 20;
struct RowDecided {
    int32_t factor, start;
    uint32_t open;
};
// Mean and deviation from exact sums. The floats' mean is wrong by at most (n + 2) units of the mean magnitude, which the root mean square
// is not below, their deviation by half of (n + 3) units and by what mean and elements are wrong, a quotient by 4 units more. 400: what
// factor and start are wrong. The sum has 31 bits for up to 5.6 results a code.
template <int C>
inline RowDecided row_decided(const Moments &m, Size along, const Real32<Ram<int8_t>> &x, float epsilon, const ToAffine &to) {
    constexpr float one = 1048576.0f;
    const float n = static_cast<float>(along), reciprocal = single::divide(1.0f, n), inverse = float_of(to.inverse_bits);
    const float largest = static_cast<float>(130 + (to.zero < 0 ? -to.zero : to.zero));  // beyond it results saturate
    const int32_t sum = C ? m.sum : 0;
    const int64_t spread = static_cast<int64_t>(along) * m.squares - static_cast<int64_t>(sum) * sum;
    const float variance = (static_cast<float>(spread) * reciprocal) * reciprocal;
    const float units = single::divide(x.scale * inverse, single::sqrt(variance * (x.scale * x.scale) + epsilon));
    const float length = single::sqrt(static_cast<float>(m.squares) * reciprocal);
    const float off = (C ? (n + 4.0f) * length : 0.0f) + 260.0f;  // of differences from the mean, in codes and units
    const float error = float_unit * (units * off + largest * (single::divide(off, single::sqrt(variance)) + n * 0.5f + 20.0f));
    if (spread <= 0 || !(units < 5.6f) || !(error < 0.05f)) {
        const Decided none = undecided(row_bits);
        return {0, none.start, none.open};
    }
    const float middle = static_cast<float>(x.zero) + static_cast<float>(sum) * reciprocal;
    const Decided round = decided(row_bits, static_cast<int32_t>(error * one) + 400, to.zero);
    return {static_cast<int32_t>(units * one), round.start - static_cast<int32_t>((units * middle) * one), round.open};
}

template <class Acc, int C, int N>
void single_normalize(int8_t *out, Real32<Ram<int8_t>> x, Size outer, Size along, Size inner, Centre<C> centre, Mean<1> mean,
                      uint32_t epsilon_bits, ToPower<N> power, ToAffine to) {
    if (inner != 1 || N != 0 || along > 8192) {
        return single_normalize<Acc, int8_t>(out, x, outer, along, inner, centre, mean, epsilon_bits, power, to);
    }
    const uint32_t zeros = in_both(x.zero);
    for (; outer > 0; --outer, x = x + along, out += along) {
        const RowDecided by = row_decided<C>(moments_of(x.codes.at, along, zeros, x.zero), along, x, float_of(epsilon_bits), to);
        const int8_t *const codes = x.codes.at;
        SingleRow row = {0.0f, -1.0f};
        for (Size k = 0; k < along; ++k) {
            const int32_t t = codes[k] * by.factor + by.start;
            if (__builtin_expect(static_cast<uint32_t>(t) << (32 - row_bits) <= by.open, 0)) {
                if (row.root < 0.0f) row = single_row<C>(x, along, epsilon_bits);
                out[k] = single_result(x[k], row, to);
            } else {
                out[k] = saturate<int8_t>(static_cast<int32_t>(t >> row_bits));
            }
        }
    }
}

// ---- normalisation in fixed point

inline Moments moments_of(Ram<int8_t> x, Size count) { return moments_of(x.at, count, 0, 0); }
struct WideMoments {
    int32_t sum;
    int64_t squares;
};
inline WideMoments moments_of(Ram<int16_t> x, Size count) {
    int32_t sum = 0;
    int64_t squares = 0;
    const auto add = [&](uint32_t pair) {
        sum = add_products(sum, pair, 0x10001);
        squares = add_products(squares, pair, pair);
    };
    const int16_t *at = x.at, *const end = at + (count & ~Size(1));
#pragma GCC unroll 4
    for (; at != end; at += 2) add(word_at(at));
    if (count & 1) add(static_cast<uint16_t>(*at));
    return {sum, squares};
}

// The quotient by a reciprocal of 30 bits, which is wrong by less than 2 of the upper half's units; where that decides, the division
template <class Acc, class Out, class T>
void normalize(Out *out, Ram<T> x, Size outer, Size along, Size inner, int32_t unit, int centre, int32_t epsilon_low, int32_t epsilon_high,
               int lift, int exponent) {
    if (inner != 1) {
        return normalize<Acc, Out, Ram<T>>(out, x, outer, along, inner, unit, centre, epsilon_low, epsilon_high, lift, exponent);
    }
    const int64_t epsilon = (static_cast<int64_t>(epsilon_high) << 31) + epsilon_low;
    for (; outer > 0; --outer, x = x + along, out += along) {
        const auto m = moments_of(x, along);
        const int32_t total = centre ? m.sum : 0;
        const int64_t spread = unit * static_cast<int64_t>(m.squares) - static_cast<int64_t>(total) * total;
        const Root root = normalized_root(static_cast<uint64_t>(spread * (int64_t(1) << (2 * lift)) + epsilon));
        const int wanted = root.halves + lift - exponent, power = wanted > 62 ? 62 : wanted;
        const uint32_t most =
            static_cast<uint32_t>(unit) * (uint32_t(1) << (8 * sizeof(T) - 1)) + static_cast<uint32_t>(total < 0 ? -total : total);
        int left = leading_zeros(most) - 1;
        if (21 + left - power > 26) left = 5 + power;
        const int f = 21 + left - power;
        if (root.value >> 23 != 1 || left < 0 || f < 4) {
            normalize<Acc, Out, Ram<T>>(out, x, 1, along, 1, unit, centre, epsilon_low, epsilon_high, lift, exponent);
            continue;
        }
        const int32_t reciprocal = static_cast<int32_t>((uint64_t(1) << 53) / root.value);
        const Decided round = decided(f, 2, 0);
        const int32_t factor = static_cast<int32_t>(static_cast<uint32_t>(unit) << left), start = -total * (int32_t(1) << left);
        for (Size n = 0; n < along; ++n) {
            const int32_t d = x[n] * factor + start;
            const int32_t t = static_cast<int32_t>((static_cast<int64_t>(d) * reciprocal) >> 32) + round.start;
            if (__builtin_expect(is_open(t, round), 0)) {
                const int64_t denominator = static_cast<int64_t>(root.value) << (power < 0 ? -power : 0);
                const int64_t numerator = (static_cast<int64_t>(unit) * x[n] - total) * (int64_t(1) << (power > 0 ? power : 0));
                out[n] = saturate<Out>(rounded_quotient<int64_t>(numerator, denominator));
            } else {
                out[n] = saturate<Out>(static_cast<int32_t>(t >> f));
            }
        }
    }
}

}  // namespace hil

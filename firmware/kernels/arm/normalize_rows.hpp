// Rows of bytes, and of 16 bits, less their mean over their deviation: by one reciprocal a row in the place of a division an element.
#pragma once
#include "firmware/kernels/arm/rounded_codes.hpp"
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
#pragma GCC unroll 4
        for (Size n = 0; n < along; ++n) middle += x[n];
        middle = single::divide(middle, count);
    }
#pragma GCC unroll 4
    for (Size n = 0; n < along; ++n) squares += (x[n] - middle) * (x[n] - middle);
    return {middle, single::sqrt(single::divide(squares, count) + float_of(epsilon_bits))};
}
__attribute__((noinline)) inline int8_t single_result(float x, const SingleRow &row, const ToAffine &to) {
    return requantize<int8_t>(row.root == 0.0f ? 0.0f : single::divide(x - row.middle, row.root), to);
}

// The moments of a row of up to 8192 codes less their zero point: of the codes themselves, where that is quicker
inline Moments row_moments(const int8_t *x, Size along, int zero) {
#if defined(__ARM_FEATURE_DSP) || defined(HIL_DSP_PORTABLE)
    const Moments m = moments_of<false>(x, along, 0, 0);
    const int32_t zeros = static_cast<int32_t>(along) * zero;
    return {m.sum - zeros, m.squares - zero * (2 * m.sum - zeros)};
#else
    return moments_of(x, along, in_both(zero), zero);
#endif
}

// How a row's codes become results. These are wrong by `base` and by `rate` for each code that they are from zero.
struct RowDecided {
    CodeRounder rounder;
    float base, rate;
};
// What a factor that is cut is wrong for 255 codes, and what is cut elsewhere: a product of it, two parts of the start, the bound
constexpr int32_t row_slack = (255 >> (code_factor_bits - code_bits)) + 6;
inline int32_t row_bound(float error) { return static_cast<int32_t>(error * code_one) + row_slack; }
// Mean and deviation from exact sums. In units: partial sums of k elements are below length * root(n k), `length` being the root mean
// square, so the floats' mean is wrong by at most (2 / 3 n + 7) of it, what stands for it here by 3, differences by 260 codes of their own
// rounding more. What the mean is wrong joins the sum of squares squared, for differences from the true mean
// have none; what elements are wrong joins it by at most twice length * deviation, rounding by (n + 5) of it; the root halves that.
// The sum has 31 bits for up to 5.6 results a code.
template <int C>
inline RowDecided row_decided(const Moments &m, Size along, const Real32<Ram<int8_t>> &x, float epsilon, const ToAffine &to) {
    const float n = static_cast<float>(along), reciprocal = single::divide(1.0f, n), inverse = float_of(to.inverse_bits);
    const float largest = static_cast<float>(130 + (to.zero < 0 ? -to.zero : to.zero));  // beyond it results saturate
    const int32_t sum = C ? m.sum : 0;
    const int64_t spread = static_cast<int64_t>(along) * m.squares - static_cast<int64_t>(sum) * sum;
    const float variance = (static_cast<float>(spread) * reciprocal) * reciprocal;
    const float units = single::divide(x.scale * inverse, single::sqrt(variance * (x.scale * x.scale) + epsilon));
    const float length = single::sqrt(static_cast<float>(m.squares) * reciprocal);
    const float ratio = single::divide(length, single::sqrt(variance)), of_mean = C ? (n + 5.0f) * ratio : 0.0f;
    const float base = float_unit * (units * ((C ? (n * 0.6667f + 10.0f) * length : 0.0f) + 260.0f));
    const float rate = float_unit * (ratio + n * 0.5f + 20.0f + of_mean * of_mean * float_unit);
    const float error = base + largest * rate;
    if (spread <= 0 || !(units < 5.6f) || !(error < 0.05f)) return {all_open, 1.0f, 0.0f};
    const int32_t factor = static_cast<int32_t>(units * code_factor_one);
    const int32_t middle = static_cast<int32_t>((units * (static_cast<float>(sum) * reciprocal)) * code_one);
    const CodeRounder codes = {factor, 0, 0};
    return {code_rounder(factor, -middle - codes.of(x.zero), row_bound(error), to.zero), base, rate};
}
inline int32_t bound_of(const RowDecided &by) { return static_cast<int32_t>(by.rounder.open >> (32 - code_bits)) / 2; }
// Whether an approximation that is open within the bound of all results of its row is so within its own
inline bool is_open_by_itself(int32_t t, const RowDecided &by, int zero) {
    const int32_t bound = bound_of(by);
    const int32_t value = t - bound - (int32_t(1) << (code_bits - 1)) - static_cast<int32_t>(static_cast<uint32_t>(zero) << code_bits);
    const float size = static_cast<float>(value < 0 ? -value : value) * (1.0f / code_one) + 1.0f;
    const int32_t beyond_tie = static_cast<int32_t>(static_cast<uint32_t>(t - bound) << (32 - code_bits)) >> (32 - code_bits);
    return (beyond_tie < 0 ? -beyond_tie : beyond_tie) <= row_bound(by.base + size * by.rate);
}

template <class Acc, int C, int N>
void single_normalize(int8_t *out, Real32<Ram<int8_t>> x, Size outer, Size along, Size inner, Centre<C> centre, Mean<1> mean,
                      uint32_t epsilon_bits, ToPower<N> power, ToAffine to) {
    if (inner != 1 || N != 0 || along > 8192) {
        return single_normalize<Acc, int8_t>(out, x, outer, along, inner, centre, mean, epsilon_bits, power, to);
    }
    for (; outer > 0; --outer, x = x + along, out += along) {
        const RowDecided by = row_decided<C>(row_moments(x.codes.at, along, x.zero), along, x, float_of(epsilon_bits), to);
        const CodeRounder &rounder = by.rounder;
        const int8_t *const codes = x.codes.at;
        SingleRow row = {0.0f, -1.0f};
        const auto one = [&](Size k) __attribute__((noinline)) {
            const int32_t t = rounder.of(codes[k]);
            if (!rounder.is_open(t) || !is_open_by_itself(t, by, to.zero)) {
                out[k] = saturate<int8_t>(static_cast<int32_t>((t - bound_of(by)) >> code_bits));
                return;
            }
            if (row.root < 0.0f) row = single_row<C>(x, along, epsilon_bits);
            out[k] = single_result(x[k], row, to);
        };
        round_bytes(out, codes, along, rounder, one);
    }
}

#if defined(__ARM_FEATURE_DSP) || defined(HIL_DSP_PORTABLE)
// ---- normalisation in fixed point

inline Moments moments_of(Ram<int8_t> x, Size count) { return row_moments(x.at, count, 0); }
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

// normalized_root by way of a root in single precision, which is wrong by at most two
inline Root quick_root(uint64_t radicand) {
    const uint32_t high = static_cast<uint32_t>(radicand >> 32), low = static_cast<uint32_t>(radicand);
    const int bits = high != 0 ? 64 - leading_zeros(high) : 32 - leading_zeros(low);
    const int16_t halves = static_cast<int16_t>((48 - bits) >> 1);
    const uint64_t moved = halves >= 0 ? radicand << (2 * halves) : radicand >> (-2 * halves);
    uint32_t root = static_cast<uint32_t>(single::sqrt(static_cast<float>(static_cast<uint32_t>(moved >> 16))) * 256.0f);
    while (static_cast<uint64_t>(root) * root > moved) --root;
    while (static_cast<uint64_t>(root + 1) * (root + 1) <= moved) ++root;
    return {root, halves};
}

// Rows (unit * x - total) * 2^power / root: what decides an element that is open
struct RowQuotient {
    int32_t unit, total;
    uint32_t root;
    int power;
    template <class Out>
    Out of(int32_t x) const {
        const int64_t denominator = static_cast<int64_t>(root) << (power < 0 ? -power : 0);
        const int64_t numerator = (static_cast<int64_t>(unit) * x - total) * (int64_t(1) << (power > 0 ? power : 0));
        return saturate<Out>(rounded_quotient<int64_t>(numerator, denominator));
    }
};
// Whether a row of bytes was rounded by one product each. With a reciprocal of 30 bits that is wrong by less than 2^-29 of itself, factor
// and start by a unit each and a product by one: together less than 3 units for codes of 8 bits.
template <class Out, class T>
inline bool is_rounded(Out *, Ram<T>, Size, const RowQuotient &, int32_t) {
    return false;
}
inline bool is_rounded(int8_t *out, Ram<int8_t> x, Size along, const RowQuotient &row, int32_t reciprocal) {
    constexpr int32_t bound = 3;
    constexpr int64_t most = int64_t(1) << (code_factor_bits + 2), farthest = int64_t(1) << (code_bits + 9);
    const int right = 53 - code_factor_bits - row.power, start_right = 53 - code_bits - row.power;
    if (right < 0 || start_right > 62) return false;
    const int64_t factor = (static_cast<int64_t>(row.unit) * reciprocal) >> right;
    const int64_t start = (static_cast<int64_t>(row.total) * reciprocal) >> start_right;
    if (factor >= most || start >= farthest || start <= -farthest) return false;
    const CodeRounder rounder = code_rounder(static_cast<int32_t>(factor), -static_cast<int32_t>(start), bound, 0);
    const auto one = [&](Size k) __attribute__((noinline)) {
        const int32_t t = rounder.of(x[k]);
        out[k] = rounder.is_open(t) ? row.of<int8_t>(x[k]) : saturate<int8_t>(static_cast<int32_t>(t >> code_bits));
    };
    round_bytes(out, x.at, along, rounder, one);
    return true;
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
        const uint64_t radicand = static_cast<uint64_t>(spread * (int64_t(1) << (2 * lift)) + epsilon);
        const Root root = radicand == 0 ? normalized_root(radicand) : quick_root(radicand);
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
        const RowQuotient row = {unit, total, root.value, power};
        if (is_rounded(out, x, along, row, reciprocal)) continue;
        const Decided round = decided(f, 2, 0);
        const int32_t factor = static_cast<int32_t>(static_cast<uint32_t>(unit) << left), start = -total * (int32_t(1) << left);
        for (Size n = 0; n < along; ++n) {
            const int32_t d = x[n] * factor + start;
            const int32_t t = static_cast<int32_t>((static_cast<int64_t>(d) * reciprocal) >> 32) + round.start;
            if (__builtin_expect(is_open(t, round), 0)) {
                out[n] = row.of<Out>(x[n]);
            } else {
                out[n] = saturate<Out>(static_cast<int32_t>(t >> f));
            }
        }
    }
}
#endif

}  // namespace hil

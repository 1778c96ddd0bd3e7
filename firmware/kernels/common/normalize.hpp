// Rows less their mean over their deviation (tinyhil/ops/normalize.py).
#pragma once
#include "firmware/kernels/common/division.hpp"

namespace hil {

// floor(sqrt(value) * 2^halves), a number of 24 bits, or 0 for 0
struct Root {
    uint32_t value;
    int16_t halves;
};

inline Root normalized_root(uint64_t radicand) {
    int16_t bits = 0;
    for (uint64_t rest = radicand; rest != 0; rest >>= 1) ++bits;
    const int16_t halves = static_cast<int16_t>((48 - bits) >> 1);
    const uint64_t moved = halves >= 0 ? radicand << (2 * halves) : radicand >> (-2 * halves);
    return {static_cast<uint32_t>(whole_root<uint64_t>(moved)), halves};
}

template <class Acc, class Out, class X>
void normalize(Out *out, X x, Size outer, Size along, Size inner, int32_t unit, int centre, int32_t epsilon_low, int32_t epsilon_high,
               int lift, int exponent) {
    const int64_t epsilon = (static_cast<int64_t>(epsilon_high) << 31) + epsilon_low;
    for (; outer > 0; --outer, x = x + along * inner, out += along * inner) {
        for (Size i = 0; i < inner; ++i) {
            const Size end = i + along * inner;
            int32_t total = 0;
            int64_t squares = 0;
            for (Size n = i; n < end; n += inner) {
                const int32_t value = x[n];
                total += value;
                squares += static_cast<uint32_t>(value * value);
            }
            if (!centre) total = 0;
            const int64_t spread = unit * squares - static_cast<int64_t>(total) * total;
            const int64_t radicand = spread * (int64_t(1) << (2 * lift)) + epsilon;
            const Root root = normalized_root(static_cast<uint64_t>(radicand));
            const int wanted = root.halves + lift - exponent, power = wanted > 62 ? 62 : wanted;
            const int64_t denominator = static_cast<int64_t>(root.value) << (power < 0 ? -power : 0);
            for (Size n = i; n < end; n += inner) {
                const int64_t numerator = (static_cast<int64_t>(unit) * x[n] - total) * (int64_t(1) << (power > 0 ? power : 0));
                out[n] = root.value == 0 ? Out(0) : saturate<Out>(rounded_quotient<int64_t>(numerator, denominator));
            }
        }
    }
}

}  // namespace hil

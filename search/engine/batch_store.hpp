// One rounding into a format, for BATCH results at once: what `requantize` and the formats' `encode` do in numpy.
#pragma once
#include "batch.hpp"

namespace batch_engine {

// Doubles and, unless null, what they leave out (only its sign matters): floor(v + 1/2), ties that are none from below.
inline void to_fixed(const Tensor &t, const double *v, const double *rest, double *out, int32_t *counts) {
    const double low = static_cast<double>(t.lowest), high = static_cast<double>(t.highest);
    for (int l = 0; l < BATCH; ++l) {
        const bool lost = !(v[l] == v[l]);
        const double moved = (lost ? 0.0 : v[l]) + 0.5, whole = std::floor(moved);
        const double integer = rest != nullptr && whole == moved && rest[l] < 0 ? whole - 1 : whole;
        const double clipped = integer < low ? low : integer > high ? high : integer;
        counts[l] += clipped != integer || lost;
        out[l] = clipped;
    }
}

// 1 for what is not below zero, else -1
inline void to_sign(const double *v, const double *rest, double *out, int32_t *counts) {
    for (int l = 0; l < BATCH; ++l) {
        const bool below = v[l] < 0 || (rest != nullptr && v[l] == 0 && rest[l] < 0);
        counts[l] += !(v[l] == v[l]);
        out[l] = below ? -1.0 : 1.0;
    }
}

// Below, choices are made by arithmetic, every number has 64 bits and no constant is shifted by a variable: compilers
// then take the whole batch at once.

// The bits of scale and fraction are cut at a place that depends on the regime: to nearest, ties to the even code.
template <bool Rest>
void to_posit(const Tensor &t, const double *v, const double *rest, double *out, int32_t *counts) {
    const int64_t es = t.es, limit = (t.bits - 2) << es, body_bits = t.bits - 1;
    const double top = t.largest, least = 1.0 / top;
    int64_t clipped[BATCH];
    for (int l = 0; l < BATCH; ++l) {
        const double value = v[l], size = std::fabs(value);
        const int64_t magnitude = static_cast<int64_t>(bits_of(size));
        const double beyond = !Rest ? 0.0 : value < 0 ? -rest[l] : rest[l];
        const int64_t power = (magnitude >> 52) - 1023;
        const int64_t low = power < -limit ? -limit : power, scale = low > limit - 1 ? limit - 1 : low;
        const int64_t k = scale >> es, negative = k >> 63;  // regime, -1 if below 1
        const int64_t room = body_bits - ((k ^ negative) + 2), cut = 52 + es - room;
        const int64_t line = scale * (int64_t(1) << 52) + (magnitude & ((int64_t(1) << 52) - 1));
        const int64_t quotient = line >> cut, lower = quotient << cut, unit = ((quotient + 1) << cut) - lower, twice = (line - lower) * 2;
        const int64_t odd = room > 0 ? quotient & 1 : -negative;
        const int64_t tie = twice == unit ? 1 : 0, above = twice > unit ? 1 : 0;
        const int64_t more = beyond > 0 ? 1 : 0, level = beyond == 0 ? odd : 0;
        const int64_t rounded = lower + (-(above | (tie & (more | level))) & unit);
        double result = of_bits(static_cast<uint64_t>(rounded + (int64_t(1023) << 52)));
        result = power < -limit ? least : result;
        result = size >= top ? top : result;
        result = size == 0 ? 0.0 : result;
        const int64_t over = size > top ? 1 : 0, at = size == top ? more : 0, lost = size == size ? 0 : 1;
        clipped[l] = over | at | lost;
        result = value < 0 ? -result : result;
        out[l] = size == size ? result : value;
    }
    for (int l = 0; l < BATCH; ++l) counts[l] += static_cast<int32_t>(clipped[l]);
}

// Minifloats and IEEE formats; `signed_zero`: zeros keep their sign (IEEE), else only what underflows does.
template <bool Rest>
void to_floating(const Tensor &t, const double *v, const double *rest, double *out, int32_t *counts, bool signed_zero) {
    const int64_t granule = t.granule, mantissa = t.mantissa, even = t.mantissa ? 0 : 1;
    const int64_t signs = signed_zero ? INT64_MIN : 0;
    const double top = t.largest, nan = t.has_nan ? NAN : 0.0;
    int64_t clipped[BATCH];
    for (int l = 0; l < BATCH; ++l) {
        const double value = v[l], size = std::fabs(value);
        const int64_t magnitude = static_cast<int64_t>(bits_of(size)), word = static_cast<int64_t>(bits_of(value));
        const double beyond = !Rest ? 0.0 : value < 0 ? -rest[l] : rest[l];
        const int64_t power = (magnitude >> 52) - 1023;
        const int64_t last = power - mantissa > granule ? power - mantissa : granule;  // weight of the lowest bit
        const int64_t moved = 52 - power + last, cut = moved > 60 ? 60 : moved;
        const int64_t whole = magnitude == 0 ? 0 : (magnitude & ((int64_t(1) << 52) - 1)) | (int64_t(1) << 52);
        const int64_t quotient = whole >> cut, lower = quotient << cut, half = (((quotient + 1) << (cut - 1)) - (quotient << (cut - 1)));
        const int64_t left = whole - lower;
        const int64_t odd = (quotient + even * (last - granule)) & 1;
        const int64_t tie = left == half ? 1 : 0, above = left > half ? 1 : 0;
        const int64_t more = beyond > 0 ? 1 : 0, level = beyond == 0 ? odd : 0;
        const int64_t exponent = last > 1000 ? 1000 : last;
        const double unit = of_bits(static_cast<uint64_t>(exponent + 1023) << 52);
        const double result = static_cast<double>(quotient + (above | (tie & (more | level)))) * unit;
        const int64_t within = result <= top ? 1 : 0, finite = size <= 1.7976931348623157e308 ? 1 : 0;
        clipped[l] = 1 - (within & finite);
        const double limited = clipped[l] != 0 ? top : result;
        const int64_t below = value < 0 ? INT64_MIN : 0, sign = below | (word & signs);
        const double made = of_bits(bits_of(limited) ^ static_cast<uint64_t>(sign));
        out[l] = size == size ? made : nan;
    }
    for (int l = 0; l < BATCH; ++l) counts[l] += static_cast<int32_t>(clipped[l]);
}

inline void to_posit(const Tensor &t, const double *v, const double *rest, double *out, int32_t *counts) {
    if (rest == nullptr) to_posit<false>(t, v, rest, out, counts);
    else to_posit<true>(t, v, rest, out, counts);
}
inline void to_floating(const Tensor &t, const double *v, const double *rest, double *out, int32_t *counts,
                        bool signed_zero) {
    if (rest == nullptr) to_floating<false>(t, v, rest, out, counts, signed_zero);
    else to_floating<true>(t, v, rest, out, counts, signed_zero);
}

inline Tensor single_precision() {
    Tensor t{};
    t.rule = FLOATING, t.kind = FLOATS, t.mantissa = 23, t.granule = -149, t.has_nan = 1;
    t.largest = 3.4028234663852886e38;
    return t;
}

// Where the results of an operation go: tensor `out` scaled by 2^-shift.
struct Store {
    Machine &m;
    const Tensor &t;
    uint8_t *out;
    int64_t shift;
    double factor;
    bool clamps = false;  // rounded sums to lowest..highest first, which counts as no saturation
    int64_t lowest = 0, highest = 0;

    Store(Machine &machine, const Op &op, int64_t by)
        : m(machine), t(machine.tensors[op.out]), out(machine.at[op.out]), shift(by), factor(power_of_two(-by)) {}

    void shift_by(int64_t by) {
        if (by == shift) return;
        shift = by;
        factor = power_of_two(-by);
    }

    template <class A>
    void ints(int64_t element, const A *sums) {
        if (t.rule == FIXED && t.kind == INTS) {
            int32_t *to = reinterpret_cast<int32_t *>(out) + element * BATCH;
            const A low = static_cast<A>(t.lowest), high = static_cast<A>(t.highest);
            const int right = static_cast<int>(shift > 0 ? shift : 0), left = static_cast<int>(shift < 0 ? -shift : 0);
            const A half = right > 0 ? A(A(1) << (right - 1)) : A(0);
            A clamped[BATCH];
            if (clamps) {
                for (int l = 0; l < BATCH; ++l) {
                    const A rounded = right > 0 ? A((sums[l] + half) >> right) : A(sums[l] << left);
                    clamped[l] = rounded < lowest ? A(lowest) : rounded > highest ? A(highest) : rounded;
                }
            }
            for (int l = 0; l < BATCH; ++l) {
                const A rounded = clamps ? clamped[l] : right > 0 ? A((sums[l] + half) >> right) : A(sums[l] << left);
                const A clipped = rounded < low ? low : rounded > high ? high : rounded;
                m.counts[l] += clipped != rounded;
                to[l] = static_cast<int32_t>(clipped);
            }
            return;
        }
        if (t.rule == SIGN) {
            int32_t *to = reinterpret_cast<int32_t *>(out) + element * BATCH;
            for (int l = 0; l < BATCH; ++l) to[l] = sums[l] < 0 ? -1 : 1;
            return;
        }
        if (t.rule == AFFINE) {
            float values[BATCH];
            for (int l = 0; l < BATCH; ++l) values[l] = static_cast<float>(sums[l]);
            affine(element, values);
            return;
        }
        double value[BATCH], rest[BATCH];
        for (int l = 0; l < BATCH; ++l) {
            value[l] = static_cast<double>(sums[l]);
            const A back = value[l] >= 9223372036854775808.0 ? A(INT64_MAX) : static_cast<A>(value[l]);
            rest[l] = value[l] >= 9223372036854775808.0 ? -1.0 : sums[l] > back ? 1.0 : sums[l] < back ? -1.0 : 0.0;
        }
        for (int l = 0; l < BATCH; ++l) value[l] *= factor;
        encoded(element, value, rest);
    }

    // Unscaled doubles; `rest` has the sign of what they leave out, null for nothing.
    void exact(int64_t element, const double *sums, const double *rest) {
        double value[BATCH];
        if (t.rule == AFFINE) {
            static const Tensor single = single_precision();
            int32_t uncounted[BATCH] = {};
            float values[BATCH];
            to_floating(single, sums, rest, value, uncounted, true);
            for (int l = 0; l < BATCH; ++l) values[l] = static_cast<float>(value[l]);
            affine(element, values);
            return;
        }
        for (int l = 0; l < BATCH; ++l) value[l] = sums[l] * factor;
        encoded(element, value, rest);
    }

    void single(int64_t element, const float *sums) {
        if (t.rule == AFFINE) {
            affine(element, sums);
            return;
        }
        double value[BATCH];
        for (int l = 0; l < BATCH; ++l) value[l] = static_cast<double>(sums[l]) * factor;
        encoded(element, value, nullptr);
    }

    void encoded(int64_t element, const double *value, const double *rest) {
        double made[BATCH];
        if (t.rule == FIXED) to_fixed(t, value, rest, made, m.counts);
        else if (t.rule == SIGN) to_sign(value, rest, made, m.counts);
        else if (t.rule == POSIT) to_posit(t, value, rest, made, m.counts);
        else to_floating(t, value, rest, made, m.counts, t.kind == FLOATS);
        raw(element, made);
    }

    // Finished numbers.
    void raw(int64_t element, const double *made) {
        if (t.kind == INTS) {
            int32_t *to = reinterpret_cast<int32_t *>(out) + element * BATCH;
            for (int l = 0; l < BATCH; ++l) to[l] = static_cast<int32_t>(made[l]);
        } else if (t.kind == DOUBLES) {
            double *to = reinterpret_cast<double *>(out) + element * BATCH;
            for (int l = 0; l < BATCH; ++l) to[l] = made[l];
        } else {
            float *to = reinterpret_cast<float *>(out) + element * BATCH;
            for (int l = 0; l < BATCH; ++l) to[l] = static_cast<float>(made[l]);
        }
    }

    // Codes of a layer of asymmetric integers, before they are limited.
    void limited(int64_t element, const int64_t *codes) {
        int32_t *to = reinterpret_cast<int32_t *>(out) + element * BATCH;
        if (t.rule == SIGN) {
            for (int l = 0; l < BATCH; ++l) to[l] = codes[l] < 0 ? -1 : 1;
            return;
        }
        for (int l = 0; l < BATCH; ++l) {
            const int64_t clipped = codes[l] < t.lowest ? t.lowest : codes[l] > t.highest ? t.highest : codes[l];
            m.counts[l] += clipped != codes[l];
            to[l] = static_cast<int32_t>(clipped);
        }
    }

    // Single precision times the rounded reciprocal of the scale, ties to even.
    void affine(int64_t element, const float *sums) {
        int64_t codes[BATCH];
        const float inverse = static_cast<float>(t.inverse);
        int32_t lost[BATCH];
        for (int l = 0; l < BATCH; ++l) {
            const float scaled = static_cast<float>(static_cast<double>(sums[l]) * factor);
            const float units = scaled * inverse;
            lost[l] = !(units == units);
            const float limited = lost[l] ? 0.0f : units < -100000.0f ? -100000.0f : units > 100000.0f ? 100000.0f : units;
            codes[l] = static_cast<int64_t>(std::nearbyint(limited)) + t.zero;
        }
        for (int l = 0; l < BATCH; ++l) m.counts[l] += lost[l] && codes[l] >= t.lowest && codes[l] <= t.highest;
        limited(element, codes);
    }
};

}  // namespace batch_engine

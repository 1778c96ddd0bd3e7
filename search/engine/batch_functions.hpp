// Reductions, windows without weights, and functions in single precision.
#pragma once
#include "batch_elements.hpp"

namespace batch_engine {

template <class N> struct Running { using type = N; };
template <> struct Running<int32_t> { using type = int64_t; };

inline void put(Store &store, int64_t e, const int64_t *x) { store.ints(e, x); }
inline void put(Store &store, int64_t e, const float *x) { store.single(e, x); }
inline void put(Store &store, int64_t e, const double *x) { store.exact(e, x, nullptr); }

// params: outer, along, inner, shift, factor
template <class N>
void sum_along(Machine &m, const Op &op) {
    using A = typename Running<N>::type;
    const int64_t outer = op.params[0], along = op.params[1], inner = op.params[2];
    Store store(m, op, op.params[3]);
    const N *x = m.operand<N>(op, 0);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            A sum[BATCH] = {};
            for (int64_t k = 0; k < along; ++k) {
                const N *from = x + ((o * along + k) * inner + i) * BATCH;
                for (int l = 0; l < BATCH; ++l) sum[l] += from[l];
            }
            for (int l = 0; l < BATCH; ++l) sum[l] *= static_cast<A>(op.params[4]);
            put(store, o * inner + i, sum);
        }
    }
}
inline void reduce_sum(Machine &m, const Op &op) {
    if (op.domain == INTEGER) sum_along<int32_t>(m, op);
    else sum_along<float>(m, op);
}

// The first of the largest (sign 1) or smallest numbers, or its index.
template <class N>
void extreme_along(Machine &m, const Op &op, int sign, bool index) {
    using A = typename Running<N>::type;
    const int64_t outer = op.params[0], along = op.params[1], inner = op.params[2];
    Store store(m, op, op.params[3]);
    const N *x = m.operand<N>(op, 0);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            const N *from = x + (o * along * inner + i) * BATCH;
            N best[BATCH];
            int64_t at[BATCH] = {};
            memcpy(best, from, sizeof best);
            for (int64_t k = 1; k < along; ++k) {
                const N *next = from + k * inner * BATCH;
                for (int l = 0; l < BATCH; ++l) {
                    const bool better = sign > 0 ? next[l] > best[l] : next[l] < best[l];
                    at[l] = better ? k : at[l];
                    best[l] = better ? next[l] : best[l];
                }
            }
            A wide[BATCH];
            for (int l = 0; l < BATCH; ++l) wide[l] = best[l];
            if (index) put(store, o * inner + i, at);
            else put(store, o * inner + i, wide);
        }
    }
}
inline void extreme_any(Machine &m, const Op &op, int sign, bool index) {
    if (op.domain == INTEGER) extreme_along<int32_t>(m, op, sign, index);
    else extreme_along<float>(m, op, sign, index);
}
inline void reduce_max(Machine &m, const Op &op) { extreme_any(m, op, 1, false); }
inline void reduce_min(Machine &m, const Op &op) { extreme_any(m, op, -1, false); }
inline void arg_max(Machine &m, const Op &op) { extreme_any(m, op, 1, true); }

// params: shift, window from [10] on
template <class N>
void max_windows(Machine &m, const Op &op, N lowest) {
    using A = typename Running<N>::type;
    Window w;
    memcpy(&w, op.params + 10, sizeof w);
    Store store(m, op, op.params[0]);
    const N *x = m.operand<N>(op, 0);
    const int64_t positions = w.kernel_y * w.kernel_x;
    N *patch = m.buffer<N>(3, positions);
    int64_t element = 0;
    for (int64_t c = 0; c < w.channels; ++c) {
        for (int64_t pixel = 0; pixel < w.out_height * w.out_width; ++pixel, ++element) {
            gather_patch(w, x, c, 1, pixel / w.out_width, pixel % w.out_width, lowest, patch);
            A best[BATCH];
            for (int l = 0; l < BATCH; ++l) best[l] = patch[l];
            for (int64_t k = 1; k < positions; ++k) {
                for (int l = 0; l < BATCH; ++l) best[l] = patch[k * BATCH + l] > best[l] ? A(patch[k * BATCH + l]) : best[l];
            }
            if constexpr (std::is_same<N, int32_t>::value) {
                if (op.mode == RAW) store.limited(element, best);
                else put(store, element, best);
            } else {
                put(store, element, best);
            }
        }
    }
}
inline void max_pool(Machine &m, const Op &op) {
    if (op.domain == INTEGER) max_windows<int32_t>(m, op, -(1 << 15));
    else max_windows<float>(m, op, -INFINITY);
}

// params: shift; data[2]: the factor of each pixel
template <class N>
void mean_windows(Machine &m, const Op &op) {
    using A = typename Running<N>::type;
    Window w;
    memcpy(&w, op.params + 10, sizeof w);
    Store store(m, op, op.params[0]);
    const N *x = m.operand<N>(op, 0);
    const int64_t positions = w.kernel_y * w.kernel_x;
    N *patch = m.buffer<N>(3, positions);
    int64_t element = 0;
    for (int64_t c = 0; c < w.channels; ++c) {
        for (int64_t pixel = 0; pixel < w.out_height * w.out_width; ++pixel, ++element) {
            gather_patch(w, x, c, 1, pixel / w.out_width, pixel % w.out_width, N(0), patch);
            A sum[BATCH] = {};
            for (int64_t k = 0; k < positions; ++k) {
                for (int l = 0; l < BATCH; ++l) sum[l] += patch[k * BATCH + l];
            }
            for (int l = 0; l < BATCH; ++l) sum[l] *= static_cast<A>(op.constants<int64_t>(2)[pixel]);
            put(store, element, sum);
        }
    }
}
inline void average_pool(Machine &m, const Op &op) {
    if (op.domain == INTEGER) mean_windows<int32_t>(m, op);
    else mean_windows<float>(m, op);
}

// params: -, zero of x, zero; data[2], data[3]: multiplier and shift of each pixel; padding counts as zero
inline void average_pool_affine(Machine &m, const Op &op) {
    Window w;
    memcpy(&w, op.params + 10, sizeof w);
    Store store(m, op, 0);
    const int32_t *x = m.operand<int32_t>(op, 0), zero = static_cast<int32_t>(op.params[1]);
    const int64_t *multipliers = op.constants<int64_t>(2), *shifts = op.constants<int64_t>(3);
    const int64_t positions = w.kernel_y * w.kernel_x;
    int32_t *patch = m.buffer<int32_t>(3, positions);
    int64_t element = 0;
    for (int64_t c = 0; c < w.channels; ++c) {
        for (int64_t pixel = 0; pixel < w.out_height * w.out_width; ++pixel, ++element) {
            gather_patch(w, x, c, 1, pixel / w.out_width, pixel % w.out_width, zero, patch);
            int64_t codes[BATCH] = {};
            for (int64_t k = 0; k < positions; ++k) {
                for (int l = 0; l < BATCH; ++l) codes[l] += patch[k * BATCH + l] - zero;
            }
            for (int l = 0; l < BATCH; ++l) {
                const int64_t size = Layer::once(codes[l] < 0 ? -codes[l] : codes[l], multipliers[pixel], shifts[pixel]);
                codes[l] = (codes[l] < 0 ? -size : size) + op.params[2];
            }
            keep_within(op, codes);
            store.limited(element, codes);
        }
    }
}

// `bits` significant bits of value + residue, the lowest set if anything was lost (tinyhil/formats/exact.py).
inline double odd(double value, double residue, int64_t bits) {
    const int64_t word = static_cast<int64_t>(bits_of(value)), field = (word >> 52) & 0x7FF;
    if (field == 0) return 0.0;  // no number here is that small
    const bool just_below = (word & ((int64_t(1) << 52) - 1)) == 0 && value * residue < 0;
    const int64_t power = field - 1022 - just_below - bits;
    const double moved = value * power_of_two(-power), floored = std::floor(moved);
    const double whole = floored - (moved == floored && residue < 0);
    const bool lost = moved != whole || residue != 0, even = (static_cast<int64_t>(whole) & 1) == 0;
    return (whole + (lost && even)) * power_of_two(power);
}

// Differences rounded to odd, their squares cut into the window.
inline void coded_distance(Machine &m, const Op &op) {
    const int64_t rows = op.params[0], inner = op.params[1];
    const double left = power_of_two(op.params[4]), right = power_of_two(op.params[5]);
    const double down = power_of_two(-op.params[9]), unit = power_of_two(op.params[9]);
    Store store(m, op, op.params[7]);
    const double *a = m.operand<double>(op, 0), *b = m.operand<double>(op, 1);
    double *const units = m.buffer<double>(3, inner), *const differences = m.buffer<double>(4, inner);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < inner; ++k) {
            const double *x = a + (r * op.params[2] + k) * BATCH, *y = b + (r * op.params[3] + k) * BATCH;
            for (int l = 0; l < BATCH; ++l) {
                const double p = x[l] * left, q = -y[l] * right, total = p + q, part = total - p;
                const double rounded = odd(total, (p - (total - part)) + (q - part), op.params[8]);
                differences[k * BATCH + l] = rounded;
                units[k * BATCH + l] = rounded * down;
            }
        }
        int64_t sum[BATCH] = {};
        window_sum(units, BATCH, true, differences, inner, op.reals[0], sum, m.counts);
        Layer::window_value(store, r, sum, unit);
    }
}

inline void single_distance(Machine &m, const Op &op) {
    const double left = power_of_two(op.params[4]), right = power_of_two(op.params[5]);
    Store store(m, op, op.params[7]);
    const float *a = m.operand<float>(op, 0), *b = m.operand<float>(op, 1);
    for (int64_t r = 0; r < op.params[0]; ++r) {
        float sum[BATCH] = {};
        for (int64_t k = 0; k < op.params[1]; ++k) {
            const float *x = a + (r * op.params[2] + k) * BATCH, *y = b + (r * op.params[3] + k) * BATCH;
            for (int l = 0; l < BATCH; ++l) {
                const float difference = scaled_float(x[l], left) - scaled_float(y[l], right);
                sum[l] += difference * difference;
            }
        }
        store.single(r, sum);
    }
}

// params: rows, inner, a_step, b_step, a_shift, b_shift, drop, shift; of coded operands also the bits kept of a
// difference and the window's lowest. Differences of integers are rounded to 16 bits first.
inline void squared_distance(Machine &m, const Op &op) {
    if (op.domain == CODED) return coded_distance(m, op);
    if (op.domain == SINGLE) return single_distance(m, op);
    const int64_t rows = op.params[0], inner = op.params[1];
    const int64_t half = op.params[6] > 0 ? int64_t(1) << (op.params[6] - 1) : 0;
    Store store(m, op, op.params[7]);
    const int32_t *a = m.operand<int32_t>(op, 0), *b = m.operand<int32_t>(op, 1);
    for (int64_t r = 0; r < rows; ++r) {
        int64_t sum[BATCH] = {};
        for (int64_t k = 0; k < inner; ++k) {
            const int32_t *x = a + (r * op.params[2] + k) * BATCH, *y = b + (r * op.params[3] + k) * BATCH;
            for (int l = 0; l < BATCH; ++l) {
                const int64_t difference = (int64_t(x[l]) << op.params[4]) - (int64_t(y[l]) << op.params[5]);
                const int64_t rounded = (difference + half) >> op.params[6];
                const int64_t clipped = rounded < -32768 ? -32768 : rounded > 32767 ? 32767 : rounded;
                m.counts[l] += clipped != rounded;
                sum[l] += clipped * clipped;
            }
        }
        store.ints(r, sum);
    }
}

// ---- single precision: the sequences of tinyhil/formats/single_functions.py, lane by lane

inline float as_float(int64_t bits) {
    const uint32_t word = static_cast<uint32_t>(bits);
    float value;
    memcpy(&value, &word, 4);
    return value;
}
inline float power_of_two_float(int64_t n) { return as_float((n + 127) << 23); }
inline float scaled_single(float x, int64_t n) {
    if (n > 127) x = x * power_of_two_float(127), n -= 127;
    else if (n < -126) x = x * power_of_two_float(-126), n += 126;
    return n > 127 || n < -126 ? x * static_cast<float>(std::ldexp(1.0, static_cast<int>(n))) : x * power_of_two_float(n);
}

template <size_t n>
inline float polynomial(float x, const float (&coefficients)[n]) {
    float value = coefficients[0];
    for (size_t i = 1; i < n; ++i) value = value * x + coefficients[i];
    return value;
}

constexpr float LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
constexpr float EXP[] = {0.000199193804f, 0.00139472249f, 0.00833326299f, 0.0416662544f, 0.166666672f, 0.5f};
constexpr float LOG[] = {0.0691560134f, -0.117941029f, 0.118750788f, -0.123837985f, 0.142183259f,
                         -0.166692704f, 0.200022429f, -0.249999866f, 0.333333105f};
constexpr float TANH[] = {0.00239899592f, -0.00841679052f, 0.0217837673f, -0.0539597906f, 0.133332953f, -0.333333313f};
constexpr float ERF[] = {-9.68013683e-06f, 0.000112705449f, -0.000848471129f, 0.00522107491f,
                         -0.0268654451f, 0.112837829f, -0.376126379f, 1.12837923f};
constexpr float ERFC[] = {2.16868502e-05f, -0.000441336364f, 0.00420456193f, -0.0252082571f,
                          0.108418576f, 0.633219898f, 1.12957847f, -0.000188040227f};

// x * 2^n for -151 < n < 129, as `scaled` has it: two factors where 2^n is no normal number.
inline float scaled_exp(float x, int32_t n) {
    const bool high = n > 127, low = n < -126;
    const float moved = high ? x * 1.7014118346046923e38f : low ? x * 1.1754943508222875e-38f : x;
    const int32_t rest = high ? n - 127 : low ? n + 126 : n;
    const uint32_t word = static_cast<uint32_t>(rest + 127) << 23;
    float power;
    memcpy(&power, &word, 4);
    return moved * power;
}
inline float exp_single(float x) {
    const bool inside_range = x <= 88.8f && x >= -104.0f;
    const float inside = inside_range ? x : 0.0f;
    const float whole = (inside * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (inside - whole * LN2_HIGH) - whole * LN2_LOW;
    const float power = (polynomial(r, EXP) * (r * r) + r) + 1.0f;
    const float result = scaled_exp(power, static_cast<int32_t>(whole));
    return x != x ? x : x > 88.8f ? INFINITY : x < -104.0f ? 0.0f : result;
}
inline float log_single(float x) {
    if (!(x > 0) || x > 3.4028234663852886e38f) return x == 0 ? -INFINITY : x > 0 ? INFINITY : NAN;
    int power;
    float mantissa = std::frexp(x, &power);
    if (mantissa < 0.70710678f) mantissa = mantissa + mantissa, power -= 1;
    const float f = mantissa - 1.0f, square = f * f, p = static_cast<float>(power);
    const float rest = (polynomial(f, LOG) * f) * square + p * LN2_LOW;
    return ((rest - square * 0.5f) + f) + p * LN2_HIGH;
}
inline float sigmoid_single(float x) {
    const float e = exp_single(-std::fabs(x));
    return (x < 0 ? e : 1.0f) / (e + 1.0f);
}
inline float tanh_single(float x) {
    const float size = std::fabs(x), square = size * size;
    const float near = (polynomial(square, TANH) * square) * size + size;
    const float far = 1.0f - 2.0f / (exp_single(size + size) + 1.0f);
    const float result = size < 0.55f ? near : far;
    return x < 0 ? -result : result;
}
inline float erf_single(float x) {
    const float size = std::fabs(x), inside = size < 4.0f ? size : 4.0f;
    const float near = polynomial(inside * inside, ERF) * inside;
    const float far = 1.0f - exp_single(-polynomial(inside, ERFC));
    const float result = size < 1.0f ? near : size < 4.0f ? far : 1.0f;
    return x != x ? x : x < 0 ? -result : result;
}

// params: count, power, first, second (bits of floats), shift
template <class F>
void unary(Machine &m, const Op &op, F function) {
    Store store(m, op, op.params[4]);
    const float *x = m.operand<float>(op, 0), first = as_float(op.params[2]), second = as_float(op.params[3]);
    for (int64_t e = 0; e < op.params[0]; ++e) {
        float given[BATCH], y[BATCH];
        for (int l = 0; l < BATCH; ++l) given[l] = scaled_single(x[e * BATCH + l], op.params[1]);
        for (int l = 0; l < BATCH; ++l) y[l] = function(given[l], first, second);
        store.single(e, y);
    }
}
inline void single_sigmoid(Machine &m, const Op &op) { unary(m, op, [](float x, float, float) { return sigmoid_single(x); }); }
inline void single_tanh(Machine &m, const Op &op) { unary(m, op, [](float x, float, float) { return tanh_single(x); }); }
inline void single_exp(Machine &m, const Op &op) { unary(m, op, [](float x, float factor, float) { return exp_single(factor * x); }); }
inline void single_log(Machine &m, const Op &op) { unary(m, op, [](float x, float, float) { return log_single(x); }); }
inline void single_sqrt(Machine &m, const Op &op) { unary(m, op, [](float x, float, float) { return std::sqrt(x); }); }
inline void single_reciprocal(Machine &m, const Op &op) { unary(m, op, [](float x, float, float) { return 1.0f / x; }); }
inline void single_erf(Machine &m, const Op &op) { unary(m, op, [](float x, float, float) { return erf_single(x); }); }
inline void single_gelu(Machine &m, const Op &op) {
    unary(m, op, [](float x, float, float) { return (x * 0.5f) * (erf_single(x * 0.70710678f) + 1.0f); });
}
inline void single_gelu_tanh(Machine &m, const Op &op) {
    unary(m, op, [](float x, float, float) {
        return (x * 0.5f) * (tanh_single((x + ((x * x) * x) * 0.044715f) * 0.7978846f) + 1.0f);
    });
}
inline void single_softplus(Machine &m, const Op &op) {
    unary(m, op, [](float x, float, float) { return (x > 0 ? x : 0.0f) + log_single(exp_single(-std::fabs(x)) + 1.0f); });
}
inline void single_elu(Machine &m, const Op &op) {
    unary(m, op, [](float x, float alpha, float scale) { return x < 0 ? alpha * (exp_single(x * scale) - 1.0f) : x; });
}
inline void single_clip(Machine &m, const Op &op) {
    unary(m, op, [](float x, float low, float high) {
        x = x < low ? low : x;
        return x > high ? high : x;
    });
}

inline void slopes(Machine &m, const Op &op) {
    unary(m, op, [](float x, float below, float above) { return (x < 0 ? below : above) * x; });
}
inline float gate(float x, float factor, float offset, float one) {
    const float line = x * factor + offset, above = line < 0 ? 0.0f : line;
    return above > one ? one : above;
}
inline void hard_sigmoid(Machine &m, const Op &op) {
    const float one = as_float(op.params[5]);
    unary(m, op, [one](float x, float factor, float offset) { return gate(x, factor, offset, one); });
}
inline void hard_swish(Machine &m, const Op &op) {
    const float one = as_float(op.params[5]);
    unary(m, op, [one](float x, float factor, float offset) { return gate(x, factor, offset, one) * x; });
}

// params: count, a_period, b_period, shift
inline void single_div(Machine &m, const Op &op) {
    Store store(m, op, op.params[3]);
    pairs<float>(m, op, [&](int64_t e, const float *a, const float *b) {
        float y[BATCH];
        for (int l = 0; l < BATCH; ++l) y[l] = a[l] / b[l];
        store.single(e, y);
    });
}

// params: outer, along, inner, shift, power
inline void single_softmax(Machine &m, const Op &op) {
    const int64_t outer = op.params[0], along = op.params[1], inner = op.params[2];
    Store store(m, op, op.params[3]);
    const float *x = m.operand<float>(op, 0);
    float *const e = m.buffer<float>(4, along);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            float top[BATCH], total[BATCH] = {};
            for (int64_t k = 0; k < along; ++k) {
                const float *from = x + ((o * along + k) * inner + i) * BATCH;
                for (int l = 0; l < BATCH; ++l) e[k * BATCH + l] = scaled_single(from[l], op.params[4]);
            }
            memcpy(top, e, sizeof top);
            for (int64_t k = 1; k < along; ++k) {
                for (int l = 0; l < BATCH; ++l) top[l] = e[k * BATCH + l] > top[l] ? e[k * BATCH + l] : top[l];
            }
            for (int64_t k = 0; k < along; ++k) {
                for (int l = 0; l < BATCH; ++l) {
                    e[k * BATCH + l] = exp_single(e[k * BATCH + l] - top[l]);
                    total[l] = total[l] + e[k * BATCH + l];
                }
            }
            for (int64_t k = 0; k < along; ++k) {
                float y[BATCH];
                for (int l = 0; l < BATCH; ++l) y[l] = e[k * BATCH + l] / total[l];
                store.single((o * along + k) * inner + i, y);
            }
        }
    }
}

// params: outer, along, inner, shift, power, centre, mean, epsilon (bits of a float)
inline void single_normalize(Machine &m, const Op &op) {
    const int64_t outer = op.params[0], along = op.params[1], inner = op.params[2];
    const float count = static_cast<float>(along), epsilon = as_float(op.params[7]);
    Store store(m, op, op.params[3]);
    const float *x = m.operand<float>(op, 0);
    float *const row = m.buffer<float>(4, along);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            float total[BATCH] = {}, power[BATCH] = {}, root[BATCH];
            for (int64_t k = 0; k < along; ++k) {
                const float *from = x + ((o * along + k) * inner + i) * BATCH;
                for (int l = 0; l < BATCH; ++l) {
                    row[k * BATCH + l] = scaled_single(from[l], op.params[4]);
                    total[l] += row[k * BATCH + l];
                }
            }
            for (int64_t k = 0; k < along; ++k) {
                for (int l = 0; l < BATCH; ++l) {
                    if (op.params[5]) row[k * BATCH + l] -= total[l] / count;
                    power[l] += row[k * BATCH + l] * row[k * BATCH + l];
                }
            }
            for (int l = 0; l < BATCH; ++l) root[l] = std::sqrt((op.params[6] ? power[l] / count : power[l]) + epsilon);
            for (int64_t k = 0; k < along; ++k) {
                float y[BATCH];
                for (int l = 0; l < BATCH; ++l) y[l] = root[l] == 0 ? 0.0f : row[k * BATCH + l] / root[l];
                store.single((o * along + k) * inner + i, y);
            }
        }
    }
}

}  // namespace batch_engine

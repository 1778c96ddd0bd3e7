// Functions of integers, as their numpy references have them: quotients, rows normalized, softmax; resizing.
#pragma once
#include "batch_functions.hpp"

namespace batch_engine {

inline int64_t floor_quotient(int64_t n, int64_t d) {  // d > 0
    const int64_t quotient = n / d;
    return quotient - (n % d < 0);
}
inline int64_t rounded_quotient(int64_t n, int64_t d) {  // d is not 0
    if (d < 0) n = -n, d = -d;
    return floor_quotient(2 * n + d, 2 * d);
}

// params: count, a_period, b_period, a_lift, b_lift
inline void div(Machine &m, const Op &op) {
    Store store(m, op, 0);
    pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
        int64_t quotient[BATCH];
        int32_t before[BATCH];
        memcpy(before, m.counts, sizeof before);
        for (int l = 0; l < BATCH; ++l) {
            const int64_t n = a[l], d = b[l];
            if (d == 0) quotient[l] = n == 0 ? 0 : n < 0 ? -(int64_t(1) << 40) : int64_t(1) << 40;
            else quotient[l] = rounded_quotient(n * (int64_t(1) << op.params[3]), d * (int64_t(1) << op.params[4]));
        }
        store.ints(e, quotient);
        for (int l = 0; l < BATCH; ++l) m.counts[l] = b[l] == 0 ? before[l] + 1 : m.counts[l];
    });
}

// exp(-distance * 2^(scale - 16)) * 2^19 (tinyhil/ops/softmax.py)
inline int64_t exp_negative(int64_t distance, int64_t scale, const int64_t *table) {
    constexpr int64_t last = 12 << 5, end = (last + 1) << 11;
    const int64_t moved = scale >= 0 ? distance << std::min<int64_t>(scale, 20) : distance >> std::min<int64_t>(-scale, 20);
    const int64_t t = moved < end ? moved : end, index = t >> 11, r = t & 2047;
    return index >= last ? 0 : (table[index] * (65536 - r + ((r * r) >> 17))) >> 12;
}

// params: outer, along, inner, scale, fraction bits; data[1]: the table
inline void softmax(Machine &m, const Op &op) {
    const int64_t outer = op.params[0], along = op.params[1], inner = op.params[2], bits = op.params[4];
    Store store(m, op, 0);
    const int32_t *x = m.operand<int32_t>(op, 0);
    const int64_t *table = op.constants<int64_t>(1);
    int64_t *const e = m.buffer<int64_t>(4, along);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            const int32_t *from = x + (o * along * inner + i) * BATCH;
            int64_t top[BATCH], total[BATCH] = {};
            for (int l = 0; l < BATCH; ++l) top[l] = from[l];
            for (int64_t k = 1; k < along; ++k) {
                for (int l = 0; l < BATCH; ++l) top[l] = std::max<int64_t>(top[l], from[k * inner * BATCH + l]);
            }
            for (int64_t k = 0; k < along; ++k) {
                for (int l = 0; l < BATCH; ++l) {
                    e[k * BATCH + l] = exp_negative(top[l] - from[k * inner * BATCH + l], op.params[3], table);
                    total[l] += e[k * BATCH + l];
                }
            }
            for (int64_t k = 0; k < along; ++k) {
                int64_t y[BATCH];
                for (int l = 0; l < BATCH; ++l) y[l] = ((e[k * BATCH + l] << bits) + total[l] / 2) / total[l];
                store.ints((o * along + k) * inner + i, y);
            }
        }
    }
}

// The upper half of 2 a b, rounded
inline int64_t doubled_product(int64_t a, int64_t b) { return (a * b + (int64_t(1) << 30)) >> 31; }

// 1 / (2 half) with 31 fraction bits
inline int64_t reciprocal_of_half(int64_t half) {
    int64_t r = 1515870810 + doubled_product(half, -1010580540);
    for (int step = 0; step < 3; ++step) r += 4 * doubled_product(r, (int64_t(1) << 29) - doubled_product(half, r));
    return std::min<int64_t>(2 * r, 0x7FFFFFFF);
}

// params: outer, along; codes of 8 bits (tinyhil/ops/affine_softmax.py); data[1]: exponentials of distances, 0 beyond
inline void softmax_affine(Machine &m, const Op &op) {
    const int64_t outer = op.params[0], along = op.params[1];
    Store store(m, op, 0);
    const int32_t *x = m.operand<int32_t>(op, 0);
    const int64_t *table = op.constants<int64_t>(1);
    for (int64_t o = 0; o < outer; ++o, x += along * BATCH) {
        int64_t top[BATCH], total[BATCH] = {}, r[BATCH], right[BATCH];
        for (int l = 0; l < BATCH; ++l) top[l] = x[l];
        for (int64_t k = 1; k < along; ++k) {
            for (int l = 0; l < BATCH; ++l) top[l] = std::max<int64_t>(top[l], x[k * BATCH + l]);
        }
        for (int64_t k = 0; k < along; ++k) {
            for (int l = 0; l < BATCH; ++l) total[l] += (table[top[l] - x[k * BATCH + l]] + 2048) >> 12;
        }
        for (int l = 0; l < BATCH; ++l) {
            const int zeros = __builtin_clz(static_cast<uint32_t>(total[l]));
            r[l] = reciprocal_of_half((total[l] << zeros) >> 1);
            right[l] = 35 - zeros;
        }
        for (int64_t k = 0; k < along; ++k) {
            int64_t codes[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const int64_t product = doubled_product(table[top[l] - x[k * BATCH + l]], r[l]);
                codes[l] = std::min<int64_t>((product + (int64_t(1) << (right[l] - 1))) >> right[l], 255) - 128;
            }
            store.limited(o * along + k, codes);
        }
    }
}

inline int64_t whole_root(int64_t radicand) {  // below 2^52
    int64_t root = static_cast<int64_t>(std::floor(std::sqrt(static_cast<double>(radicand))));
    root -= root * root > radicand;
    return root + ((root + 1) * (root + 1) <= radicand);
}

// params: outer, along, inner, unit, centre, epsilon (low 31 bits, the rest), lift, exponent (tinyhil/ops/normalize.py)
inline void normalize(Machine &m, const Op &op) {
    const int64_t outer = op.params[0], along = op.params[1], inner = op.params[2], unit = op.params[3];
    const int64_t epsilon = op.params[5] + op.params[6] * (int64_t(1) << 31);
    Store store(m, op, 0);
    const int32_t *x = m.operand<int32_t>(op, 0);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            const int32_t *from = x + (o * along * inner + i) * BATCH;
            int64_t total[BATCH] = {}, squares[BATCH] = {}, root[BATCH], up[BATCH], down[BATCH];
            for (int64_t k = 0; k < along; ++k) {
                const int32_t *row = from + k * inner * BATCH;
                for (int l = 0; l < BATCH; ++l) total[l] += row[l], squares[l] += int64_t(row[l]) * row[l];
            }
            for (int l = 0; l < BATCH; ++l) {
                total[l] *= op.params[4];
                const int64_t radicand = (unit * squares[l] - total[l] * total[l]) * (int64_t(1) << (2 * op.params[7])) + epsilon;
                const int64_t length = radicand == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(radicand));
                const int64_t halves = (48 - length) >> 1;
                root[l] = whole_root(halves >= 0 ? radicand << (2 * halves) : radicand >> (-2 * halves));
                const int64_t power = std::min<int64_t>(halves + op.params[7] - op.params[8], 62);
                up[l] = int64_t(1) << (power > 0 ? power : 0);
                down[l] = power < 0 ? -power : 0;
            }
            for (int64_t k = 0; k < along; ++k) {
                int64_t y[BATCH];
                for (int l = 0; l < BATCH; ++l) {
                    const int64_t above = (unit * from[k * inner * BATCH + l] - total[l]) * up[l];
                    y[l] = root[l] == 0 ? 0 : rounded_quotient(above, root[l] << down[l]);
                }
                store.ints((o * along + k) * inner + i, y);
            }
        }
    }
}

// Calls `each(element, a, b, weight of b)` for the two neighbours of each result.
template <class N, class Each>
void neighbours(Machine &m, const Op &op, Each each) {
    const int64_t outer = op.params[0], chosen = op.params[1], size = op.params[2], inner = op.params[3];
    const N *x = m.operand<N>(op, 0);
    const int64_t *pairs = op.constants<int64_t>(1);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t c = 0; c < chosen; ++c) {
            const int64_t low = pairs[2 * c], high = std::min(low + 1, size - 1);
            const N *a = x + (o * size + low) * inner * BATCH, *b = x + (o * size + high) * inner * BATCH;
            for (int64_t i = 0; i < inner; ++i, a += BATCH, b += BATCH) each((o * chosen + c) * inner + i, a, b, pairs[2 * c + 1]);
        }
    }
}

// params: outer, chosen, size, inner, shift, the window's lowest; reals: its limit; data[1]: position and weight of
// the next one, for each of the chosen
inline void interpolate(Machine &m, const Op &op) {
    Store store(m, op, op.params[4]);
    if (op.domain == INTEGER) {
        neighbours<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b, int64_t weight) {
            int64_t sum[BATCH];
            for (int l = 0; l < BATCH; ++l) sum[l] = a[l] * (32768 - weight) + b[l] * weight;
            store.ints(e, sum);
        });
    } else if (op.domain == CODED) {
        const double down = power_of_two(-op.params[5]), unit = power_of_two(op.params[5]);
        neighbours<double>(m, op, [&](int64_t e, const double *a, const double *b, int64_t weight) {
            const double weights[] = {static_cast<double>(32768 - weight) * down, static_cast<double>(weight) * down};
            double both[2 * BATCH];
            memcpy(both, a, sizeof both / 2);
            memcpy(both + BATCH, b, sizeof both / 2);
            int64_t sum[BATCH] = {};
            window_sum(weights, 1, false, both, 2, op.reals[0], sum, m.counts);
            Layer::window_value(store, e, sum, unit);
        });
    } else {
        neighbours<float>(m, op, [&](int64_t e, const float *a, const float *b, int64_t weight) {
            float sum[BATCH];
            for (int l = 0; l < BATCH; ++l) sum[l] = a[l] * static_cast<float>(32768 - weight) + b[l] * static_cast<float>(weight);
            store.single(e, sum);
        });
    }
}

// params: groups, outputs, shift, window from [10] on; data[1], data[2]: weights (output, channel of the group, ky, kx), starts
inline void conv_transpose(Machine &m, const Op &op) {
    Window w;
    memcpy(&w, op.params + 10, sizeof w);
    const int64_t groups = op.params[0], each = op.params[1] / groups, channels = w.channels / groups;
    Store store(m, op, op.params[2]);
    const int32_t *x = m.operand<int32_t>(op, 0);
    const int64_t *weights = op.constants<int64_t>(1), *starts = op.constants<int64_t>(2);
    int64_t element = 0;
    for (int64_t output = 0; output < op.params[1]; ++output) {
        const int64_t first = output / each * channels;
        for (int64_t pixel = 0; pixel < w.out_height * w.out_width; ++pixel, ++element) {
            int64_t sum[BATCH];
            std::fill(sum, sum + BATCH, starts[output]);
            for (int64_t tap = 0; tap < w.kernel_y * w.kernel_x; ++tap) {
                const int64_t down = pixel / w.out_width + w.pad_y - tap / w.kernel_x * w.dilation_y;
                const int64_t across = pixel % w.out_width + w.pad_x - tap % w.kernel_x * w.dilation_x;
                if (down < 0 || across < 0 || down % w.stride_y || across % w.stride_x) continue;
                const int64_t row = down / w.stride_y, column = across / w.stride_x;
                if (row >= w.height || column >= w.width) continue;
                for (int64_t c = 0; c < channels; ++c) {
                    const int64_t factor = weights[(output * channels + c) * w.kernel_y * w.kernel_x + tap];
                    const int32_t *from = x + (((first + c) * w.height + row) * w.width + column) * BATCH;
                    for (int l = 0; l < BATCH; ++l) sum[l] += factor * from[l];
                }
            }
            store.ints(element, sum);
        }
    }
}

}  // namespace batch_engine

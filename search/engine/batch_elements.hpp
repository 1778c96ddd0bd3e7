// Element by element. Operands repeat after their period.
#pragma once
#include "batch_moves.hpp"

namespace batch_engine {

// Calls `each(element, a, b)` for operands 0 and 1 of `op`; params: count, periods of a and b.
template <class N, class Each>
void pairs(Machine &m, const Op &op, Each each) {
    const N *a = m.operand<N>(op, 0), *b = m.operand<N>(op, 1);
    const int64_t a_period = op.params[1], b_period = op.params[2];
    int64_t i = 0, j = 0;
    for (int64_t e = 0; e < op.params[0]; ++e) {
        each(e, a + i * BATCH, b + j * BATCH);
        i = i + 1 == a_period ? 0 : i + 1;
        j = j + 1 == b_period ? 0 : j + 1;
    }
}

inline float scaled_float(float x, double factor) { return static_cast<float>(static_cast<double>(x) * factor); }

template <class A>
void add_ints(Machine &m, const Op &op, A sign) {
    Store store(m, op, op.params[5]);
    const int left = static_cast<int>(op.params[3]), right = static_cast<int>(op.params[4]);
    pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
        A sum[BATCH];
        for (int l = 0; l < BATCH; ++l) sum[l] = (A(a[l]) << left) + sign * (A(b[l]) << right);
        store.ints(e, sum);
    });
}

// params: count, a_period, b_period, a_shift, b_shift, shift
inline void add_signed(Machine &m, const Op &op, int sign) {
    if (op.domain == INTEGER) {
        if (op.mode == INT32) add_ints<int32_t>(m, op, sign);
        else add_ints<int64_t>(m, op, sign);
        return;
    }
    Store store(m, op, op.params[5]);
    const double left = power_of_two(op.params[3]), right = power_of_two(op.params[4]) * sign;
    if (op.domain == CODED) {
        pairs<double>(m, op, [&](int64_t e, const double *a, const double *b) {
            double sum[BATCH], rest[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const double x = a[l] * left, y = b[l] * right, total = x + y, part = total - x;
                sum[l] = total;
                rest[l] = (x - (total - part)) + (y - part);
            }
            store.exact(e, sum, rest);
        });
        return;
    }
    pairs<float>(m, op, [&](int64_t e, const float *a, const float *b) {
        float sum[BATCH];
        for (int l = 0; l < BATCH; ++l) sum[l] = scaled_float(a[l], left) + scaled_float(b[l], right);
        store.single(e, sum);
    });
}
inline void add(Machine &m, const Op &op) { add_signed(m, op, 1); }
inline void sub(Machine &m, const Op &op) { add_signed(m, op, -1); }

template <class A>
void mul_ints(Machine &m, const Op &op) {
    Store store(m, op, op.params[3]);
    pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
        A product[BATCH];
        for (int l = 0; l < BATCH; ++l) product[l] = A(a[l]) * A(b[l]);
        store.ints(e, product);
    });
}

// params: count, a_period, b_period, shift
inline void mul(Machine &m, const Op &op) {
    if (op.domain == INTEGER) {
        if (op.mode == INT32) mul_ints<int32_t>(m, op);
        else mul_ints<int64_t>(m, op);
        return;
    }
    Store store(m, op, op.params[3]);
    if (op.domain == CODED) {
        pairs<double>(m, op, [&](int64_t e, const double *a, const double *b) {
            double product[BATCH], rest[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                product[l] = a[l] * b[l];
                rest[l] = __builtin_fma(a[l], b[l], -product[l]);
            }
            store.exact(e, product, rest);
        });
        return;
    }
    pairs<float>(m, op, [&](int64_t e, const float *a, const float *b) {
        float product[BATCH];
        for (int l = 0; l < BATCH; ++l) product[l] = a[l] * b[l];
        store.single(e, product);
    });
}

// params: count, a_period, b_period, one_shift, shift
inline void prelu(Machine &m, const Op &op) {
    Store store(m, op, op.params[4]);
    const double one = power_of_two(op.params[3]);
    if (op.domain == INTEGER) {
        pairs<int32_t>(m, op, [&](int64_t e, const int32_t *x, const int32_t *slope) {
            int64_t y[BATCH];
            for (int l = 0; l < BATCH; ++l) y[l] = x[l] < 0 ? int64_t(x[l]) * slope[l] : int64_t(x[l]) << op.params[3];
            store.ints(e, y);
        });
    } else if (op.domain == CODED) {
        pairs<double>(m, op, [&](int64_t e, const double *x, const double *slope) {
            double y[BATCH], rest[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const double product = x[l] * slope[l], left_out = __builtin_fma(x[l], slope[l], -product);
                y[l] = x[l] < 0 ? product : x[l] * one;
                rest[l] = x[l] < 0 ? left_out : 0.0;
            }
            store.exact(e, y, rest);
        });
    } else {
        pairs<float>(m, op, [&](int64_t e, const float *x, const float *slope) {
            float y[BATCH];
            for (int l = 0; l < BATCH; ++l) y[l] = x[l] < 0 ? x[l] * slope[l] : scaled_float(x[l], one);
            store.single(e, y);
        });
    }
}

// params: count, a_period, b_period, a_shift, b_shift, shift
inline void extreme(Machine &m, const Op &op, bool larger) {
    Store store(m, op, op.params[5]);
    const double left = power_of_two(op.params[3]), right = power_of_two(op.params[4]);
    if (op.domain == INTEGER) {
        pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
            int64_t chosen[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const int64_t x = int64_t(a[l]) << op.params[3], y = int64_t(b[l]) << op.params[4];
                chosen[l] = (x < y) == larger ? y : x;
            }
            store.ints(e, chosen);
        });
    } else if (op.domain == CODED) {
        pairs<double>(m, op, [&](int64_t e, const double *a, const double *b) {
            double chosen[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const double x = a[l] * left, y = b[l] * right;
                chosen[l] = (x < y) == larger ? y : x;
            }
            store.exact(e, chosen, nullptr);
        });
    } else {
        pairs<float>(m, op, [&](int64_t e, const float *a, const float *b) {
            float chosen[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const float x = scaled_float(a[l], left), y = scaled_float(b[l], right);
                chosen[l] = (x < y) == larger ? y : x;
            }
            store.single(e, chosen);
        });
    }
}
inline void minimum(Machine &m, const Op &op) { extreme(m, op, false); }
inline void maximum(Machine &m, const Op &op) { extreme(m, op, true); }

template <class N>
bool holds(int64_t mode, N a, N b) {
    switch (mode) {
        case 0: return a < b;
        case 1: return a <= b;
        case 2: return a == b;
        case 3: return a != 0 && b != 0;
        default: return a != 0 || b != 0;
    }
}

// params: count, a_period, b_period, a_shift, b_shift, mode; reals: the finished numbers for no and yes
inline void compare(Machine &m, const Op &op) {
    Store store(m, op, 0);
    const int64_t mode = op.params[5];
    const double left = power_of_two(op.params[3]), right = power_of_two(op.params[4]);
    double made[BATCH];
    if (op.domain == INTEGER) {
        pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
            for (int l = 0; l < BATCH; ++l) {
                made[l] = op.reals[holds<int64_t>(mode, int64_t(a[l]) << op.params[3], int64_t(b[l]) << op.params[4])];
            }
            store.raw(e, made);
        });
    } else if (op.domain == CODED) {
        pairs<double>(m, op, [&](int64_t e, const double *a, const double *b) {
            for (int l = 0; l < BATCH; ++l) made[l] = op.reals[holds(mode, a[l] * left, b[l] * right)];
            store.raw(e, made);
        });
    } else {
        pairs<float>(m, op, [&](int64_t e, const float *a, const float *b) {
            for (int l = 0; l < BATCH; ++l) made[l] = op.reals[holds(mode, scaled_float(a[l], left), scaled_float(b[l], right))];
            store.raw(e, made);
        });
    }
}

// params: count, shift
inline void relu(Machine &m, const Op &op) {
    Store store(m, op, op.params[1]);
    if (op.domain == INTEGER) {
        const int32_t *x = m.operand<int32_t>(op, 0);
        for (int64_t e = 0; e < op.params[0]; ++e) {
            int64_t y[BATCH];
            for (int l = 0; l < BATCH; ++l) y[l] = x[e * BATCH + l] > 0 ? x[e * BATCH + l] : 0;
            store.ints(e, y);
        }
    } else if (op.domain == CODED) {
        const double *x = m.operand<double>(op, 0);
        for (int64_t e = 0; e < op.params[0]; ++e) {
            double y[BATCH];
            for (int l = 0; l < BATCH; ++l) y[l] = x[e * BATCH + l] > 0 ? x[e * BATCH + l] : 0;
            store.exact(e, y, nullptr);
        }
    } else {
        const float *x = m.operand<float>(op, 0);
        for (int64_t e = 0; e < op.params[0]; ++e) {
            float y[BATCH];
            for (int l = 0; l < BATCH; ++l) y[l] = x[e * BATCH + l] > 0 ? x[e * BATCH + l] : 0;
            store.single(e, y);
        }
    }
}

// params: count; reals: finished numbers below, at and above zero
template <class N>
void signs(Machine &m, const Op &op) {
    Store store(m, op, 0);
    const N *x = m.operand<N>(op, 0);
    for (int64_t e = 0; e < op.params[0]; ++e) {
        double made[BATCH];
        for (int l = 0; l < BATCH; ++l) made[l] = op.reals[x[e * BATCH + l] < 0 ? 0 : x[e * BATCH + l] > 0 ? 2 : 1];
        store.raw(e, made);
    }
}

inline void sign(Machine &m, const Op &op) {
    if (op.domain == SINGLE) signs<float>(m, op);
    else signs<double>(m, op);
}

// params: count, drop, shift; of operands that are no integers: those are tabulated
inline void truncate(Machine &m, const Op &op) {
    Store store(m, op, op.params[2]);
    const double factor = power_of_two(-op.params[1]);
    if (op.domain == CODED) {
        const double *x = m.operand<double>(op, 0);
        for (int64_t e = 0; e < op.params[0]; ++e) {
            double whole[BATCH];
            for (int l = 0; l < BATCH; ++l) whole[l] = std::trunc(x[e * BATCH + l] * factor) + 0.0;
            store.exact(e, whole, nullptr);
        }
        return;
    }
    const float *x = m.operand<float>(op, 0);
    for (int64_t e = 0; e < op.params[0]; ++e) {
        float whole[BATCH];
        for (int l = 0; l < BATCH; ++l) whole[l] = std::trunc(scaled_float(x[e * BATCH + l], factor)) + 0.0f;
        store.single(e, whole);
    }
}

// params: by
inline void count(Machine &m, const Op &op) {
    const int32_t *x = m.operand<int32_t>(op, 0);
    int32_t *out = m.tensor<int32_t>(op.out);
    for (int64_t n = 0; n < op.count * BATCH; ++n) out[n] = x[n] + static_cast<int32_t>(op.params[0]);
}

// params: count, c_period, a_period, b_period, a_shift, b_shift; the condition's codes decide
inline void where(Machine &m, const Op &op) {
    const int32_t *condition = m.operand<int32_t>(op, 0);
    Mover a(m, op, 1, op.params[4]), b(m, op, 2, op.params[5]);
    const Tensor &out = m.tensors[op.out];
    const size_t bytes = number_bytes(out);
    for (int64_t e = 0; e < op.params[0]; ++e) {
        const int32_t *c = condition + e % op.params[1] * BATCH;
        uint8_t *to = m.at[op.out] + e * BATCH * bytes, first[BATCH * 8];
        int32_t before[BATCH], middle[BATCH];
        memcpy(before, m.counts, sizeof before);
        a(e, e % op.params[2]);
        memcpy(middle, m.counts, sizeof middle);
        memcpy(first, to, BATCH * bytes);
        b(e, e % op.params[3]);
        for (int l = 0; l < BATCH; ++l) {
            const bool yes = c[l] != 0;
            m.counts[l] = yes ? middle[l] : before[l] + m.counts[l] - middle[l];
            if (yes) memcpy(to + l * bytes, first + l * bytes, bytes);
        }
    }
}

// A table over all codes of the operand. params: count, lowest code or -1 with data[3] for coded operands;
// data[1]: finished numbers in the output's kind, data[2]: whether each was clipped, or null
template <class N>
void tabulated(Machine &m, const Op &op) {
    const N *table = op.constants<N>(1);
    const uint8_t *clipped = op.constants<uint8_t>(2), *codes = op.constants<uint8_t>(3);
    N *out = m.tensor<N>(op.out);
    if (codes == nullptr) {
        const int32_t *x = m.operand<int32_t>(op, 0);
        const int32_t lowest = static_cast<int32_t>(op.params[1]);
        const int64_t n = op.params[0] * BATCH;
        for (int64_t k = 0; k < n; ++k) out[k] = table[x[k] - lowest];
        if (clipped == nullptr) return;
        for (int64_t k = 0; k < n; ++k) m.counts[k % BATCH] += clipped[x[k] - lowest];
        return;
    }
    const float *x = m.operand<float>(op, 0);  // 8-bit codes differ in the upper half of single precision
    for (int64_t k = 0; k < op.params[0] * BATCH; ++k) {
        uint32_t bits;
        memcpy(&bits, x + k, 4);
        out[k] = table[codes[bits >> 16]];
        if (clipped != nullptr) m.counts[k % BATCH] += clipped[codes[bits >> 16]];
    }
}
inline void table(Machine &m, const Op &op) {
    if (number_bytes(m.tensors[op.out]) == 8) tabulated<double>(m, op);
    else tabulated<int32_t>(m, op);
}

// Within the ends of an activation, reals[0] to reals[1], if reals[2] is 1.
inline void keep_within(const Op &op, int64_t *codes) {
    if (op.reals[2] != 1) return;
    const int64_t low = static_cast<int64_t>(op.reals[0]), high = static_cast<int64_t>(op.reals[1]);
    for (int l = 0; l < BATCH; ++l) codes[l] = codes[l] < low ? low : codes[l] > high ? high : codes[l];
}

// params: count, a_period, b_period, a_zero, b_zero, zero, sign, then multiplier and shift of a, b, the sum
inline void sum_affine(Machine &m, const Op &op) {
    Store store(m, op, 0);
    const int64_t *p = op.params;
    pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
        int64_t codes[BATCH];
        for (int l = 0; l < BATCH; ++l) {
            const int64_t left = Layer::twice((a[l] - p[3]) * (1 << 20), p[7], p[8]);
            const int64_t right = Layer::twice((b[l] - p[4]) * (1 << 20), p[9], p[10]);
            codes[l] = Layer::twice(left + p[6] * right, p[11], p[12]) + p[5];
        }
        keep_within(op, codes);
        store.limited(e, codes);
    });
}

// params: count, a_period, b_period, a_zero, b_zero, zero, multiplier, by
inline void mul_affine(Machine &m, const Op &op) {
    Store store(m, op, 0);
    const int64_t *p = op.params;
    pairs<int32_t>(m, op, [&](int64_t e, const int32_t *a, const int32_t *b) {
        int64_t codes[BATCH];
        for (int l = 0; l < BATCH; ++l) codes[l] = Layer::twice((a[l] - p[3]) * (b[l] - p[4]), p[6], p[7]) + p[5];
        keep_within(op, codes);
        store.limited(e, codes);
    });
}

}  // namespace batch_engine

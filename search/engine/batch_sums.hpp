// Sums of products: dense layers, convolutions, products of matrices, in every domain.
#pragma once
#include "batch_store.hpp"

namespace batch_engine {

// How a sum is taken. INT32 and FLOAT64 are exact by the width proven for it, INT64 holds all; WINDOW: units of the
// window of coded formats, whose weights come divided by the lowest bit; FLOAT32 rounds every step.
enum Mode : int64_t { INT32, FLOAT64, INT64, WINDOW, FLOAT32 };
enum Limit : int64_t { UNLIMITED, NON_NEGATIVE, CLAMPED };  // an activation inside of a layer
enum Finish : int64_t { PLAIN, ONCE, TWICE, WIDE };  // WIDE and what stands before it: asymmetric integers

template <class T>
struct Vector {
    typedef T Part __attribute__((vector_size(64)));
    static constexpr int parts = BATCH * sizeof(T) / 64;
};

typedef double Eight __attribute__((vector_size(64)));
inline Eight floors(Eight x) {
#if defined(__AVX512F__)
    return (Eight)_mm512_maskz_roundscale_pd(0xFF, (__m512d)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    for (int i = 0; i < 8; ++i) x[i] = std::floor(x[i]);
    return x;
#endif
}

// `Rows` sums of `inner` products side by side: sum[r] += w(r, k) * x(k). Weights are scalars or batches.
template <class T, int Rows, bool Floor, bool LaneWeights>
__attribute__((always_inline)) inline void products(const T *w, size_t w_row, size_t w_step, const T *x, size_t inner,
                                                    T *sums) {
    using Part = typename Vector<T>::Part;
    constexpr int parts = Vector<T>::parts, width = 64 / sizeof(T);
    Part total[Rows][parts];
    for (int r = 0; r < Rows; ++r) {
        for (int p = 0; p < parts; ++p) memcpy(&total[r][p], sums + r * BATCH + p * width, 64);
    }
    for (size_t k = 0; k < inner; ++k) {
        Part element[parts];
        for (int p = 0; p < parts; ++p) memcpy(&element[p], x + k * BATCH + p * width, 64);
        for (int r = 0; r < Rows; ++r) {
            for (int p = 0; p < parts; ++p) {
                Part factor;
                if (LaneWeights) memcpy(&factor, w + r * w_row + k * w_step + p * width, 64);
                else factor = Part{} + w[r * w_row + k * w_step];
                const Part product = factor * element[p];
                if constexpr (Floor) total[r][p] += floors(product);
                else total[r][p] += product;
            }
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int p = 0; p < parts; ++p) memcpy(sums + r * BATCH + p * width, &total[r][p], 64);
    }
}

template <class T, bool Floor, bool LaneWeights>
void all_products(const T *w, size_t w_row, size_t w_step, const T *x, size_t rows, size_t inner, T *sums) {
    constexpr int most = sizeof(T) == 4 ? 8 : 4;
    size_t r = 0;
    for (; r + most <= rows; r += most) {
        products<T, most, Floor, LaneWeights>(w + r * w_row, w_row, w_step, x, inner, sums + r * BATCH);
    }
    for (; r < rows; ++r) products<T, 1, Floor, LaneWeights>(w + r * w_row, w_row, w_step, x, inner, sums + r * BATCH);
}

inline double largest_magnitude(const double *x, size_t count) {
    double top[BATCH] = {};
    for (size_t k = 0; k < count; ++k) {
        for (int l = 0; l < BATCH; ++l) {
            const double size = std::fabs(x[k * BATCH + l]);
            top[l] = size > top[l] ? size : top[l];
        }
    }
    double most = 0;
    for (int l = 0; l < BATCH; ++l) most = top[l] > most ? top[l] : most;
    return most;
}

// One sum of window units with products that may be cut, clipped, or longer than a double.
template <bool Limited, bool LaneWeights>
void window_products(const double *w, size_t w_step, const double *x, size_t inner, double limit, int64_t *sum, int32_t *counts) {
    const double ceiling = limit + 1;  // 2^n, exact; `limit` itself is rounded to it beyond 53 bits
    const int64_t most = static_cast<int64_t>(ceiling) - 1;
    int64_t total[BATCH], clips[BATCH] = {};
    memcpy(total, sum, sizeof total);
    for (size_t k = 0; k < inner; ++k) {
        const double *factors = w + k * w_step, *numbers = x + k * BATCH;
        for (int l = 0; l < BATCH; ++l) {
            const double a = LaneWeights ? factors[l] : factors[0], b = numbers[l];
            const double p = a * b, rest = __builtin_fma(a, b, -p);
            const double size = std::fabs(p), down = std::floor(p);
            const int64_t over = Limited && size > ceiling ? 1 : 0;
            const double limited = !Limited ? down : down > ceiling ? ceiling : down < -ceiling ? -ceiling : down;
            const double more = std::floor(rest), apart = p == down ? more : 0.0, below = over != 0 ? 0.0 : apart;
            int64_t units = static_cast<int64_t>(limited) + static_cast<int64_t>(below);
            if (Limited) {
                const int64_t above = units > most ? most : units, clipped = above < -most ? -most : above;
                const int64_t cut = clipped != units ? 1 : 0;
                clips[l] += cut | over;
                units = clipped;
            }
            total[l] += units;
        }
    }
    memcpy(sum, total, sizeof total);
    if (Limited) for (int l = 0; l < BATCH; ++l) counts[l] += static_cast<int32_t>(clips[l]);
}
inline void window_sum(const double *w, size_t w_step, bool lane_weights, const double *x, size_t inner, double limit,
                       int64_t *sum, int32_t *counts) {
    if (limit > 0) {
        if (lane_weights) window_products<true, true>(w, w_step, x, inner, limit, sum, counts);
        else window_products<true, false>(w, w_step, x, inner, limit, sum, counts);
    } else if (lane_weights) {
        window_products<false, true>(w, w_step, x, inner, limit, sum, counts);
    } else {
        window_products<false, false>(w, w_step, x, inner, limit, sum, counts);
    }
}

template <class T>
void keep_non_negative(T *sums) {
    for (int l = 0; l < BATCH; ++l) sums[l] = sums[l] <= 0 ? T(0) : sums[l];
}

// What a layer's sums become. params: see `_layer_params` in search/engine/batch_sums.py.
struct Layer {
    Machine &m;
    const Op &op;
    Store store;
    int64_t outputs, inner, low, finish, zero;
    double limit;
    const int64_t *shifts, *multipliers;

    Layer(Machine &machine, const Op &operation)
        : m(machine), op(operation), store(machine, operation, operation.params[3]), outputs(operation.params[1]),
          inner(operation.params[2]), low(operation.params[4]), finish(operation.params[6]),
          zero(operation.params[7]), limit(operation.reals[3]), shifts(operation.constants<int64_t>(3)),
          multipliers(operation.constants<int64_t>(4)) {
        store.clamps = operation.params[9] == CLAMPED;
        store.lowest = static_cast<int64_t>(operation.reals[0]), store.highest = static_cast<int64_t>(operation.reals[1]);
    }

    bool non_negative() const { return op.params[9] == NON_NEGATIVE; }

    template <class A>
    void finished(int64_t output, int64_t element, const A *sums) {
        if (finish != PLAIN) {
            rescaled(output, element, sums);
            return;
        }
        if (shifts != nullptr) store.shift_by(shifts[output]);
        store.ints(element, sums);
    }

    // TensorFlow Lite's multiplier and shift (tinyhil/formats/affine.py).
    template <class A>
    void rescaled(int64_t output, int64_t element, const A *sums) {
        const int64_t multiplier = multipliers[output], shift = shifts[output];
        int64_t codes[BATCH];
        for (int l = 0; l < BATCH; ++l) {
            const int64_t sum = static_cast<int64_t>(sums[l]);
            codes[l] = zero + (finish == ONCE ? once(sum, multiplier, shift) : finish == TWICE ? twice(sum, multiplier, shift) : wide(sum, multiplier, shift));
        }
        if (store.clamps) {
            for (int l = 0; l < BATCH; ++l) codes[l] = codes[l] < store.lowest ? store.lowest : codes[l] > store.highest ? store.highest : codes[l];
        }
        store.limited(element, codes);
    }

    static int64_t once(int64_t sum, int64_t multiplier, int64_t shift) {
        const int64_t right = 31 - shift;
        return (sum * multiplier + (int64_t(1) << (right - 1))) >> right;
    }
    static int64_t twice(int64_t sum, int64_t multiplier, int64_t shift) {
        const int64_t product = static_cast<int64_t>(static_cast<uint64_t>(sum) << (shift > 0 ? shift : 0)) * multiplier;
        const int64_t high = product >= 0 ? (product + (int64_t(1) << 30)) >> 31 : -((-product + (int64_t(1) << 30) - 1) >> 31);
        const int64_t right = shift < 0 ? -shift : 0, mask = (int64_t(1) << right) - 1;
        return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0));
    }
    static int64_t wide(int64_t sum, int64_t multiplier, int64_t shift) {
        const int64_t reduced = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF, right = 15 - shift;
        return (sum * reduced + (int64_t(1) << (right - 1))) >> right;
    }

    // One row x (inner, lane) times `count` rows of weights, from output `first` on; element of output n: at + n * step.
    template <class T>
    void row(const T *x, int64_t first, int64_t count, int64_t at, int64_t step) {
        T *const sums = m.buffer<T>(4, count);
        const T *start = op.constants<T>(1) + first;
        for (int64_t n = 0; n < count; ++n) {
            for (int l = 0; l < BATCH; ++l) sums[n * BATCH + l] = start[n];
        }
        if (op.reals[3] == 1 && !std::is_same<T, float>::value) add_to(sums, count, at, step);
        all_products<T, false, false>(op.constants<T>(0) + first * inner, inner, 1, x, count, inner, sums);
        if (op.reals[3] == 2 && !std::is_same<T, float>::value) add_products_of(sums, first, count, at / outputs);
        for (int64_t n = 0; n < count; ++n) {
            if (non_negative()) keep_non_negative(sums + n * BATCH);
            if constexpr (std::is_same<T, float>::value) {
                store.single(at + n * step, sums + n * BATCH);
            } else if constexpr (std::is_same<T, double>::value) {
                int64_t whole[BATCH];
                for (int l = 0; l < BATCH; ++l) whole[l] = static_cast<int64_t>(sums[n * BATCH + l]);
                finished(first + n, at + n * step, whole);
            } else {
                finished(first + n, at + n * step, sums + n * BATCH);
            }
        }
    }

    // A computed tensor joins the exact sums of integers (reals[3] is 1), moved left to their unit by reals[2].
    template <class T>
    void add_to(T *sums, int64_t count, int64_t at, int64_t step) {
        const T *addend = m.operand<T>(op, 2);
        const T factor = static_cast<T>(int64_t(1) << static_cast<int>(op.reals[2]));
        for (int64_t n = 0; n < count; ++n) {
            for (int l = 0; l < BATCH; ++l) sums[n * BATCH + l] += addend[(at + n * step) * BATCH + l] * factor;
        }
    }

    // Rows of another layer join the exact sums of integers (reals[3] is 2): reals[2] elements, data[2] its weights in their unit.
    template <class T>
    void add_products_of(T *sums, int64_t first, int64_t count, int64_t row) {
        const int64_t more = static_cast<int64_t>(op.reals[2]);
        const T *x = m.operand<T>(op, 2) + row * more * BATCH;
        all_products<T, false, false>(op.constants<T>(2) + first * more, more, 1, x, count, more, sums);
    }

    // reals: largest sum of |w| of a row, largest |start|, largest |w|, all in units; limit of a product, 0 without.
    void window_row(const double *x, int64_t first, int64_t count, int64_t at, int64_t step) {
        const bool exact = op.params[5] & 1, cuts = (op.params[5] & 2) != 0;
        const double top = largest_magnitude(x, inner), unit = power_of_two(low);
        const double *w = op.constants<double>(0) + first * inner;
        if (exact && top * op.reals[0] + op.reals[1] + inner < 4503599627370496.0 && (limit == 0 || top * op.reals[2] <= limit)) {
            double *const sums = m.buffer<double>(4, count);
            const int64_t *start = op.constants<int64_t>(1) + first;
            for (int64_t n = 0; n < count; ++n) {
                for (int l = 0; l < BATCH; ++l) sums[n * BATCH + l] = static_cast<double>(start[n]);
            }
            if (cuts) all_products<double, true, false>(w, inner, 1, x, count, inner, sums);
            else all_products<double, false, false>(w, inner, 1, x, count, inner, sums);
            for (int64_t n = 0; n < count; ++n) {
                for (int l = 0; l < BATCH; ++l) sums[n * BATCH + l] *= unit;
                if (non_negative()) keep_non_negative(sums + n * BATCH);
                if (shifts != nullptr) store.shift_by(shifts[first + n]);
                store.exact(at + n * step, sums + n * BATCH, nullptr);
            }
            return;
        }
        for (int64_t n = 0; n < count; ++n) {
            int64_t sum[BATCH];
            for (int l = 0; l < BATCH; ++l) sum[l] = op.constants<int64_t>(1)[first + n];
            window_sum(w + n * inner, 1, false, x, inner, limit, sum, m.counts);
            if (non_negative()) keep_non_negative(sum);
            if (shifts != nullptr) store.shift_by(shifts[first + n]);
            window_value(store, at + n * step, sum, unit);
        }
    }

    static void window_value(Store &store, int64_t element, const int64_t *sum, double unit) {
        double value[BATCH], rest[BATCH];
        for (int l = 0; l < BATCH; ++l) {
            const double near = static_cast<double>(sum[l]);
            const bool top = near >= 9223372036854775808.0;
            const int64_t back = top ? INT64_MAX : static_cast<int64_t>(near);
            rest[l] = top ? -1.0 : sum[l] > back ? 1.0 : sum[l] < back ? -1.0 : 0.0;
            value[l] = near * unit;
        }
        store.exact(element, value, rest);
    }
};

template <class T>
void dense_rows(Machine &m, const Op &op) {
    Layer layer(m, op);
    const T *x = m.operand<T>(op, 1);
    for (int64_t r = 0; r < op.params[0]; ++r, x += layer.inner * BATCH) {
        if constexpr (std::is_same<T, double>::value) {
            if (op.mode == WINDOW) {
                layer.window_row(x, 0, layer.outputs, r * layer.outputs, 1);
                continue;
            }
        }
        layer.row(x, 0, layer.outputs, r * layer.outputs, 1);
    }
}

// params: rows, outputs, inner, shift, low, flags, finish, zero
inline void dense(Machine &m, const Op &op) {
    if (op.mode == INT32) dense_rows<int32_t>(m, op);
    else if (op.mode == INT64) dense_rows<int64_t>(m, op);
    else if (op.mode == FLOAT32) dense_rows<float>(m, op);
    else dense_rows<double>(m, op);
}

struct Window {
    int64_t channels, height, width, out_height, out_width, kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
};

// Elements of one window of channels [first, first + count), `padding` outside of the plane.
template <class T>
void gather_patch(const Window &w, const T *x, int64_t first, int64_t count, int64_t y, int64_t x_out, T padding, T *patch) {
    for (int64_t c = first; c < first + count; ++c) {
        for (int64_t ky = 0; ky < w.kernel_y; ++ky) {
            const int64_t row = y * w.stride_y - w.pad_y + ky * w.dilation_y;
            for (int64_t kx = 0; kx < w.kernel_x; ++kx, patch += BATCH) {
                const int64_t column = x_out * w.stride_x - w.pad_x + kx * w.dilation_x;
                if (row < 0 || row >= w.height || column < 0 || column >= w.width) {
                    for (int l = 0; l < BATCH; ++l) patch[l] = padding;
                } else {
                    memcpy(patch, x + ((c * w.height + row) * w.width + column) * BATCH, BATCH * sizeof(T));
                }
            }
        }
    }
}

template <class T>
void convolve(Machine &m, const Op &op, Layer &layer) {
    Window w;
    memcpy(&w, op.params + 10, sizeof w);
    const T *x = m.operand<T>(op, 1);
    const int64_t groups = op.params[0], each = layer.outputs / groups, channels = w.channels / groups;
    const int64_t pixels = w.out_height * w.out_width;
    T *const patch = m.buffer<T>(3, layer.inner);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        for (int64_t g = 0; g < groups; ++g) {
            gather_patch(w, x, g * channels, channels, pixel / w.out_width, pixel % w.out_width, static_cast<T>(op.params[8]), patch);
            const int64_t first = g * each, at = first * pixels + pixel;
            if constexpr (std::is_same<T, double>::value) {
                if (op.mode == WINDOW) {
                    layer.window_row(patch, first, each, at, pixels);
                    continue;
                }
            }
            layer.row(patch, first, each, at, pixels);
        }
    }
}

// params: groups, outputs, inner, shift, low, flags, finish, zero, pad, -, window
inline void conv(Machine &m, const Op &op) {
    Layer layer(m, op);
    if (op.mode == INT32) convolve<int32_t>(m, op, layer);
    else if (op.mode == INT64) convolve<int64_t>(m, op, layer);
    else if (op.mode == FLOAT32) convolve<float>(m, op, layer);
    else convolve<double>(m, op, layer);
}

template <class T>
void multiply(Machine &m, const Op &op, const T *a, const T *b, Store &store, int64_t at) {
    const int64_t rows = op.params[0], inner = op.params[1], columns = op.params[2];
    T *const sums = m.buffer<T>(4, columns);
    for (int64_t r = 0; r < rows; ++r) {
        std::fill(sums, sums + columns * BATCH, T(0));
        all_products<T, false, true>(b, BATCH, columns * BATCH, a + r * inner * BATCH, columns, inner, sums);
        for (int64_t c = 0; c < columns; ++c) {
            const int64_t element = at + r * columns + c;
            if constexpr (std::is_same<T, float>::value) {
                store.single(element, sums + c * BATCH);
            } else if constexpr (std::is_same<T, double>::value) {
                int64_t whole[BATCH];
                for (int l = 0; l < BATCH; ++l) whole[l] = static_cast<int64_t>(sums[c * BATCH + l]);
                store.ints(element, whole);
            } else {
                store.ints(element, sums + c * BATCH);
            }
        }
    }
}

inline void window_multiply(Machine &m, const Op &op, Store &store, int64_t batch) {
    const int64_t rows = op.params[0], inner = op.params[1], columns = op.params[2], at = batch * rows * columns;
    const double *given = m.operand<double>(op, 0) + batch * op.params[7] * BATCH;
    const double *b = m.operand<double>(op, 1) + batch * op.params[8] * BATCH;
    double *const a = m.buffer<double>(3, rows * inner);
    const double down = power_of_two(-op.params[4]), unit = power_of_two(op.params[4]), limit = op.reals[3];
    for (int64_t k = 0; k < rows * inner * BATCH; ++k) a[k] = given[k] * down;
    const double peak = largest_magnitude(a, rows * inner) * largest_magnitude(b, inner * columns);
    const bool fast = (op.params[5] & 1) && peak * inner + inner < 4503599627370496.0 && (limit == 0 || peak <= limit);
    double *const sums = m.buffer<double>(4, columns);
    for (int64_t r = 0; r < rows; ++r) {
        if (fast) {
            std::fill(sums, sums + columns * BATCH, 0.0);
            all_products<double, true, true>(b, BATCH, columns * BATCH, a + r * inner * BATCH, columns, inner, sums);
            for (int64_t c = 0; c < columns; ++c) {
                for (int l = 0; l < BATCH; ++l) sums[c * BATCH + l] *= unit;
                store.exact(at + r * columns + c, sums + c * BATCH, nullptr);
            }
            continue;
        }
        for (int64_t c = 0; c < columns; ++c) {
            int64_t sum[BATCH] = {};
            window_sum(b + c * BATCH, columns * BATCH, true, a + r * inner * BATCH, inner, limit, sum, m.counts);
            Layer::window_value(store, at + r * columns + c, sum, unit);
        }
    }
}

// The weights that an index chooses for each lane, side by side: (outputs, inner, lane).
template <class T>
const T *chosen_weights(Machine &m, const Op &op, const int64_t *row) {
    const int64_t count = op.params[1] * op.params[2];
    const T *table = op.constants<T>(1);
    T *const weights = m.buffer<T>(3, count);
    for (int64_t k = 0; k < count; ++k) {
        for (int l = 0; l < BATCH; ++l) weights[k * BATCH + l] = table[row[l] * count + k];
    }
    return weights;
}

template <class T>
void dense_rows_at(Machine &m, const Op &op, const int64_t *row) {
    const int64_t rows = op.params[0], outputs = op.params[1], inner = op.params[2];
    Store store(m, op, op.params[3]);
    const T *w = chosen_weights<T>(m, op, row), *x = m.operand<T>(op, 2);
    T *const sums = m.buffer<T>(4, outputs);
    for (int64_t r = 0; r < rows; ++r, x += inner * BATCH) {
        std::fill(sums, sums + outputs * BATCH, T(0));
        all_products<T, false, true>(w, inner * BATCH, BATCH, x, outputs, inner, sums);
        for (int64_t n = 0; n < outputs; ++n) {
            if constexpr (std::is_same<T, float>::value) {
                store.single(r * outputs + n, sums + n * BATCH);
            } else if constexpr (std::is_same<T, double>::value) {
                int64_t whole[BATCH];
                for (int l = 0; l < BATCH; ++l) whole[l] = static_cast<int64_t>(sums[n * BATCH + l]);
                store.ints(r * outputs + n, whole);
            } else {
                store.ints(r * outputs + n, sums + n * BATCH);
            }
        }
    }
}

inline void window_rows_at(Machine &m, const Op &op, const int64_t *row) {
    const int64_t rows = op.params[0], outputs = op.params[1], inner = op.params[2];
    Store store(m, op, op.params[3]);
    const double *w = chosen_weights<double>(m, op, row), *x = m.operand<double>(op, 2);
    const double unit = power_of_two(op.params[4]), limit = op.reals[3], top = largest_magnitude(x, rows * inner);
    const bool fast = (op.params[5] & 1) && top * op.reals[0] + inner < 4503599627370496.0 && (limit == 0 || top * op.reals[2] <= limit);
    double *const sums = m.buffer<double>(4, outputs);
    for (int64_t r = 0; r < rows; ++r, x += inner * BATCH) {
        if (fast) {
            std::fill(sums, sums + outputs * BATCH, 0.0);
            all_products<double, true, true>(w, inner * BATCH, BATCH, x, outputs, inner, sums);
        }
        for (int64_t n = 0; n < outputs; ++n) {
            if (fast) {
                for (int l = 0; l < BATCH; ++l) sums[n * BATCH + l] *= unit;
                store.exact(r * outputs + n, sums + n * BATCH, nullptr);
                continue;
            }
            int64_t sum[BATCH] = {};
            window_sum(w + n * inner * BATCH, BATCH, true, x, inner, limit, sum, m.counts);
            Layer::window_value(store, r * outputs + n, sum, unit);
        }
    }
}

// params: rows, outputs, inner, shift, low, flags, size, drop; operand 0 is the index
inline void dense_at(Machine &m, const Op &op) {
    const int32_t *index = m.operand<int32_t>(op, 0);
    const int64_t size = op.params[6];
    int64_t row[BATCH];
    for (int l = 0; l < BATCH; ++l) {
        const int64_t given = index[l] >> op.params[7], wanted = given < 0 ? given + size : given;
        m.counts[l] += given < -size || given >= size;
        row[l] = wanted < 0 ? 0 : wanted >= size ? size - 1 : wanted;
    }
    if (op.mode == INT32) dense_rows_at<int32_t>(m, op, row);
    else if (op.mode == INT64) dense_rows_at<int64_t>(m, op, row);
    else if (op.mode == FLOAT32) dense_rows_at<float>(m, op, row);
    else if (op.mode == FLOAT64) dense_rows_at<double>(m, op, row);
    else window_rows_at(m, op, row);
}

// params: rows, inner, columns, shift, low, flags, batches, steps of a and b
inline void matmul(Machine &m, const Op &op) {
    Store store(m, op, op.params[3]);
    for (int64_t n = 0; n < op.params[6]; ++n) {
        if (op.mode == WINDOW) {
            window_multiply(m, op, store, n);
            continue;
        }
        const int64_t at = n * op.params[0] * op.params[2], a = n * op.params[7] * BATCH, b = n * op.params[8] * BATCH;
        if (op.mode == INT32) multiply(m, op, m.operand<int32_t>(op, 0) + a, m.operand<int32_t>(op, 1) + b, store, at);
        else if (op.mode == FLOAT64) multiply(m, op, m.operand<double>(op, 0) + a, m.operand<double>(op, 1) + b, store, at);
        else if (op.mode == INT64) multiply(m, op, m.operand<int64_t>(op, 0) + a, m.operand<int64_t>(op, 1) + b, store, at);
        else multiply(m, op, m.operand<float>(op, 0) + a, m.operand<float>(op, 1) + b, store, at);
    }
}

}  // namespace batch_engine

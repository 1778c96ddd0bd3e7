// Operators of PULP's integer dialect (tinyhil/ops/pulp.py). Products and sums of 64 bits hold what they compute.
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

inline int64_t within_ends(int64_t value, int32_t low, int32_t high) { return value < low ? low : value > high ? high : value; }

// (value * factor + addend) >> shift; of bytes in 32 bits where these hold it
template <class Value>
inline int64_t requantized(Value value, int32_t factor, int64_t addend, int shift) {
    return (static_cast<int64_t>(value) * factor + addend) >> shift;
}
constexpr int32_t MOST_BYTE_FACTOR = int32_t(1) << 22, MOST_BYTE_ADDEND = int32_t(1) << 30;
inline int64_t requantized(int8_t value, int32_t factor, int64_t addend, int shift) {
    const bool fits = factor < MOST_BYTE_FACTOR && factor > -MOST_BYTE_FACTOR && addend < MOST_BYTE_ADDEND && addend > -MOST_BYTE_ADDEND;
    if (!fits) return requantized(static_cast<int16_t>(value), factor, addend, shift);
    return (value * factor + static_cast<int32_t>(addend)) >> shift;
}

// a / b towards zero; 32 bits where these hold them
inline int64_t quotient(int64_t a, int32_t b) {
    const int32_t low = static_cast<int32_t>(a);
    return low == a && low != Limits<int32_t>::lowest ? low / b : a / b;
}
inline uint32_t share(uint32_t part, uint32_t most, uint64_t total) {
    const uint64_t whole = static_cast<uint64_t>(part) * most;
    return (whole | total) >> 32 ? static_cast<uint32_t>(whole / total) : static_cast<uint32_t>(whole) / static_cast<uint32_t>(total);
}

template <class Acc, class Out, class X, class F, class A>
void whole_requant(Out *out, X x, F factors, A addends, Size count, Size channels, Size inner, int shift, int32_t low, int32_t high) {
    const int64_t half = (int64_t(1) << shift) >> 1;
    for (Size n = 0; n < count;) {
        for (Size c = 0; c < channels; ++c) {
            const int32_t factor = factors[c];
            const int64_t addend = addends[c] + half;
            for (Size k = 0; k < inner; ++k, ++n) {
                out[n] = static_cast<Out>(within_ends(requantized(x[n], factor, addend, shift), low, high));
            }
        }
    }
}

// The largest whole number whose square is at most `value`
inline uint32_t whole_root(uint32_t value) {
    uint32_t root = 0;
    for (uint32_t bit = uint32_t(1) << 30; bit; bit >>= 2) {
        const bool takes = value >= root + bit;
        if (takes) value -= root + bit;
        root = takes ? (root >> 1) + bit : root >> 1;
    }
    return root;
}

template <class Acc, class Out, class X, class W>
void whole_rms_norm(Out *out, X x, W weights, Size rows, Size inner, int shift, int32_t low, int32_t high) {
    for (; rows > 0; --rows, x = x + inner, out += inner) {
        uint32_t sum = 0;
        for (Size k = 0; k < inner; ++k) sum += static_cast<uint32_t>(static_cast<int32_t>(x[k]) * x[k]);
        const int32_t root = static_cast<int32_t>(whole_root(sum / inner + 1));
        for (Size k = 0; k < inner; ++k) {
            out[k] = static_cast<Out>(within_ends(quotient(static_cast<int64_t>(x[k]) * weights[k], root) >> shift, low, high));
        }
    }
}

inline uint32_t parabola(int32_t distance, int32_t b, int32_t c, int32_t log2) {
    const int32_t halvings = distance / log2, rest = halvings * log2 - distance + b;
    return static_cast<uint32_t>(rest * rest + c) >> (halvings < 31 ? halvings : 31);
}

template <class Acc, class Out, class X>
void whole_softmax(Out *out, X x, Size rows, Size inner, int32_t b, int32_t c, int32_t log2, int32_t most, int32_t low) {
    for (; rows > 0; --rows, x = x + inner, out += inner) {
        int32_t largest = x[0];
        for (Size k = 1; k < inner; ++k) {
            if (x[k] > largest) largest = x[k];
        }
        uint64_t total = 0;
        for (Size k = 0; k < inner; ++k) total += parabola(largest - x[k], b, c, log2);
        if (total == 0) total = 1;
        for (Size k = 0; k < inner; ++k) {
            out[k] = static_cast<Out>(static_cast<int32_t>(share(parabola(largest - x[k], b, c, log2), most, total)) + low);
        }
    }
}

template <class Acc, class Out, class X>
void whole_halves(Out *out, X x, Size rows, Size inner, int32_t most, int32_t low) {
    for (; rows > 0; --rows, x = x + inner, out += inner) {
        int32_t largest = x[0];
        for (Size k = 1; k < inner; ++k) {
            if (x[k] > largest) largest = x[k];
        }
        uint32_t total = 0;
        for (Size k = 0; k < inner; ++k) total += uint32_t(256) >> ((largest - x[k] + 16) >> 5);
        if (total == 0) total = 1;
        const uint32_t whole = static_cast<uint32_t>(most) * 256 / total;
        for (Size k = 0; k < inner; ++k) out[k] = static_cast<Out>(static_cast<int32_t>(whole >> ((largest - x[k] + 16) >> 5)) + low);
    }
}

template <class Acc, class Out, class X, class W, class B>
void whole_layer_norm(Out *out, X x, W weights, B bias, Size rows, Size inner, int shift) {
    for (; rows > 0; --rows, x = x + inner, out += inner) {
        int32_t mean = 0;
        for (Size k = 0; k < inner; ++k) mean += x[k];
        mean /= static_cast<int32_t>(inner);
        uint32_t sum = 0;
        for (Size k = 0; k < inner; ++k) sum += static_cast<uint32_t>((x[k] - mean) * (x[k] - mean));
        const int32_t root = static_cast<int32_t>(whole_root(sum / inner + 1));
        for (Size k = 0; k < inner; ++k) {
            const int64_t product = static_cast<int64_t>(x[k] - mean) * weights[k];
            out[k] = static_cast<Out>((quotient(product, root) + bias[k]) >> shift);
        }
    }
}

template <class Acc, class Out, class X>
void whole_mean(Out *out, X x, Size rows, Size inner, int shift) {
    const int32_t half = static_cast<int32_t>(inner >> 1);
    for (; rows > 0; --rows, x = x + inner) {
        int32_t sum = 0;
        for (Size k = 0; k < inner; ++k) sum += x[k];
        *out++ = static_cast<Out>(shift >= 0 ? (sum + half) >> shift : (sum < 0 ? sum - half : sum + half) / static_cast<int32_t>(inner));
    }
}

template <class Acc, class Out, class A, class B>
void whole_division(Out *out, A a, B b, Size count, int64_t factor, int64_t more, int64_t least) {
    for (Size n = 0; n < count; ++n) {
        const int64_t above = a[n] * factor, below = b[n] * more + least, half = below >> 1;
        out[n] = static_cast<Out>(below ? (above < 0 ? above - half : above + half) / below : 0);
    }
}

template <class Acc, class Out, class X>
void whole_quotient(Out *out, X x, Size count, int64_t factor, int64_t more, int64_t divisor) {
    for (Size n = 0; n < count; ++n) out[n] = static_cast<Out>(static_cast<int64_t>(x[n]) * factor * more / divisor);
}

template <class Acc, class Out, class A, class B>
void whole_product(Out *out, A a, B b, Size batches, Size rows, Size inner, Size columns, Size a_step, Size b_step) {
    for (; batches > 0; --batches, a = a + a_step, b = b + b_step) {
        for (Size r = 0; r < rows; ++r) {
            for (Size c = 0; c < columns; ++c) {
                uint32_t sum = 0;
                for (Size k = 0; k < inner; ++k) sum += static_cast<uint32_t>(static_cast<int32_t>(a[r * inner + k]) * b[k * columns + c]);
                *out++ = static_cast<Out>(static_cast<int32_t>(sum));
            }
        }
    }
}

}  // namespace hil

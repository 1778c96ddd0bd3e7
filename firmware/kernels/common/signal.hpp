// Features of sound in whole numbers (tinyhil/ops/signal.py).
#pragma once
#include "firmware/kernels/common/memory.hpp"

namespace hil {

inline int bits_of(uint32_t x) {
    int bits = 0;
    for (; x != 0; x >>= 1) ++bits;
    return bits;
}

template <class Acc, class Out, class X, class W>
void signal_window(Out *out, X x, W weights, Size count, Size period, int shift) {
    Size at = 0;
    for (Size n = 0; n < count; ++n) {
        const int32_t value = static_cast<int32_t>(x[n]) * weights[at] >> shift;
        out[n] = static_cast<Out>(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
        if (++at == period) at = 0;
    }
}

// The running maximum is an int16: -32768, which has no magnitude there, makes it the lowest.
template <class Acc, class Out, class X>
void signal_gain(Out *out, X x, Size count) {
    int32_t largest = 0;
    for (Size n = 0; n < count; ++n) {
        const int32_t value = x[n];
        if (value > largest) {
            largest = value;
        } else if (-value > largest) {
            largest = value == -32768 ? -32768 : -value;
        }
    }
    const int bits = largest <= 0 ? 32 : bits_of(static_cast<uint32_t>(largest));
    out[0] = static_cast<Out>(bits < 15 ? 15 - bits : 0);
}

template <class Acc, class Out, class X, class B>
void signal_lift(Out *out, X x, B bits, Size count) {
    const int shift = static_cast<int>(bits[0]) & 31;
    for (Size n = 0; n < count; ++n) out[n] = static_cast<Out>(static_cast<uint32_t>(static_cast<int32_t>(x[n])) << shift);
}

template <class Acc, class Out, class X>
void signal_energy(Out *out, X x, Size rows, Size bins, Size start, Size end) {
    for (; rows > 0; --rows, x = x + 2 * bins, out += bins) {
        for (Size n = 0; n < bins; ++n) {
            const int32_t re = x[2 * n], im = x[2 * n + 1];
            out[n] = n < start || n >= end ? 0u : static_cast<Out>(static_cast<uint32_t>(re * re) + static_cast<uint32_t>(im * im));
        }
    }
}

// The root to nearest, of numbers below 2^32 no more than 65535
inline uint32_t nearest_root(uint64_t x) {
    uint64_t rest = x;
    uint32_t root = 0;
    for (int bit = x >> 32 ? 31 : 15; bit >= 0; --bit) {  // root * root + rest is x
        const uint64_t step = ((static_cast<uint64_t>(root) << 1) + (uint64_t(1) << bit)) << bit;
        if (rest >= step) {
            rest -= step;
            root |= uint32_t(1) << bit;
        }
    }
    return root + (rest > root && root != (x >> 32 ? 0xFFFFFFFFu : 0xFFFFu) ? 1 : 0);
}

template <class Acc, class Out, class X, class W, class U, class F, class S, class N, class B>
void signal_filter_bank(Out *out, X x, W weights, U unweights, F firsts, S starts, N widths, B bits, Size channels) {
    const int shift = static_cast<int>(bits[0]) & 63;
    uint64_t carried = 0;
    for (Size n = 0; n <= channels; ++n) {
        uint64_t sum = carried, falling = 0;
        const Size first = static_cast<Size>(firsts[n]), start = static_cast<Size>(starts[n]), width = static_cast<Size>(widths[n]);
        for (Size i = 0; i < width; ++i) {
            const uint64_t energy = x[first + i];
            sum += energy * static_cast<uint64_t>(static_cast<int64_t>(weights[start + i]));
            falling += energy * static_cast<uint64_t>(static_cast<int64_t>(unweights[start + i]));
        }
        if (n > 0) out[n - 1] = static_cast<Out>(shift < 32 ? nearest_root(sum) >> shift : 0);
        carried = falling;
    }
}

template <class Acc, class Out, class X, class N>
void signal_noise(Out *out, X x, N noise, Size count, uint32_t smoothing, uint32_t keep, uint32_t odd_smoothing, uint32_t odd_keep,
                  int smoothing_bits, int bits, int clamped, uint32_t) {
    for (Size n = 0; n < count; ++n) {
        const uint32_t units = static_cast<uint32_t>(x[n]) << smoothing_bits, before = noise[n];
        const uint64_t sum =
            static_cast<uint64_t>(units) * (n & 1 ? odd_smoothing : smoothing) + static_cast<uint64_t>(before) * (n & 1 ? odd_keep : keep);
        const uint32_t estimate = static_cast<uint32_t>(sum >> bits);
        out[n] = clamped && estimate > units ? units : estimate;
    }
}

template <class Acc, class Out, class X, class N>
void signal_subtraction(Out *out, X x, N noise, Size count, uint32_t, uint32_t, uint32_t, uint32_t, int smoothing_bits, int bits, int,
                        uint32_t share) {
    for (Size n = 0; n < count; ++n) {
        const uint32_t value = x[n], units = value << smoothing_bits, estimate = noise[n];
        const uint32_t rest = (units - (estimate < units ? estimate : units)) >> smoothing_bits;
        const uint32_t least = static_cast<uint32_t>(static_cast<uint64_t>(value) * share >> bits);
        out[n] = rest > least ? rest : least;
    }
}

// A parabola on each octave, of three numbers in four places
template <class T>
inline int16_t gain_of(uint32_t x, T table) {
    if (x <= 2) return table[x];
    const int octave = bits_of(x);
    const Size at = static_cast<Size>(4 * octave - 6);
    const int32_t fraction = static_cast<int32_t>((octave < 11 ? x << (11 - octave) : x >> (octave - 11)) & 1023);
    const int32_t rising = ((table[at + 2] * fraction) >> 5) + int32_t(32) * table[at + 1];
    const int32_t product = static_cast<int32_t>(static_cast<uint32_t>(rising) * static_cast<uint32_t>(fraction));  // wraps
    return static_cast<int16_t>(static_cast<int32_t>((static_cast<int64_t>(product) + (1 << 14)) >> 15) + table[at]);
}

template <class Acc, class Out, class X, class N, class T>
void signal_pcan(Out *out, X x, N noise, T table, Size count, int shift) {
    for (Size n = 0; n < count; ++n) {
        const uint32_t gain = static_cast<uint32_t>(static_cast<int32_t>(gain_of(noise[n], table)));
        const uint32_t ratio = static_cast<uint32_t>(static_cast<uint64_t>(x[n]) * gain >> shift);
        out[n] = ratio < 8192 ? ratio * ratio >> 20 : (ratio >> 6) - 64;
    }
}

template <class Acc, class Out, class T, class X>
void signal_log(Out *out, T table, X x, Size count, uint32_t factor, int lift) {
    for (Size n = 0; n < count; ++n) {
        const uint32_t value = static_cast<uint32_t>(x[n]) << lift;
        if (value <= 1) {
            out[n] = 0;
            continue;
        }
        const int whole = bits_of(value) - 1;
        const uint32_t behind = value - (uint32_t(1) << whole);
        const uint32_t rest = whole < 16 ? behind << (16 - whole) : behind >> (whole - 16);
        const Size segment = static_cast<Size>(rest >> 9);
        const int32_t low = table[segment], rise = table[segment + 1] - low;
        const uint32_t part = rest + static_cast<uint32_t>(low) + static_cast<uint32_t>(rise * static_cast<int32_t>(rest & 511) >> 16);
        const uint32_t natural = static_cast<uint32_t>((uint64_t(45426) * ((static_cast<uint32_t>(whole) << 16) + part) + 32768) >> 16);
        const uint32_t made = (factor * natural + 32768) >> 16;
        out[n] = static_cast<Out>(made < 32767 ? made : 32767);
    }
}

}  // namespace hil

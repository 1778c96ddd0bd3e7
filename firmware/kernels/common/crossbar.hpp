// Weights on the crossbars of a simulated ReRAM accelerator: dot products from bit-serial inputs, sliced weights and
// converters of few bits, reading by reading (tinyhil/crossbars/array.py is the same in numpy).
#pragma once
#include "firmware/kernels/common/conv.hpp"

namespace hal {

// The clock of the accelerator moves on by so many nanoseconds.
void spend(uint32_t ns);

}  // namespace hal

namespace hil {

// Weights in arrays of Rows x Rows cells of Cell bits, driven by Dac bits at a time, read in Adc bits; inputs with a sign or none.
template <class W, int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed>
struct OnCrossbar {
    W weights;
    OnCrossbar operator+(Size n) const { return {weights + n}; }
};
template <int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed = true, class W>
inline OnCrossbar<W, Rows, Cell, Dac, Adc, WeightBits, InputBits, Signed> on_crossbar(W weights) {
    return {weights};
}

constexpr int bit_length(uint64_t value) { return value == 0 ? 0 : 1 + bit_length(value >> 1); }

// One bit of each of the rows of an array, for all bits of the elements
template <int Bits, int Rows>
struct Planes {
    static constexpr int words = (Rows + 63) / 64;
    uint64_t bits[Bits][words];

    // Bits of what `element` says of rows 0 to count - 1
    template <class Element>
    void load(Size count, Element element) {
        for (int bit = 0; bit < Bits; ++bit)
            for (int word = 0; word < words; ++word) bits[bit][word] = 0;
        for (Size i = 0; i < count; ++i) {
            const uint32_t value = element(i);
            for (int bit = 0; bit < Bits; ++bit) bits[bit][i / 64] |= static_cast<uint64_t>(value >> bit & 1) << (i % 64);
        }
    }
};

// What one column's converter reads while bits [first, first + Dac) of the inputs are driven, up to `end`, and the
// column holds bits [low, low + Cell) of the weights.
template <int Cell, int Dac, int Adc, int Rows, int WeightBits, int InputBits>
inline int64_t reading(const Planes<WeightBits, Rows> &weights, const Planes<InputBits, Rows> &x, int low, int first, int end) {
    constexpr uint64_t most = static_cast<uint64_t>(Rows) * ((1u << Cell) - 1) * ((1u << Dac) - 1);
    constexpr int step = bit_length(most) > Adc ? bit_length(most) - Adc : 0;
    constexpr int64_t half = (int64_t(1) << step) >> 1, highest = (int64_t(1) << Adc) - 1;
    int64_t current = 0;
    for (int j = low; j < low + Cell && j < WeightBits; ++j) {
        for (int i = first; i < first + Dac && i < end; ++i) {
            int64_t both = 0;
            for (int word = 0; word < Planes<InputBits, Rows>::words; ++word)
                both += __builtin_popcountll(weights.bits[j][word] & x.bits[i][word]);
            current += both * (int64_t(1) << (j - low + i - first));
        }
    }
    const int64_t code = (current + half) >> step;
    return (code < highest ? code : highest) * (int64_t(1) << step);
}

// All readings of the arrays that hold one output's weights, shifted and added.
template <int Cell, int Dac, int Adc, bool Signed, int Rows, int WeightBits, int InputBits>
inline int64_t column_pairs(const Planes<WeightBits, Rows> (&signs)[2], const Planes<InputBits, Rows> &x) {
    const auto pair = [&](int low, int first, int end) {
        const int64_t difference =
            reading<Cell, Dac, Adc, Rows>(signs[0], x, low, first, end) - reading<Cell, Dac, Adc, Rows>(signs[1], x, low, first, end);
        return difference * (int64_t(1) << (low + first));
    };
    int64_t total = 0;
    for (int low = 0; low < WeightBits; low += Cell) {
        constexpr int magnitude = InputBits - (Signed ? 1 : 0);
        for (int first = 0; first < magnitude; first += Dac) total += pair(low, first, magnitude);
        if (Signed) total -= pair(low, magnitude, InputBits);  // the sign, driven alone
    }
    return total;
}

template <int N, class Acc, class W, class X, int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed>
inline void accumulate_columns(Acc *sums, OnCrossbar<W, Rows, Cell, Dac, Adc, WeightBits, InputBits, Signed> a, X x, Size count) {
    for (Size at = 0; at < count; at += Rows) {
        const Size rows = count - at < Rows ? count - at : Rows;
        Planes<InputBits, Rows> driven;
        driven.load(rows, [&](Size i) { return static_cast<uint32_t>(static_cast<int32_t>(x[at + i])); });
        for (int n = 0; n < N; ++n) {
            const W weights = a.weights + (n * count + at);
            Planes<WeightBits, Rows> signs[2];
            for (int sign = 0; sign < 2; ++sign) {
                signs[sign].load(rows, [&](Size i) {
                    const int32_t value = sign ? -static_cast<int32_t>(weights[i]) : static_cast<int32_t>(weights[i]);
                    return static_cast<uint32_t>(value > 0 ? value : 0);
                });
            }
            sums[n] += static_cast<Acc>(column_pairs<Cell, Dac, Adc, Signed, Rows>(signs, driven));
        }
    }
}

template <class Acc, class W, class X, int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed>
inline void accumulate(Acc &sum, OnCrossbar<W, Rows, Cell, Dac, Adc, WeightBits, InputBits, Signed> a, X x, Size count) {
    accumulate_columns<1>(&sum, a, x, count);
}
template <class Acc, class W, class X, int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed>
inline void accumulate_rows(Acc (&sums)[4], OnCrossbar<W, Rows, Cell, Dac, Adc, WeightBits, InputBits, Signed> a, X x, Size count) {
    accumulate_columns<4>(sums, a, x, count);
}
template <class Acc, class W, class X, int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed>
inline void accumulate_rows(Acc (&sums)[2], OnCrossbar<W, Rows, Cell, Dac, Adc, WeightBits, InputBits, Signed> a, X x, Size count) {
    accumulate_columns<2>(sums, a, x, count);
}

// The window of one channel as one column holds it, with zeros where it hangs over
template <class X>
struct WindowOf {
    X plane;
    const Span &down, &across;
    const Window &w;
    int32_t operator[](Size i) const {
        const Size y = i / w.kernel_x, k = i % w.kernel_x;
        if (y < down.first || y >= down.end || k < across.first || k >= across.end) return 0;
        const Size row = static_cast<Size>(down.at) + (y - down.first) * w.dilation_y;
        return plane[row * w.width + static_cast<Size>(across.at) + (k - across.first)];
    }
};
template <class Acc, class W, class X, int Rows, int Cell, int Dac, int Adc, int WeightBits, int InputBits, bool Signed>
inline void accumulate_window(Acc &sum, OnCrossbar<W, Rows, Cell, Dac, Adc, WeightBits, InputBits, Signed> a, X plane, const Span &down,
                              const Span &across, const Window &w) {
    accumulate_columns<1>(&sum, a, WindowOf<X>{plane, down, across, w}, w.kernel_y * w.kernel_x);
}

}  // namespace hil

// Products with weights of 4 bits in groups, for cores with the DSP extension (tinyhil/passes/nibbles.py): a word holds eight
// weights of a row, and words of four rows follow each other, so that what is loaded of x serves four rows. 1.4 instructions a product
// and a few for each group.
#pragma once
#include "firmware/kernels/arm/dsp.hpp"
#include "firmware/kernels/common/groups.hpp"

namespace hil {

struct Nibbles { const uint8_t *at; };
inline Nibbles nibbles(const uint8_t *at) { return {at}; }

// Eight elements as pairs of halfwords, in the order of the weights' nibbles
struct EightHalves { uint32_t a, b, c, d; };
inline EightHalves eight_halves(const int8_t *x) {
    const Pairs first = split(word_at(x)), second = split(word_at(x + 4));
    return {first.first, first.second, second.first, second.second};
}
inline EightHalves eight_halves(const int16_t *x) { return {word_at(x), word_at(x + 2), word_at(x + 4), word_at(x + 6)}; }

constexpr uint32_t NIBBLE_PAIR = 0x000F000F;

inline int32_t add_nibbles(int32_t sum, uint32_t word, const EightHalves &x) {
    sum = add_products(sum, word & NIBBLE_PAIR, x.a);
    sum = add_products(sum, (word >> 4) & NIBBLE_PAIR, x.b);
    sum = add_products(sum, (word >> 8) & NIBBLE_PAIR, x.c);
    return add_products(sum, (word >> 12) & NIBBLE_PAIR, x.d);
}

// The sums of a group of four rows; returns the weights behind it. Of its own: all registers are for the loop.
template <class X>
__attribute__((noinline)) const uint8_t *sums_of_four(int32_t (&sums)[4], const uint8_t *w, const X *x, Size count) {
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (const X *const end = x + count; x != end; x += 8, w += 16) {
        const EightHalves values = eight_halves(x);
        a = add_nibbles(a, word_at(w), values);
        b = add_nibbles(b, word_at(w + 4), values);
        c = add_nibbles(c, word_at(w + 8), values);
        d = add_nibbles(d, word_at(w + 12), values);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
    return w;
}

template <class X>
inline int32_t sum_of_eights(const X *x, Size count) {
    constexpr uint32_t ones = 0x00010001;
    int32_t sum = 0;
    for (Size k = 0; k < count; k += 8) {
        const EightHalves values = eight_halves(x + k);
        sum = add_products(add_products(sum, values.a, ones), values.b, ones);
        sum = add_products(add_products(sum, values.c, ones), values.d, ones);
    }
    return sum;
}

// `all` takes the sum of x over each group.
template <class Acc, class Out, class T, class X, class S, class Z, class B, class Shifts>
void grouped_dense(Out *out, T *all, Nibbles weights, Ram<X> x, S scales, Z zeros, B bias, Shifts shifts, Size rows, Size outputs,
                   Size inner, Size size, int bias_shift, int32_t zero) {
    for (; rows > 0; --rows, x = x + inner) {
        Size groups = 0;
        for (Size k = 0; k < inner; k += size) all[groups++] = sum_of_eights(x.at + k, inner - k < size ? inner - k : size);
        const uint8_t *w = weights.at;
        S scale = scales;
        Z more = zeros;
        for (Size n = 0; n < outputs; n += 4) {
            Acc totals[4] = {};
            const X *from = x.at;
            for (Size g = 0; g < groups; ++g, from += size, scale = scale + 4, more = more + 4) {
                int32_t sums[4];
                const Size left = inner - static_cast<Size>(from - x.at);
                w = sums_of_four(sums, w, from, left < size ? left : size);
                for (Size i = 0; i < 4; ++i) {
                    const int32_t sum = portable::wrapped(sums[i], static_cast<int64_t>(more[i] * all[g]));
                    totals[i] += static_cast<Acc>(scale[i]) * sum;
                }
            }
            const Size count = outputs - n < 4 ? outputs - n : 4;
            for (Size i = 0; i < count; ++i) {
                const Acc total = totals[i] + scaled(static_cast<Acc>(bias[n + i]), bias_shift);
                *out++ = saturate<Out>(static_cast<Acc>(halved_by(total, shifts[n + i]) + zero));
            }
        }
    }
}

}  // namespace hil

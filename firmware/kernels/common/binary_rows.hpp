// Binary weights, -s and s, beside bytes: what the negative ones meet is summed, without a product (passes/arrange.py). A row is
// whole words of bits, 1 for a negative weight; bits beyond its last element are 0.
#pragma once
#include "firmware/kernels/common/signs.hpp"

namespace hil {

// Rows of `inner` weights; `first`: the element at which they begin
struct BinaryRows {
    Flash<SignBits> bits;
    Size inner;
    int16_t entry;
    Size first;
    BinaryRows operator+(Size n) const { return {bits, inner, entry, static_cast<Size>(first + n)}; }
    int16_t operator[](Size i) const {
        const Size at = first + i, k = at % inner;
        const bool negative = bits[at / inner * sign_words(inner) + k / sign_bits] >> (k % sign_bits) & 1;
        return negative ? static_cast<int16_t>(-entry) : entry;
    }
    Flash<SignBits> row() const { return first == 0 ? bits : bits + first / inner * sign_words(inner); }
};
inline BinaryRows binary_rows(const SignBits *bits, Size inner, int16_t entry) { return {flash(bits), inner, entry, 0}; }

// For each of `rows` rows the sum of the elements that meet a negative weight
#ifdef __AVR__
constexpr Size rows_together = 1;
#define HIL_IF_NEGATIVE(bit)       \
    "ld %[t], X+\n"                \
    "sbrs %[v], " bit "\n"         \
    "clr %[t]\n"                   \
    "add %A[sum], %[t]\n"          \
    "adc %B[sum], __zero_reg__\n"  \
    "sbrc %[t], 7\n"               \
    "dec %B[sum]\n"
// 8.7 cycles an element; at most seven bytes behind the last one are read, which bits of 0 leave out
inline void sums_of_negative(int32_t *sums, Flash<SignBits> bits, Size, Ram<int8_t> x, Size count) {
    const SignBits *at = bits.at;
    int32_t whole = 0;
    for (Size words = sign_words(count); words > 0;) {
        uint8_t now = words < 31 ? static_cast<uint8_t>(words) : 31;  // 248 times 128 fit 16 bits
        words = static_cast<Size>(words - now);
        int16_t sum = 0;
        uint8_t v, t;
        asm("1:\n"
            "lpm %[v], Z+\n"
            HIL_IF_NEGATIVE("0") HIL_IF_NEGATIVE("1") HIL_IF_NEGATIVE("2") HIL_IF_NEGATIVE("3")
            HIL_IF_NEGATIVE("4") HIL_IF_NEGATIVE("5") HIL_IF_NEGATIVE("6") HIL_IF_NEGATIVE("7")
            "dec %[now]\n"
            "brne 1b\n"
            : [v] "=&r"(v), [t] "=&r"(t), [sum] "+r"(sum), [now] "+r"(now), "+z"(at), "+x"(x.at)
            :
            : "memory");
        whole += sum;
    }
    *sums = whole;
}
#undef HIL_IF_NEGATIVE
#else
constexpr Size rows_together = 64, rows_that_pay = 12;

// The sums of all choices of four elements, for 32 of them; what lies behind the last one counts as 0
struct SumsOfFour {
    int16_t of[8][16];
    void fill(Ram<int8_t> x, Size count) {
        for (Size four = 0; four < 8; ++four) {
            int16_t *const sums = of[four];
            sums[0] = 0;
            for (Size k = 0, known = 1; k < 4; ++k, known *= 2) {
                const int16_t next = 4 * four + k < count ? x[4 * four + k] : int16_t(0);
                for (Size n = 0; n < known; ++n) sums[known + n] = static_cast<int16_t>(sums[n] + next);
            }
        }
    }
};

inline int32_t sum_of_negative(const SignBits *at, Ram<int8_t> x, Size count) {
    int32_t sum = 0;
    for (; count >= sign_bits; count -= sign_bits, x = x + sign_bits) {
        SignBits word = *at++;
        for (Size k = 0; k < sign_bits; k += 8, word >>= 8) {
#pragma GCC unroll 8
            for (Size n = 0; n < 8; ++n) sum += x[k + n] & (static_cast<int32_t>(word << (31 - n)) >> 31);
        }
    }
    if (count == 0) return sum;
    SignBits word = *at;
    for (Size k = 0; k < count; ++k, word >>= 1) sum += x[k] & -static_cast<int32_t>(word & 1);
    return sum;
}

// A word of every row at a time: eight look-ups for 32 products. For few rows the sums of four cost more than they save.
inline void sums_of_negative(int32_t *sums, Flash<SignBits> bits, Size rows, Ram<int8_t> x, Size count) {
    const Size words = sign_words(count);
    if (rows < rows_that_pay) {
        for (Size r = 0; r < rows; ++r) sums[r] = sum_of_negative(bits.at + r * words, x, count);
        return;
    }
    SumsOfFour known;
    for (Size r = 0; r < rows; ++r) sums[r] = 0;
    for (Size n = 0; n < words; ++n, x = x + sign_bits) {
        known.fill(x, count - n * sign_bits);
        const SignBits *at = bits.at + n;
        for (Size r = 0; r < rows; ++r, at += words) {
            const SignBits word = *at;
            int32_t sum = sums[r];
#pragma GCC unroll 8
            for (Size four = 0; four < 8; ++four) sum += known.of[four][word >> (4 * four) & 15];
            sums[r] = sum;
        }
    }
}
#endif

// `rows` rows of outputs n, n + 1, ...: out[n * stride] = sum of weights[n] * x + bias[n] * 2^bias_shift
template <class Acc, class Out, class B, class Shift, class BiasShift>
inline void binary_outputs(Out *out, Size stride, const BinaryRows &weights, Ram<int8_t> x, const B &bias, Size outputs, Shift shift,
                           BiasShift bias_shift) {
    const int32_t all = sum_of(x, weights.inner);
    const Size words = sign_words(weights.inner);
    Flash<SignBits> row = weights.row();
    int32_t negative[rows_together];
    for (Size n = 0; n < outputs;) {
        const Size now = outputs - n < rows_together ? outputs - n : rows_together;
        sums_of_negative(negative, row, now, x, weights.inner);
        for (Size r = 0; r < now; ++r, ++n, out += stride) {
            Acc sum = start_of<Acc>(bias, n, bias_shift);
            sum += Multiply<Acc>::of(all - 2 * negative[r], weights.entry);
            *out = requantize<Out>(sum, of_channel(shift, n));
        }
        row = row + now * words;
    }
}

template <class Acc, class Out, class B, class Shift, class BiasShift>
void dense_bias(Out *out, BinaryRows weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner, out += outputs, next_row(bias, outputs)) {
        binary_outputs<Acc>(out, 1, weights, x, bias, outputs, shift, bias_shift);
    }
}

template <class Acc, class Out, class B, class Shift, class BiasShift>
inline void channels_of_pixel(Out *out, Size pixels, BinaryRows weights, Ram<int8_t> patch, B bias, Size outputs, Size, Shift shift,
                              BiasShift bias_shift) {
    binary_outputs<Acc>(out, pixels, weights, patch, bias, outputs, shift, bias_shift);
}

}  // namespace hil

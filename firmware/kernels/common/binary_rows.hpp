// Binary weights, -s and s, beside bytes: what the negative ones meet is summed, without a product (codegen/arrange.py). A row is
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

inline int32_t sum_of(Ram<int8_t> x, Size count) {
    int32_t sum = 0;
    for (Size k = 0; k < count; ++k) sum += x[k];
    return sum;
}

// The sum of the elements that meet a negative weight
#ifdef __AVR__
#define HIL_IF_NEGATIVE(bit)       \
    "ld %[t], X+\n"                \
    "sbrs %[v], " bit "\n"         \
    "clr %[t]\n"                   \
    "add %A[sum], %[t]\n"          \
    "adc %B[sum], __zero_reg__\n"  \
    "sbrc %[t], 7\n"               \
    "dec %B[sum]\n"
// 8.7 cycles an element; at most seven bytes behind the last one are read, which bits of 0 leave out
inline int32_t sum_of_negative(Flash<SignBits> row, Ram<int8_t> x, Size count) {
    const SignBits *at = row.at;
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
    return whole;
}
#undef HIL_IF_NEGATIVE
#else
inline int32_t sum_of_negative(Flash<SignBits> row, Ram<int8_t> x, Size count) {
    const SignBits *at = row.at;
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
#endif

// `all`: the sum of the elements
template <class Acc>
inline Acc binary_product(const BinaryRows &weights, Flash<SignBits> row, Ram<int8_t> x, int32_t all) {
    return Multiply<Acc>::of(all - 2 * sum_of_negative(row, x, weights.inner), weights.entry);
}

template <class Acc, class Out, class B, class Shift, class BiasShift>
void dense_bias(Out *out, BinaryRows weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    const Size words = sign_words(inner);
    for (; rows > 0; --rows, x = x + inner, next_row(bias, outputs)) {
        const int32_t all = sum_of(x, inner);
        Flash<SignBits> row = weights.bits;
        for (Size n = 0; n < outputs; ++n, row = row + words) {
            Acc sum = start_of<Acc>(bias, n, bias_shift);
            sum += binary_product<Acc>(weights, row, x, all);
            *out++ = requantize<Out>(sum, of_channel(shift, n));
        }
    }
}

template <class Acc, class Out, class B, class Shift, class BiasShift>
inline void channels_of_pixel(Out *out, Size pixels, BinaryRows weights, Ram<int8_t> patch, B bias, Size outputs, Size inner, Shift shift,
                              BiasShift bias_shift) {
    const int32_t all = sum_of(patch, inner);
    const Size words = sign_words(inner);
    Flash<SignBits> row = weights.row();
    for (Size n = 0; n < outputs; ++n, row = row + words, out += pixels) {
        Acc sum = start_of<Acc>(bias, n, bias_shift);
        sum += binary_product<Acc>(weights, row, patch, all);
        *out = requantize<Out>(sum, of_channel(shift, n));
    }
}

}  // namespace hil

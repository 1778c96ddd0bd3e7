// Layers of signs and binary weights, -s and s (tinyhil/ops/signs.py): 32 products at once, on AVR 8, are the bits in which two
// words differ. A bit is 1 for a negative number; bits beyond the last element are 0 in both.
#pragma once
#include "firmware/kernels/common/conv.hpp"

namespace hil {

#ifdef __AVR__
using SignBits = uint8_t;
#else
using SignBits = uint32_t;
#endif
constexpr Size sign_bits = 8 * sizeof(SignBits);
constexpr Size sign_words(Size count) { return (count + sign_bits - 1) / sign_bits; }

inline SignBits sign_bit(int8_t x, SignBits mask) { return static_cast<SignBits>(x >> 7) & mask; }

// In how many bits `words` words differ
#ifdef __AVR__
inline Size differing(Flash<SignBits> a, const SignBits *b, Size words) {  // 26 cycles a byte
    const SignBits *at = a.at;
    Size sum = 0;
    for (; words > 0; --words) {
        uint8_t v, t;
        asm("lpm %[v], Z+\n"
            "ld %[t], X+\n"
            "eor %[v], %[t]\n"
            "mov %[t], %[v]\n"
            "lsr %[t]\n"
            "andi %[t], 0x55\n"
            "sub %[v], %[t]\n"
            "mov %[t], %[v]\n"
            "lsr %[t]\n"
            "lsr %[t]\n"
            "andi %[t], 0x33\n"
            "andi %[v], 0x33\n"
            "add %[v], %[t]\n"
            "mov %[t], %[v]\n"
            "swap %[t]\n"
            "add %[v], %[t]\n"
            "andi %[v], 0x0F\n"
            "add %A[sum], %[v]\n"
            "adc %B[sum], __zero_reg__\n"
            : [v] "=&d"(v), [t] "=&d"(t), [sum] "+r"(sum), "+z"(at), "+x"(b)
            :
            : "memory");
    }
    return sum;
}
#else
inline Size differing(Flash<SignBits> a, const SignBits *b, Size words) {
    const SignBits *at = a.at;
    Size sum = 0;
    while (words > 0) {
        const Size now = words < 31 ? words : 31;  // a byte of the counts holds 31 times 8
        SignBits counts = 0;
        for (const SignBits *const end = b + now; b != end;) {
            SignBits v = *at++ ^ *b++;
            v -= (v >> 1) & 0x55555555;
            v = (v & 0x33333333) + ((v >> 2) & 0x33333333);
            counts += (v + (v >> 4)) & 0x0F0F0F0F;
        }
        counts = (counts & 0x00FF00FF) + ((counts >> 8) & 0x00FF00FF);
        sum += (counts + (counts >> 16)) & 0xFFFF;
        words -= now;
    }
    return sum;
}
#endif

// Elements one after the other as bits
inline void pack_signs(SignBits *to, Ram<int8_t> x, Size count) {
    while (count >= sign_bits) {
        SignBits word = 0;
#ifdef __AVR__
        for (SignBits mask = 1; mask != 0; mask = static_cast<SignBits>(mask << 1), x = x + 1) word |= sign_bit(x[0], mask);
#else
        for (Size n = 0; n < sign_bits; n += 4, x = x + 4) {  // the highest bits of four bytes, moved to the highest four
            uint32_t four;
            __builtin_memcpy(&four, x.at, 4);
            word = word >> 4 | (((four & 0x80808080) * 0x00204081) & 0xF0000000);
        }
#endif
        *to++ = word;
        count = static_cast<Size>(count - sign_bits);
    }
    if (count == 0) return;
    SignBits word = 0;
    for (SignBits mask = 1; count > 0; --count, mask = static_cast<SignBits>(mask << 1), x = x + 1) word |= sign_bit(x[0], mask);
    *to = word;
}

// A line of pixels, the bits of a pixel's channels together
inline void pack_line(SignBits *to, Ram<int8_t> line, Size width, Size channels, Size plane) {
    const Size words = sign_words(channels);
    for (Size n = 0; n < width * words; ++n) to[n] = 0;
    for (; channels > 0; ++to) {
        for (SignBits mask = 1; mask != 0 && channels > 0; mask = static_cast<SignBits>(mask << 1), --channels, line = line + plane) {
            SignBits *at = to;
            for (Size column = 0; column < width; ++column, at += words) *at |= sign_bit(line[column], mask);
        }
    }
}

// entry times the sum of `count` products of signs
template <class Acc>
inline Acc sum_of_signs(Size count, Size differ, int16_t entry) {
    return Multiply<Acc>::of(static_cast<int16_t>(count - 2 * differ), entry);
}

// out[r][n] = sum_k weights[n][k] * x[r][k] + bias[n] * 2^bias_shift, all inside the exact sum
template <class Acc, class Out, class T, class B, class Shift, class BiasShift>
void sign_dense_bias(Out *out, T *scratch, Flash<SignBits> weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner,
                     int16_t entry, Shift shift, BiasShift bias_shift) {
    SignBits *const packed = reinterpret_cast<SignBits *>(scratch);
    const Size words = sign_words(inner);
    for (; rows > 0; --rows, x = x + inner, next_row(bias, outputs)) {
        pack_signs(packed, x, inner);
        Flash<SignBits> row = weights;
        for (Size n = 0; n < outputs; ++n, row = row + words) {
            Acc sum = start_of<Acc>(bias, n, bias_shift);
            sum += sum_of_signs<Acc>(inner, differing(row, packed, words), entry);
            *out++ = requantize<Out>(sum, of_channel(shift, n));
        }
    }
}

template <class Acc, class Out, class T, class Shift>
void sign_dense(Out *out, T *scratch, Flash<SignBits> weights, Ram<int8_t> x, Size rows, Size outputs, Size inner, int16_t entry,
                Shift shift) {
    sign_dense_bias<Acc>(out, scratch, weights, x, NoBias(), rows, outputs, inner, entry, shift, Const<0>());
}

// In how many signs the window of one output differs from what lies inside of the plane
inline Size differing_window(Flash<SignBits> weights, const SignBits *lines, const Span &down, const Span &across, const Window &w,
                             Size words) {
    Size differ = 0;
    for (Size k = down.first; k < down.end; ++k) {
        const SignBits *line = lines + (k * w.width + static_cast<Size>(across.at)) * words;
        Flash<SignBits> row = weights + (k * w.kernel_x + across.first) * words;
        if (w.dilation_x == 1) {
            differ = static_cast<Size>(differ + differing(row, line, static_cast<Size>(across.end - across.first) * words));
            continue;
        }
        for (Size tap = across.first; tap < across.end; ++tap, row = row + words, line += w.dilation_x * words) {
            differ = static_cast<Size>(differ + differing(row, line, words));
        }
    }
    return differ;
}

// out[n][pixel]: what a window has outside of the plane counts as nothing
template <class Acc, class Out, class T, class B, class Shift, class BiasShift>
HIL_PER_LAYER void sign_conv_bias(Out *out, T *scratch, Flash<SignBits> weights, Ram<int8_t> x, B bias, const Window &w, Size outputs,
                                  int16_t entry, Shift shift, BiasShift bias_shift) {
    SignBits *const lines = reinterpret_cast<SignBits *>(scratch);
    const Size words = sign_words(w.channels), pixels = w.out_height * w.out_width, each = w.kernel_y * w.kernel_x * words;
    for (Size y = 0; y < w.out_height; ++y) {
        const Span down = inside(origin(y, w.stride_y, w.pad_y), w.kernel_y, w.dilation_y, w.height);
        Ram<int8_t> line = x + static_cast<Size>(down.at) * w.width;
        for (Size k = down.first; k < down.end; ++k, line = line + w.dilation_y * w.width) {
            pack_line(lines + k * w.width * words, line, w.width, w.channels, w.height * w.width);
        }
        for (Size column = 0; column < w.out_width; ++column, ++out) {
            const Span across = inside(origin(column, w.stride_x, w.pad_x), w.kernel_x, w.dilation_x, w.width);
            const Size rows = down.end > down.first ? down.end - down.first : 0;
            const Size count = across.end > across.first ? rows * (across.end - across.first) * w.channels : 0;
            Flash<SignBits> row = weights;
            Out *to = out;
            for (Size n = 0; n < outputs; ++n, row = row + each, to += pixels) {
                Acc sum = start_of<Acc>(bias, n, bias_shift);
                if (count > 0) sum += sum_of_signs<Acc>(count, differing_window(row, lines, down, across, w, words), entry);
                *to = requantize<Out>(sum, of_channel(shift, n));
            }
        }
    }
}

template <class Acc, class Out, class T, class Shift>
HIL_PER_LAYER void sign_conv(Out *out, T *scratch, Flash<SignBits> weights, Ram<int8_t> x, const Window &w, Size outputs, int16_t entry,
                             Shift shift) {
    sign_conv_bias<Acc>(out, scratch, weights, x, NoBias(), w, outputs, entry, shift, Const<0>());
}

}  // namespace hil

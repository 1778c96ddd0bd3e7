// Products of two computed matrices (common/batched.hpp): columns are packed into scratch as halfwords less their zero point, some at
// a time (packed_columns.hpp), and what is left two at a time, over which two rows run, read as they lie.
#pragma once
#include "firmware/kernels/arm/packed_columns.hpp"
#include "firmware/kernels/common/batched.hpp"

namespace hil {

// Two columns as halfwords less their zero point, four elements of each in turn: (0, 2), (1, 3) of the first, then of the second
struct Columns {
    int32_t sums[2];
    uint32_t squares;  // the larger sum of them
};
template <Size Count>
inline uint32_t codes_at(const int8_t *p) {
    return Count == 2 ? static_cast<uint8_t>(p[0]) | static_cast<uint32_t>(static_cast<uint8_t>(p[1])) << 8 : static_cast<uint8_t>(*p);
}
template <Size Count>
__attribute__((noinline)) Columns pack_columns(uint32_t *to, const int8_t *b, Size inner, Size step, int zero) {
    const uint32_t zeros = in_both(zero), nothing = static_cast<uint32_t>(zero & 0xFF) * 0x0101u;
    int32_t first = 0, second = 0, first_squares = 0, second_squares = 0;
    for (Size left = inner; left > 0; to += 4) {
        uint32_t even, odd;
        if (left >= 4) {
            even = codes_at<Count>(b) | codes_at<Count>(b + 2 * step) << 16;
            odd = codes_at<Count>(b + step) | codes_at<Count>(b + 3 * step) << 16;
            b += 4 * step;
            left -= 4;
        } else {
            even = codes_at<Count>(b) | (left > 2 ? codes_at<Count>(b + 2 * step) : nothing) << 16;
            odd = (left > 1 ? codes_at<Count>(b + step) : nothing) | nothing << 16;
            left = 0;
        }
        const uint32_t p = without_zero(even_bytes(even), zeros), q = without_zero(even_bytes(odd), zeros);
        const uint32_t r = without_zero(odd_bytes(even), zeros), s = without_zero(odd_bytes(odd), zeros);
        to[0] = p;
        to[1] = q;
        to[2] = r;
        to[3] = s;
        first = add_products(add_products(first, p, 0x10001), q, 0x10001);
        second = add_products(add_products(second, r, 0x10001), s, 0x10001);
        first_squares = add_products(add_products(first_squares, p, p), q, q);
        second_squares = add_products(add_products(second_squares, r, r), s, s);
    }
    const int32_t squares = Count == 2 && second_squares > first_squares ? second_squares : first_squares;
    return {{first, second}, static_cast<uint32_t>(squares)};
}

// Two rows of bytes times two columns, `fours` times four elements of each (at least one): 16 instructions for 16 products
#ifdef __ARM_FEATURE_DSP
#ifdef HIL_LOADS_BESIDE_PRODUCTS
#define HIL_TWO_BY_TWO \
    "ldr %[x], [%[a]], #4\n" \
    "ldr %[y], [%[n]], #4\n" \
    "sxtb16 %[v], %[x]\n" \
    "ldr %[p], [%[b]], #4\n" \
    "sxtb16 %[x], %[x], ror #8\n" \
    "ldr %[q], [%[b]], #4\n" \
    "sxtb16 %[w], %[y]\n" \
    "smlad %[s0], %[v], %[p], %[s0]\n" \
    "sxtb16 %[y], %[y], ror #8\n" \
    "smlad %[s2], %[w], %[p], %[s2]\n" \
    "ldr %[p], [%[b]], #4\n" \
    "smlad %[s0], %[x], %[q], %[s0]\n" \
    "smlad %[s2], %[y], %[q], %[s2]\n" \
    "ldr %[q], [%[b]], #4\n" \
    "smlad %[s1], %[v], %[p], %[s1]\n" \
    "smlad %[s3], %[w], %[p], %[s3]\n" \
    "smlad %[s1], %[x], %[q], %[s1]\n" \
    "smlad %[s3], %[y], %[q], %[s3]\n"
#else
#define HIL_TWO_BY_TWO \
    "ldr %[x], [%[a]], #4\n" \
    "ldr %[y], [%[n]], #4\n" \
    "ldrd %[p], %[q], [%[b]], #8\n" \
    "sxtb16 %[v], %[x]\n" \
    "sxtb16 %[x], %[x], ror #8\n" \
    "sxtb16 %[w], %[y]\n" \
    "sxtb16 %[y], %[y], ror #8\n" \
    "smlad %[s0], %[v], %[p], %[s0]\n" \
    "smlad %[s2], %[w], %[p], %[s2]\n" \
    "smlad %[s0], %[x], %[q], %[s0]\n" \
    "smlad %[s2], %[y], %[q], %[s2]\n" \
    "ldrd %[p], %[q], [%[b]], #8\n" \
    "smlad %[s1], %[v], %[p], %[s1]\n" \
    "smlad %[s3], %[w], %[p], %[s3]\n" \
    "smlad %[s1], %[x], %[q], %[s1]\n" \
    "smlad %[s3], %[y], %[q], %[s3]\n"
#endif
__attribute__((noinline)) inline void add_fours(int32_t *s, const int8_t *a, const int8_t *n, const uint32_t *b, Size fours) {
    int32_t s0 = s[0], s1 = s[1], s2 = s[2], s3 = s[3];
    const uint32_t *const end = b + 4 * fours;
    uint32_t x, y, v, w, p, q;
    if (fours & 1) {
        asm volatile(HIL_TWO_BY_TWO
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [a] "+r"(a), [n] "+r"(n), [b] "+r"(b), [x] "=&r"(x),
                       [y] "=&r"(y), [v] "=&r"(v), [w] "=&r"(w), [p] "=&r"(p), [q] "=&r"(q)
                     :
                     : "memory");
    }
    while (b != end) {
        asm volatile(HIL_TWO_BY_TWO HIL_TWO_BY_TWO
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [a] "+r"(a), [n] "+r"(n), [b] "+r"(b), [x] "=&r"(x),
                       [y] "=&r"(y), [v] "=&r"(v), [w] "=&r"(w), [p] "=&r"(p), [q] "=&r"(q)
                     :
                     : "memory");
    }
    s[0] = s0;
    s[1] = s1;
    s[2] = s2;
    s[3] = s3;
}
#endif
#undef HIL_TWO_BY_TWO
inline void add_word(int32_t (&s)[4], uint32_t word, uint32_t more, const uint32_t *b) {
    const Pairs x = split(word), y = split(more);
    s[0] = add_products(add_products(s[0], x.first, b[0]), x.second, b[1]);
    s[1] = add_products(add_products(s[1], x.first, b[2]), x.second, b[3]);
    s[2] = add_products(add_products(s[2], y.first, b[0]), y.second, b[1]);
    s[3] = add_products(add_products(s[3], y.first, b[2]), y.second, b[3]);
}
__attribute__((always_inline)) inline void add_two_by_two(int32_t (&s)[4], const int8_t *a, const int8_t *next, const uint32_t *b,
                                                          Size count) {
    const Size fours = count / 4;
#ifdef __ARM_FEATURE_DSP
    if (fours) add_fours(s, a, next, b, fours);
#else
    for (Size k = 0; k < fours; ++k) add_word(s, word_at(a + 4 * k), word_at(next + 4 * k), b + 4 * k);
#endif
    if (count & 3)
        add_word(s, rest_at(a + 4 * fours, count & 3, 0), rest_at(next + 4 * fours, count & 3, 0), b + 4 * fours);  // times zeros
}

// All rows times packed columns, in fixed point
template <class Sum, class Acc, class Out, class Code, class Shift>
__attribute__((noinline)) void rows_by_packed(Out *out, const uint32_t *packed, const Code *a, Size rows, Size inner, Size columns,
                                              Shift shift) {
    constexpr Size count = PackedColumns<Sum>::count;
    const Sum nothing[count] = {};
    each_rows(packed, a, rows, inner, nothing, [&](Size row, const Sum *sums, const Sum *end) {
        for (Out *at = out + row * columns; sums != end; sums += count, at += columns) {
#pragma GCC unroll 8
            for (Size c = 0; c < count; ++c) at[c] = requantize<Out>(static_cast<Acc>(sums[c]), shift);
        }
    });
}

// Fixed point: sums as they are. `scratch`: halfwords for two columns, up to a multiple of four elements; for as many as go together if
// there are.
template <class Acc, class Out, class Word, class Shift>
void batch_matmul(Out *out, Word *scratch, Ram<int8_t> a, Ram<int8_t> b, Size batch, Size a_step, Size b_step, Size rows, Size inner,
                  Size columns, Shift shift) {
    static_assert(sizeof(Acc) == 4, "sums of bytes have 32 bits");
    uint32_t *const packed = reinterpret_cast<uint32_t *>(scratch);
    for (; batch > 0; --batch, a = a + a_step, b = b + b_step, out += rows * columns) {
        const Size together = columns / byte_columns * byte_columns;
        for (Size c = 0; c < together; c += byte_columns) {
            pack_columns_of<false>(packed, b.at + c, inner, columns, 0);
            rows_by_packed<int32_t, Acc>(out + c, packed, a.at, rows, inner, columns, shift);
        }
        for (Size c = together; c < columns; c += 2) {
            const bool both = c + 1 < columns;
            if (both) pack_columns<2>(packed, b.at + c, inner, columns, 0);
            else pack_columns<1>(packed, b.at + c, inner, columns, 0);
            const int8_t *row = a.at;
            Out *at = out + c;
            for (Size r = 0; r < rows; r += 2, row += 2 * inner, at += 2 * columns) {
                const bool two = r + 1 < rows;
                int32_t sums[4] = {0, 0, 0, 0};
                add_two_by_two(sums, row, two ? row + inner : row, packed, inner);
                at[0] = requantize<Out>(static_cast<Acc>(sums[0]), shift);
                if (both) at[1] = requantize<Out>(static_cast<Acc>(sums[1]), shift);
                if (two) at[columns] = requantize<Out>(static_cast<Acc>(sums[2]), shift);
                if (two && both) at[columns + 1] = requantize<Out>(static_cast<Acc>(sums[3]), shift);
            }
        }
    }
}

// Two columns of 16 bits, pairs of neighbours in turn; what is missing to a pair is 0
__attribute__((noinline)) inline void pack_columns(uint32_t *to, const int16_t *b, Size inner, Size step, bool both) {
    const auto codes = [&](const int16_t *p) { return both ? word_at(p) : static_cast<uint32_t>(static_cast<uint16_t>(*p)); };
    for (Size left = inner; left > 0; to += 2, b += 2 * step) {
        const uint32_t upper = codes(b), lower = left > 1 ? codes(b + step) : 0;
        to[0] = lower_halves(upper, lower);
        to[1] = upper_halves(upper, lower);
        left -= left > 1 ? 2 : 1;
    }
}
// A row of `pairs` times two columns: 5 instructions for 4 products
template <class Acc>
__attribute__((noinline)) void add_pairs(Acc (&sums)[2], const int16_t *a, const uint32_t *b, Size pairs) {
    Acc first = sums[0], second = sums[1];
    const uint32_t *const end = b + 2 * pairs;
    const auto add = [&] {
        const uint32_t x = word_at(a);
        first = add_products(first, x, b[0]);
        second = add_products(second, x, b[1]);
        a += 2;
        b += 2;
    };
    for (Size k = 0; k < (pairs & 3); ++k) add();
    while (b != end) {
        add();
        add();
        add();
        add();
    }
    sums[0] = first;
    sums[1] = second;
}
template <class Acc, class Out, class Word, class Shift>
void batch_matmul(Out *out, Word *scratch, Ram<int16_t> a, Ram<int16_t> b, Size batch, Size a_step, Size b_step, Size rows, Size inner,
                  Size columns, Shift shift) {
    uint32_t *const packed = reinterpret_cast<uint32_t *>(scratch);
    for (; batch > 0; --batch, a = a + a_step, b = b + b_step, out += rows * columns) {
        const Size together = columns / halfword_columns * halfword_columns;
        for (Size c = 0; c < together; c += halfword_columns) {
            pack_columns_of(packed, b.at + c, inner, columns);
            rows_by_packed<int64_t, Acc>(out + c, packed, a.at, rows, inner, columns, shift);
        }
        for (Size c = together; c < columns; c += 2) {
            const bool both = c + 1 < columns;
            pack_columns(packed, b.at + c, inner, columns, both);
            const int16_t *row = a.at;
            Out *at = out + c;
            for (Size r = 0; r < rows; ++r, row += inner, at += columns) {
                Acc sums[2] = {0, 0};
                add_pairs(sums, row, packed, inner / 2);
                if (inner & 1) {
                    sums[0] = add_products(sums[0], static_cast<uint16_t>(row[inner - 1]), packed[inner - 1]);
                    sums[1] = add_products(sums[1], static_cast<uint16_t>(row[inner - 1]), packed[inner]);
                }
                at[0] = requantize<Out>(sums[0], shift);
                if (both) at[1] = requantize<Out>(sums[1], shift);
            }
        }
    }
}
template <class Acc, class Out, class Word, class Code, class Shift>
void matmul(Out *out, Word *scratch, Ram<Code> a, Ram<Code> b, Size rows, Size inner, Size columns, Shift shift) {
    batch_matmul<Acc>(out, scratch, a, b, 1, 0, 0, rows, inner, columns, shift);
}

}  // namespace hil

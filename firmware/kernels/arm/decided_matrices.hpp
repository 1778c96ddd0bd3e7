// Products of two computed matrices of asymmetric bytes, defined in single precision in element order: exact sums of integers decide.
#pragma once
#include "firmware/kernels/arm/matrices.hpp"
#include "firmware/kernels/arm/rounded_rows.hpp"

namespace hil {

constexpr int decided_bits = 22, fewest_decided_bits = 10;  // behind the point, of approximated results

// The product of three floats as m * 2^exponent, 2^30 <= m < 2^31: cut, by less than 2^-28 of itself
struct Cut {
    uint32_t m;
    int exponent;
};
inline uint32_t mantissa_of(uint32_t bits) { return (bits & 0x7FFFFF) | 0x800000; }
inline int exponent_of(uint32_t bits) { return static_cast<int>(bits >> 23 & 0xFF) - 150; }
inline Cut cut_product(uint32_t a, uint32_t b, uint32_t c) {
    uint64_t product = static_cast<uint64_t>(mantissa_of(a)) * mantissa_of(b) >> 17;
    int exponent = exponent_of(a) + exponent_of(b) + exponent_of(c) + 17;
    product *= mantissa_of(c);
    for (; product >> 31; ++exponent) product >>= 1;
    return {static_cast<uint32_t>(product), exponent};
}

__attribute__((noinline)) inline uint32_t most_squares(const int8_t *a, Size rows, Size inner, int zero) {
    const uint32_t zeros = in_both(zero);
    int32_t most = 0;
    for (; rows > 0; --rows, a += inner) {
        const int32_t squares = moments_of(a, inner, zeros, zero).squares;
        most = squares > most ? squares : most;
    }
    return static_cast<uint32_t>(most);
}

// An element of a product as the floats have it
template <class A, class B>
__attribute__((noinline)) int8_t single_product(A a, B b, Size inner, Size columns, const ToAffine &to) {
    float sum = 0.0f;
    for (Size k = 0; k < inner; ++k) sum += Multiply<float>::of(a[k], b[k * columns]);
    return requantize<int8_t>(sum, to);
}

// How sums of these two columns become codes. The floats are wrong by at most (inner + 4) * 2^-24 of the sum of magnitudes, which is
// below the product of the lengths of row and column.
struct SumsDecided {
    Decided to;
    int left;
};
inline SumsDecided sums_decided(uint32_t a_squares, uint32_t b_squares, const Cut &by, Size inner, int zero) {
    const float most = (single::sqrt(static_cast<float>(a_squares)) * single::sqrt(static_cast<float>(b_squares))) * 1.00001f + 1.0f;
    const uint32_t bound = static_cast<uint32_t>(most);
    int left = leading_zeros(bound) - 1;
    if (left - 32 - by.exponent > decided_bits) left = decided_bits + 32 + by.exponent;
    const int f = left - 32 - by.exponent;
    if (left < 0 || f < fewest_decided_bits) return {undecided(fewest_decided_bits), 0};
    const uint32_t top = static_cast<uint32_t>((static_cast<uint64_t>(bound << left) * by.m) >> 32) + 1;
    const uint32_t error = static_cast<uint32_t>((static_cast<uint64_t>(top) * (inner + 4)) >> 24) + (top >> 28) + 8;
    if (error >> (f - 3)) return {undecided(fewest_decided_bits), 0};
    return {decided(f, static_cast<int32_t>(error), zero), left};
}

// All rows times these columns
template <Size Count>
__attribute__((noinline)) void rows_by_columns(int8_t *out, const uint32_t *packed, Real32<Ram<int8_t>> a, Real32<Ram<int8_t>> b, Size rows,
                                               Size inner, Size columns, const Columns &of, const SumsDecided &how, const Cut &by,
                                               const ToAffine &to) {
    const int32_t first = -a.zero * of.sums[0], second = -a.zero * of.sums[1], m = static_cast<int32_t>(by.m);
    const int32_t unit = int32_t(1) << how.left;
    const Decided round = how.to;
    for (Size r = 0; r < rows; r += 2, a = a + 2 * inner, out += 2 * columns) {
        const bool two = r + 1 < rows;
        int32_t sums[4] = {first, second, first, second};
        add_two_by_two(sums, a.codes.at, two ? a.codes.at + inner : a.codes.at, packed, inner);
        bool is_any_open = false;
        const auto rounded_sum = [&](int32_t sum) {
            const int32_t t = static_cast<int32_t>((static_cast<int64_t>(sum * unit) * m) >> 32) + round.start;
            is_any_open |= is_open(t, round);
            return t >> round.f;
        };
        const int32_t p = rounded_sum(sums[0]), q = Count == 2 ? rounded_sum(sums[1]) : 0;
        const int32_t v = rounded_sum(sums[2]), w = Count == 2 ? rounded_sum(sums[3]) : 0;
        if (__builtin_expect(is_any_open, 0)) {
            for (Size y = 0; y < (two ? 2u : 1u); ++y) {
                for (Size x = 0; x < Count; ++x) {
                    const int32_t t = static_cast<int32_t>((static_cast<int64_t>(sums[2 * y + x] * unit) * m) >> 32) + round.start;
                    out[y * columns + x] = is_open(t, round) ? single_product(a + y * inner, b + x, inner, columns, to)
                                                             : saturate<int8_t>(static_cast<int32_t>(t >> round.f));
                }
            }
            continue;
        }
        out[0] = saturate<int8_t>(p);
        if (Count == 2) out[1] = saturate<int8_t>(q);
        if (!two) continue;
        out[columns] = saturate<int8_t>(v);
        if (Count == 2) out[columns + 1] = saturate<int8_t>(w);
    }
}

// The results of a row of which one is open or clipped
__attribute__((noinline, cold)) inline void row_again(int8_t *out, const int32_t *sums, Real32<Ram<int8_t>> a, Real32<Ram<int8_t>> b,
                                                      Size inner, Size columns, const Rounder &by, const ToAffine &to) {
    for (Size c = 0; c < byte_columns; ++c) {
        const int32_t t = by.of_sum(sums[c]);
        out[c] = by.is_open(t) ? single_product(a, b + c, inner, columns, to) : saturate<int8_t>(static_cast<int32_t>(t >> by.right));
    }
}
// All rows times packed columns
__attribute__((noinline)) inline void rows_by_packed(int8_t *out, const uint32_t *packed, Real32<Ram<int8_t>> a, Real32<Ram<int8_t>> b,
                                                     Size rows, Size inner, Size columns, const ColumnSums &of, const SumsDecided &how,
                                                     const Cut &by, const ToAffine &to) {
    int32_t starts[byte_columns];
    for (Size c = 0; c < byte_columns; ++c) starts[c] = -a.zero * of.sums[c];
    const Rounder rounding = {static_cast<int32_t>(by.m), how.to.start, how.left, how.to.f, 32 - how.to.f, how.to.open, columns};
    each_rows(packed, a.codes.at, rows, inner, starts, [&](Size row, const int32_t *sums, const int32_t *end) {
        for (;;) {
            const int32_t *const stopped = round_sums(out + row * columns, sums, end, rounding);
            if (stopped == end) return;
            row += static_cast<Size>(stopped - sums) / byte_columns;
            row_again(out + row * columns, stopped, a + row * inner, b, inner, columns, rounding, to);
            sums = stopped + byte_columns;
            ++row;
            if (sums == end) return;
        }
    });
}

// `scratch`: halfwords for two columns, up to a multiple of four elements; for as many as go together if there are
template <class Acc, class Word>
void batch_matmul(int8_t *out, Word *scratch, Real32<Ram<int8_t>> a, Real32<Ram<int8_t>> b, Size batch, Size a_step, Size b_step, Size rows,
                  Size inner, Size columns, ToAffine to) {
    uint32_t *const packed = reinterpret_cast<uint32_t *>(scratch);
    const Cut by = cut_product(bits_of(a.scale), bits_of(b.scale), to.inverse_bits);
    for (; batch > 0; --batch, a = a + a_step, b = b + b_step, out += rows * columns) {
        const uint32_t a_squares = most_squares(a.codes.at, rows, inner, a.zero);
        const Size together = columns / byte_columns * byte_columns;
        for (Size c = 0; c < together; c += byte_columns) {
            const ColumnSums of = pack_columns_of<true>(packed, b.codes.at + c, inner, columns, b.zero);
            const SumsDecided how = sums_decided(a_squares, of.squares, by, inner, to.zero);
            rows_by_packed(out + c, packed, a, b + c, rows, inner, columns, of, how, by, to);
        }
        for (Size c = together; c < columns; c += 2) {
            const bool both = c + 1 < columns;
            const int8_t *const column = b.codes.at + c;
            const Columns of =
                both ? pack_columns<2>(packed, column, inner, columns, b.zero) : pack_columns<1>(packed, column, inner, columns, b.zero);
            const SumsDecided how = sums_decided(a_squares, of.squares, by, inner, to.zero);
            if (both) rows_by_columns<2>(out + c, packed, a, b + c, rows, inner, columns, of, how, by, to);
            else rows_by_columns<1>(out + c, packed, a, b + c, rows, inner, columns, of, how, by, to);
        }
    }
}
template <class Acc, class Word>
void matmul(int8_t *out, Word *scratch, Real32<Ram<int8_t>> a, Real32<Ram<int8_t>> b, Size rows, Size inner, Size columns, ToAffine to) {
    batch_matmul<Acc>(out, scratch, a, b, 1, 0, 0, rows, inner, columns, to);
}

}  // namespace hil

// Products of two computed matrices: columns are packed into scratch as halfwords, eight of bytes or four of halfwords, then one row after
// another runs over them, read as it lies. The sums of some rows are held on the stack and rounded together.
#pragma once
#include "firmware/kernels/arm/decided.hpp"

namespace hil {

constexpr Size sums_bytes = 256;  // of some rows, on the stack

// What rows run over: `steps` times four elements of bytes, or two of halfwords, of packed columns; where sums start, and where the last
// row's sums end. The assembler reads it by offsets.
template <class Sum>
struct PackedColumns {
    static constexpr Size count = 32 / sizeof(Sum);
    const uint32_t *packed;
    Size steps;
    const Sum *starts;
    const Sum *end;
};
constexpr Size byte_columns = PackedColumns<int32_t>::count, halfword_columns = PackedColumns<int64_t>::count;

namespace portable {

// Elements 0 and 2 of each column, then 1 and 3: four columns at a time, whose sums have registers on a Cortex-M3
inline void times_columns(int32_t *sums, const int8_t *a, const PackedColumns<int32_t> &of) {
    const auto half = [](uint32_t pair, int which) { return which ? high_half(pair) : low_half(pair); };
    for (; sums != of.end; sums += 8, a += 4 * of.steps) {
        for (Size first = 0; first < 8; first += 4) {
            int32_t s[4] = {of.starts[first], of.starts[first + 1], of.starts[first + 2], of.starts[first + 3]};
            const uint32_t *b = of.packed + first;
            const int8_t *x = a;
            for (Size k = 0; k < of.steps; ++k, x += 4, b += 16) {
#pragma GCC unroll 4
                for (int n = 0; n < 4; ++n) {
                    const uint32_t *const words = b + 8 * (n & 1);
#pragma GCC unroll 4
                    for (Size c = 0; c < 4; ++c) s[c] += x[n] * half(words[c], n >> 1);
                }
            }
            for (Size c = 0; c < 4; ++c) sums[first + c] = s[c];
        }
    }
}
// Pairs of neighbours of each column
inline void times_columns(int64_t *sums, const int16_t *a, const PackedColumns<int64_t> &of) {
    for (; sums != of.end; sums += 4) {
        const uint32_t *b = of.packed;
        for (Size c = 0; c < 4; ++c) sums[c] = of.starts[c];
        for (Size k = 0; k < of.steps; ++k, a += 2, b += 4) {
            for (Size c = 0; c < 4; ++c) sums[c] = add_products(sums[c], word_at(a), b[c]);
        }
    }
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
#ifdef HIL_LOADS_BESIDE_PRODUCTS
// 18 cycles for 32 products, a load beside each; the last step loads nothing that follows
#define HIL_TWO_COLUMNS(first, second, of) \
    "smlad " first ", " of ", r0, " first "\n" \
    "ldr r0, [r2], #4\n" \
    "smlad " second ", " of ", lr, " second "\n" \
    "ldr lr, [r2], #4\n"
#define HIL_STEP_OF_BYTES(next) \
    "sxtb16 r10, r9, ror #8\n" \
    "ldr r0, [r2], #4\n" \
    "sxtb16 r9, r9\n" \
    "ldr lr, [r2], #4\n" HIL_TWO_COLUMNS("r3", "r4", "r9") HIL_TWO_COLUMNS("r5", "r6", "r9") HIL_TWO_COLUMNS("r7", "r8", "r9") \
        HIL_TWO_COLUMNS("r11", "r12", "r9") HIL_TWO_COLUMNS("r3", "r4", "r10") HIL_TWO_COLUMNS("r5", "r6", "r10") \
            HIL_TWO_COLUMNS("r7", "r8", "r10") "smlad r11, r10, r0, r11\n" next "smlad r12, r10, lr, r12\n"
#define HIL_NEXT_BYTES HIL_STEP_OF_BYTES("ldr r9, [r1], #4\n")
#define HIL_ROW_OF_BYTES \
    "ldr r9, [r1], #4\n" \
    "beq 2f\n" \
    ".balign 8\n" \
    "1:\n" HIL_NEXT_BYTES "2:\n" HIL_NEXT_BYTES "ldr r0, [sp, #8]\n" \
    "cmp r2, r0\n" \
    "bne 1b\n" HIL_STEP_OF_BYTES("")
#define HIL_LAST_BYTES "sub r3, r3, #64\n"
// 5 cycles for 8 products
#define HIL_TWO_HALVES(next_words, next_row) \
    "smlald r6, r7, r3, r12\n" \
    "ldr lr, [r2, #8]\n" \
    "smlald r4, r5, r3, r0\n" \
    "ldr r0, [r2, #12]\n" \
    "smlald r8, r9, r3, lr\n" next_words "smlald r10, r11, r3, r0\n" next_row
#define HIL_NEXT_HALVES HIL_TWO_HALVES("ldr r12, [r2, #20]\n", "ldr r3, [r1], #4\nldr r0, [r2, #16]\nadds r2, #16\n")
#define HIL_ROW_OF_HALVES \
    "ldr r3, [r1], #4\n" \
    "ldr r12, [r2, #4]\n" \
    "ldr r0, [r2]\n" \
    "beq 2f\n" \
    ".balign 8\n" \
    "1:\n" HIL_NEXT_HALVES "2:\n" HIL_NEXT_HALVES "ldr lr, [sp, #8]\n" \
    "cmp r2, lr\n" \
    "bne 1b\n" HIL_TWO_HALVES("", "")
#define HIL_LAST_HALVES "sub r3, r3, #16\n"
#else
// 44 cycles for 32 products
#define HIL_TWO_COLUMNS(first, second, of) \
    "ldr r0, [r2], #4\n" \
    "ldr lr, [r2], #4\n" \
    "smlad " first ", " of ", r0, " first "\n" \
    "smlad " second ", " of ", lr, " second "\n"
#define HIL_NEXT_BYTES \
    "ldr r9, [r1], #4\n" \
    "sxtb16 r10, r9, ror #8\n" \
    "sxtb16 r9, r9\n" HIL_TWO_COLUMNS("r3", "r4", "r9") HIL_TWO_COLUMNS("r5", "r6", "r9") HIL_TWO_COLUMNS("r7", "r8", "r9") \
        HIL_TWO_COLUMNS("r11", "r12", "r9") HIL_TWO_COLUMNS("r3", "r4", "r10") HIL_TWO_COLUMNS("r5", "r6", "r10") \
            HIL_TWO_COLUMNS("r7", "r8", "r10") HIL_TWO_COLUMNS("r11", "r12", "r10")
#define HIL_ROW_OF_BYTES \
    "bne 2f\n" \
    ".balign 8\n" \
    "1:\n" HIL_NEXT_BYTES "2:\n" HIL_NEXT_BYTES "ldr r0, [sp, #8]\n" \
    "cmp r2, r0\n" \
    "bne 1b\n"
#define HIL_LAST_BYTES
// 11 cycles for 8 products
#define HIL_NEXT_HALVES \
    "ldr r3, [r1], #4\n" \
    "ldr r0, [r2], #4\n" \
    "ldr r12, [r2], #4\n" \
    "ldr lr, [r2], #4\n" \
    "smlald r4, r5, r3, r0\n" \
    "smlald r6, r7, r3, r12\n" \
    "smlald r8, r9, r3, lr\n" \
    "ldr r0, [r2], #4\n" \
    "smlald r10, r11, r3, r0\n"
#define HIL_ROW_OF_HALVES \
    "bne 2f\n" \
    ".balign 8\n" \
    "1:\n" HIL_NEXT_HALVES "2:\n" HIL_NEXT_HALVES "ldr lr, [sp, #8]\n" \
    "cmp r2, lr\n" \
    "bne 1b\n"
#define HIL_LAST_HALVES
#endif
// Rows of at least two steps. Sums, operands and pointers take all registers: where the last step begins is on the stack. Without `noipa`
// callers may be compiled as if it left r0 to r3 and r12 alone.
#define HIL_TIMES_COLUMNS(step_bits, but_last, starts, sums, steps, row) \
    asm("ldr r12, [r2]\n" \
        "ldr r3, [r2, #4]\n" \
        "add r3, r12, r3, lsl #" step_bits "\n" but_last \
        "push {r0, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n" \
        "0:\n" \
        "ldr lr, [sp, #4]\n" \
        "ldmia lr, {" starts "}\n" sums "tst " steps ", #1\n" row
#define HIL_ROWS_END(sums) \
        "ldr r0, [sp]\n" \
        "ldr lr, [sp, #4]\n" \
        "stmia r0!, {" sums "}\n" \
        "ldr lr, [lr, #12]\n" \
        "str r0, [sp]\n" \
        "cmp r0, lr\n" \
        "bne 0b\n" \
        "add sp, #12\n" \
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n")
#define HIL_BYTE_SUMS "r3, r4, r5, r6, r7, r8, r11, r12"
#define HIL_HALFWORD_SUMS "r4, r5, r6, r7, r8, r9, r10, r11"
__attribute__((naked, noinline, noipa)) inline void times_columns(int32_t *, const int8_t *, const PackedColumns<int32_t> &) {
    HIL_TIMES_COLUMNS("6", HIL_LAST_BYTES, "r2, r9, r10", "ldmia r10, {" HIL_BYTE_SUMS "}\n", "r9", HIL_ROW_OF_BYTES)
    HIL_ROWS_END(HIL_BYTE_SUMS);
}
__attribute__((naked, noinline, noipa)) inline void times_columns(int64_t *, const int16_t *, const PackedColumns<int64_t> &) {
    HIL_TIMES_COLUMNS("4", HIL_LAST_HALVES, "r2, r3, r12", "ldmia r12, {" HIL_HALFWORD_SUMS "}\n", "r3", HIL_ROW_OF_HALVES)
    HIL_ROWS_END(HIL_HALFWORD_SUMS);
}
#undef HIL_TIMES_COLUMNS
#undef HIL_ROWS_END
#undef HIL_BYTE_SUMS
#undef HIL_HALFWORD_SUMS
#undef HIL_TWO_COLUMNS
#undef HIL_NEXT_BYTES
#undef HIL_NEXT_HALVES
#undef HIL_ROW_OF_BYTES
#undef HIL_ROW_OF_HALVES
#undef HIL_LAST_BYTES
#undef HIL_LAST_HALVES
#ifdef HIL_LOADS_BESIDE_PRODUCTS
#undef HIL_STEP_OF_BYTES
#undef HIL_TWO_HALVES
#endif
#else
inline void times_columns(int32_t *sums, const int8_t *a, const PackedColumns<int32_t> &of) { portable::times_columns(sums, a, of); }
inline void times_columns(int64_t *sums, const int16_t *a, const PackedColumns<int64_t> &of) { portable::times_columns(sums, a, of); }
#endif

// Sums of packed columns of bytes, and the largest sum of squares
struct ColumnSums {
    int32_t sums[byte_columns];
    uint32_t squares;
};
// Four columns of two rows of bytes, two and two, less their zero point
inline void pack_words(uint32_t *to, Pairs of, uint32_t zeros) {
    to[0] = without_zero(even_bytes(of.first), zeros);
    to[1] = without_zero(odd_bytes(of.first), zeros);
    to[2] = without_zero(even_bytes(of.second), zeros);
    to[3] = without_zero(odd_bytes(of.second), zeros);
}
inline void note_four(int32_t *sums, int32_t *squares, const uint32_t *words) {
#pragma GCC unroll 4
    for (Size c = 0; c < 4; ++c) {
        const uint32_t even = words[c], odd = words[byte_columns + c];
        sums[c] = add_products(add_products(sums[c], even, 0x10001), odd, 0x10001);
        squares[c] = add_products(add_products(squares[c], even, even), odd, odd);
    }
}

namespace portable {

inline Pairs columns_of(uint32_t row, uint32_t next) { return {lower_halves(row, next), upper_halves(row, next)}; }
// What is missing to four elements is nothing
template <bool AreNoted>
__attribute__((noinline)) void pack_four_columns(uint32_t *to, const int8_t *b, Size inner, Size step, int zero, int32_t *sums,
                                                 int32_t *squares) {
    const uint32_t zeros = in_both(zero), nothing = static_cast<uint32_t>(zero & 0xFF) * 0x01010101u;
    int32_t s[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
    for (Size k = 0; k < inner; k += 4, to += 2 * byte_columns, b += 4 * step) {
        const Size left = inner - k;
        const uint32_t first = word_at(b), second = left > 1 ? word_at(b + step) : nothing;
        const uint32_t third = left > 2 ? word_at(b + 2 * step) : nothing, last = left > 3 ? word_at(b + 3 * step) : nothing;
        pack_words(to, columns_of(first, third), zeros);
        pack_words(to + byte_columns, columns_of(second, last), zeros);
        if (AreNoted) note_four(s, q, to);
    }
    for (Size c = 0; AreNoted && c < 4; ++c) sums[c] = s[c], squares[c] = q[c];
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
inline Pairs columns_of(uint32_t row, uint32_t next) {
    Pairs made;
    asm("pkhbt %0, %1, %2, lsl #16" : "=r"(made.first) : "r"(row), "r"(next));
    asm("pkhtb %0, %2, %1, asr #16" : "=r"(made.second) : "r"(row), "r"(next));
    return made;
}
// What four packed columns add up to: read once more, for their sums and what packs them do not fit the registers together
__attribute__((noinline)) inline void note_columns(const uint32_t *words, Size fours, int32_t *sums, int32_t *squares) {
    int32_t s[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
    for (const uint32_t *const end = words + 2 * byte_columns * fours; words != end; words += 2 * byte_columns) { note_four(s, q, words); }
#pragma GCC unroll 4
    for (Size c = 0; c < 4; ++c) sums[c] = s[c], squares[c] = q[c];
}
template <bool AreNoted>
__attribute__((noinline)) void pack_four_columns(uint32_t *to, const int8_t *b, Size inner, Size step, int zero, int32_t *sums,
                                                 int32_t *squares) {
    const uint32_t zeros = in_both(zero);
    uint32_t *at = to;
    for (Size fours = inner / 4; fours > 0; --fours, at += 2 * byte_columns, b += 4 * step) {
        pack_words(at, columns_of(word_at(b), word_at(b + 2 * step)), zeros);
        pack_words(at + byte_columns, columns_of(word_at(b + step), word_at(b + 3 * step)), zeros);
    }
    if (inner & 3) portable::pack_four_columns<false>(at, b, inner & 3, step, zero, nullptr, nullptr);
    if (AreNoted) note_columns(to, (inner + 3) / 4, sums, squares);
}
#else
using portable::pack_four_columns;
#endif
template <bool AreNoted>
inline ColumnSums pack_columns_of(uint32_t *to, const int8_t *b, Size inner, Size step, int zero) {
    ColumnSums found = {};
    int32_t squares[byte_columns];
    for (Size c = 0; c < byte_columns; c += 4) {
        pack_four_columns<AreNoted>(to + c, b + c, inner, step, zero, found.sums + c, squares + c);
    }
    for (Size c = 0; AreNoted && c < byte_columns; ++c) {
        // cppcheck-suppress uninitvar ; noted, if AreNoted
        if (static_cast<uint32_t>(squares[c]) > found.squares) found.squares = static_cast<uint32_t>(squares[c]);
    }
    return found;
}
// Halfwords: pairs of neighbours of each column; what is missing to a pair is 0
__attribute__((noinline)) inline void pack_columns_of(uint32_t *to, const int16_t *b, Size inner, Size step) {
    for (Size k = 0; k < inner; k += 2, to += halfword_columns, b += 2 * step) {
        const bool both = k + 1 < inner;
        const uint32_t first = word_at(b), second = word_at(b + 2);
        const uint32_t next = both ? word_at(b + step) : 0, last = both ? word_at(b + step + 2) : 0;
        to[0] = lower_halves(first, next);
        to[1] = upper_halves(first, next);
        to[2] = lower_halves(second, last);
        to[3] = upper_halves(second, last);
    }
}

// The elements of a row after its last whole step
inline void add_rest(int32_t *sums, const int8_t *a, Size inner, const uint32_t *packed) {
    const Size whole = inner & ~Size(3);
    if (whole == inner) return;
    const Pairs x = split(rest_at(a + whole, inner & 3, 0));
    const uint32_t *const b = packed + whole / 4 * 2 * byte_columns;
    for (Size c = 0; c < byte_columns; ++c) sums[c] = add_products(add_products(sums[c], x.first, b[c]), x.second, b[byte_columns + c]);
}
inline void add_rest(int64_t *sums, const int16_t *a, Size inner, const uint32_t *packed) {
    if ((inner & 1) == 0) return;
    const uint32_t *const b = packed + inner / 2 * halfword_columns;
    for (Size c = 0; c < halfword_columns; ++c) sums[c] = add_products(sums[c], static_cast<uint16_t>(a[inner - 1]), b[c]);
}

// `use(row, sums, end)` for the sums of some rows times these columns, from `row` on
template <class Sum, class Code, class Use>
__attribute__((always_inline)) inline void each_rows(const uint32_t *packed, const Code *a, Size rows, Size inner, const Sum *starts,
                                                     Use use) {
    constexpr Size of_a_step = 4 / sizeof(Code), columns = PackedColumns<Sum>::count, most = sums_bytes / (columns * sizeof(Sum));
    Sum sums[columns * most];
    const Size together = inner % of_a_step == 0 ? most : 1;  // rows follow each other
    for (Size row = 0; row < rows; row += together) {
        Sum *const end = sums + columns * (rows - row < together ? rows - row : together);
        times_columns(sums, a + row * inner, PackedColumns<Sum>{packed, inner / of_a_step, starts, end});
        add_rest(sums, a + row * inner, inner, packed);
        use(row, sums, end);
    }
}

}  // namespace hil

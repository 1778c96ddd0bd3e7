// Matrix products with weights in the order of blocks: some rows at a time, each element loaded once for all of them.
#pragma once
#include "firmware/kernels/arm/blocks.hpp"
#include "firmware/kernels/common/rounding.hpp"

namespace hil {

// Sums of `Rows` outputs
template <Size Rows>
struct Column {
    int32_t of[Rows];
};

namespace portable {

// `words` words of four elements of a row times four rows of bytes, of which a word each lies in turn
template <class X = int8_t>
inline void add_words(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) {
    for (; words > 0; --words, x += 4) {
        const Pairs of_x = split(reinterpret_cast<const X *>(x));
        for (Size r = 0; r < 4; ++r, w += 4) {
            s.of[r] = add_products(add_products(s.of[r], even_bytes(word_at(w)), of_x.first), odd_bytes(word_at(w)), of_x.second);
        }
    }
}
// The same of four rows in pairs: the sums of the first and of both, of the third and of both
template <class X = int8_t>
inline void add_paired_words(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) {
    for (; words > 0; --words, x += 4) {
        const Pairs bytes = split(reinterpret_cast<const X *>(x));
        const uint32_t of_x[] = {bytes.first, bytes.second};
        for (Size n = 0; n < 4; ++n, w += 4) {
            const uint32_t both = word_at(w);
            int32_t *const sums = s.of + n / 2 * 2;
            sums[0] = add_products(sums[0], even_bytes(both), of_x[n % 2]);
            sums[1] = add_products(sums[1], both, of_x[n % 2]);
        }
    }
}
// What `count` elements are above `zero` times `Rows` rows, of which an element each lies in turn
template <class X = int8_t, Size Rows>
inline void add_elements(Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count, int32_t zero = 0) {
    for (; count > 0; --count, ++x) {
        for (Size r = 0; r < Rows; ++r, ++w) s.of[r] = wrapped(s.of[r], int64_t(*w) * (static_cast<X>(*x) - zero));
    }
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
// 20 instructions for 16 products, and two for the loop. Extensions and multiplications in turn: they can go in pairs.
#define HIL_FOUR_ROWS(extend) \
    "ldr %[x], [%[at]], #4\n" \
    "ldmia %[w]!, {r4, r5, r6, r8}\n" \
    extend " %[even], %[x]\n" \
    extend " %[x], %[x], ror #8\n" \
    "sxtb16 %[half], r4\n" \
    "sxtb16 r4, r4, ror #8\n" \
    "smlad %[a], %[half], %[even], %[a]\n" \
    "sxtb16 %[half], r5\n" \
    "smlad %[a], r4, %[x], %[a]\n" \
    "sxtb16 r5, r5, ror #8\n" \
    "smlad %[b], %[half], %[even], %[b]\n" \
    "sxtb16 %[half], r6\n" \
    "smlad %[b], r5, %[x], %[b]\n" \
    "sxtb16 r6, r6, ror #8\n" \
    "smlad %[c], %[half], %[even], %[c]\n" \
    "sxtb16 %[half], r8\n" \
    "smlad %[c], r6, %[x], %[c]\n" \
    "sxtb16 r8, r8, ror #8\n" \
    "smlad %[d], %[half], %[even], %[d]\n" \
    "smlad %[d], r8, %[x], %[d]\n"
#define HIL_ADD_WORDS(name, extend) \
    __attribute__((always_inline)) inline void name(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) { \
        if (words == 0) return; \
        const int8_t *const end = x + 4 * words; \
        uint32_t value = words, even, half; \
        asm("tst %[x], #1\n" \
            "bne 2f\n" \
            ".balign 8\n" \
            "1:\n" HIL_FOUR_ROWS(extend) \
            "2:\n" HIL_FOUR_ROWS(extend) \
            "cmp %[at], %[end]\n" \
            "bne 1b\n" \
            : [a] "+r"(s.of[0]), [b] "+r"(s.of[1]), [c] "+r"(s.of[2]), [d] "+r"(s.of[3]), [w] "+r"(w), [at] "+r"(x), [x] "+r"(value), \
              [even] "=&r"(even), [half] "=&r"(half) \
            : [end] "r"(end) \
            : "r4", "r5", "r6", "r8", "cc", "memory"); \
    }
HIL_ADD_WORDS(add_words, "sxtb16")
HIL_ADD_WORDS(add_unsigned_words, "uxtb16")
#undef HIL_ADD_WORDS
#undef HIL_FOUR_ROWS
// 16 instructions for 16 products, and two for the loop
#define HIL_TWO_PAIRS(extend) \
    "ldr %[x], [%[at]], #4\n" \
    "ldmia %[w]!, {r4, r5, r6, r8}\n" \
    extend " %[even], %[x]\n" \
    "smlad %[b], r4, %[even], %[b]\n" \
    extend " %[x], %[x], ror #8\n" \
    "smlad %[d], r6, %[even], %[d]\n" \
    "sxtb16 r4, r4\n" \
    "smlad %[b], r5, %[x], %[b]\n" \
    "sxtb16 r5, r5\n" \
    "smlad %[d], r8, %[x], %[d]\n" \
    "sxtb16 r6, r6\n" \
    "smlad %[a], r4, %[even], %[a]\n" \
    "sxtb16 r8, r8\n" \
    "smlad %[c], r6, %[even], %[c]\n" \
    "smlad %[a], r5, %[x], %[a]\n" \
    "smlad %[c], r8, %[x], %[c]\n"
#define HIL_ADD_PAIRED_WORDS(name, extend) \
    __attribute__((always_inline)) inline void name(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) { \
        if (words == 0) return; \
        const int8_t *const end = x + 4 * words; \
        uint32_t value = words, even; \
        asm("tst %[x], #1\n" \
            "bne 2f\n" \
            ".balign 8\n" \
            "1:\n" HIL_TWO_PAIRS(extend) \
            "2:\n" HIL_TWO_PAIRS(extend) \
            "cmp %[at], %[end]\n" \
            "bne 1b\n" \
            : [a] "+r"(s.of[0]), [b] "+r"(s.of[1]), [c] "+r"(s.of[2]), [d] "+r"(s.of[3]), [w] "+r"(w), [at] "+r"(x), [x] "+r"(value), \
              [even] "=&r"(even) \
            : [end] "r"(end) \
            : "r4", "r5", "r6", "r8", "cc", "memory"); \
    }
HIL_ADD_PAIRED_WORDS(add_paired_words, "sxtb16")
HIL_ADD_PAIRED_WORDS(add_paired_unsigned_words, "uxtb16")
#undef HIL_ADD_PAIRED_WORDS
#undef HIL_TWO_PAIRS
#elif !defined(__AVR__)
inline void add_words(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) { portable::add_words(s, w, x, words); }
inline void add_paired_words(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) { portable::add_paired_words(s, w, x, words); }
inline void add_unsigned_words(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) { portable::add_words<uint8_t>(s, w, x, words); }
inline void add_paired_unsigned_words(Column<4> &s, const int8_t *&w, const int8_t *x, Size words) {
    portable::add_paired_words<uint8_t>(s, w, x, words);
}
#endif

#if defined(__ARM_ARCH_7M__)
// 17 instructions for 8 products, 9 for 4 or 5 for 2, and two for the loop over four elements
#define HIL_NEXT_ROW(sum) \
    "ldrsb %[factor], [%[w]], #1\n" \
    "mla %[" sum "], %[factor], %[x], %[" sum "]\n"
#define HIL_TWO_ROWS(load) load " %[x], [%[at]], #1\n" HIL_NEXT_ROW("a") HIL_NEXT_ROW("b")
#define HIL_FOUR_ROWS(load) HIL_TWO_ROWS(load) HIL_NEXT_ROW("c") HIL_NEXT_ROW("d")
#define HIL_EIGHT_ROWS(load) HIL_FOUR_ROWS(load) HIL_NEXT_ROW("e") HIL_NEXT_ROW("f") HIL_NEXT_ROW("g") HIL_NEXT_ROW("h")
#define HIL_LOOP(step) ".balign 8\n1:\n" step step step step "cmp %[at], %[end]\nbne 1b\n"
#define HIL_SUMS_2 [a] "+r"(s.of[0]), [b] "+r"(s.of[1])
#define HIL_SUMS_4 HIL_SUMS_2, [c] "+r"(s.of[2]), [d] "+r"(s.of[3])
#define HIL_SUMS_8 HIL_SUMS_4, [e] "+r"(s.of[4]), [f] "+r"(s.of[5]), [g] "+r"(s.of[6]), [h] "+r"(s.of[7])
#define HIL_ADD_ELEMENTS(name, rows, sums, step, element) \
    __attribute__((always_inline)) inline void name(Column<rows> &s, const int8_t *&w, const int8_t *x, Size count) { \
        int32_t value, factor; \
        const int8_t *const end = x + (count & ~Size(3)); \
        if (x != end) { \
            asm(HIL_LOOP(step) : sums, [w] "+r"(w), [at] "+r"(x), [x] element(value), [factor] "=&r"(factor) : [end] "r"(end) \
                : "cc", "memory"); \
        } \
        for (count &= 3; count > 0; --count) { \
            asm(step : sums, [w] "+r"(w), [at] "+r"(x), [x] element(value), [factor] "=&r"(factor) : : "cc", "memory"); \
        } \
    }
HIL_ADD_ELEMENTS(add_elements, 8, HIL_SUMS_8, HIL_EIGHT_ROWS("ldrsb"), "=&r")
HIL_ADD_ELEMENTS(add_elements, 4, HIL_SUMS_4, HIL_FOUR_ROWS("ldrsb"), "=&r")
HIL_ADD_ELEMENTS(add_elements, 2, HIL_SUMS_2, HIL_TWO_ROWS("ldrsb"), "=&r")
HIL_ADD_ELEMENTS(add_unsigned_elements, 8, HIL_SUMS_8, HIL_EIGHT_ROWS("ldrb"), "=&r")
HIL_ADD_ELEMENTS(add_unsigned_elements, 4, HIL_SUMS_4, HIL_FOUR_ROWS("ldrb"), "=&r")
HIL_ADD_ELEMENTS(add_unsigned_elements, 2, HIL_SUMS_2, HIL_TWO_ROWS("ldrb"), "=&r")
// The same, but an element that is 0 costs 3 instructions, every other one 2 more; 4 and 3 where 0 is the least code
#define HIL_ROW_BEHIND(sum, bytes) \
    "ldrsb %[factor], [%[w], #-" bytes "]\n" \
    "mla %[" sum "], %[factor], %[x], %[" sum "]\n"
#define HIL_UNLESS(load, test, bytes, rows) load " %[x], [%[at]], #1\nadd %[w], %[w], #" bytes "\n" test rows "2:\n"
#define HIL_ZERO "cbz %[x], 2f\n"
#define HIL_LEAST "adds %[x], %[x], #128\nbeq 2f\n"
#define HIL_LAST_FOUR(a, b, c, d) HIL_ROW_BEHIND(a, "4") HIL_ROW_BEHIND(b, "3") HIL_ROW_BEHIND(c, "2") HIL_ROW_BEHIND(d, "1")
#define HIL_FIRST_FOUR HIL_ROW_BEHIND("a", "8") HIL_ROW_BEHIND("b", "7") HIL_ROW_BEHIND("c", "6") HIL_ROW_BEHIND("d", "5")
#define HIL_UNLESS_8(load, test) HIL_UNLESS(load, test, "8", HIL_FIRST_FOUR HIL_LAST_FOUR("e", "f", "g", "h"))
#define HIL_UNLESS_4(load, test) HIL_UNLESS(load, test, "4", HIL_LAST_FOUR("a", "b", "c", "d"))
HIL_ADD_ELEMENTS(add_elements_unless_zero, 8, HIL_SUMS_8, HIL_UNLESS_8("ldrsb", HIL_ZERO), "=&l")
HIL_ADD_ELEMENTS(add_elements_unless_zero, 4, HIL_SUMS_4, HIL_UNLESS_4("ldrsb", HIL_ZERO), "=&l")
HIL_ADD_ELEMENTS(add_elements_above_least, 8, HIL_SUMS_8, HIL_UNLESS_8("ldrsb", HIL_LEAST), "=&l")
HIL_ADD_ELEMENTS(add_elements_above_least, 4, HIL_SUMS_4, HIL_UNLESS_4("ldrsb", HIL_LEAST), "=&l")
HIL_ADD_ELEMENTS(add_unsigned_elements_unless_zero, 8, HIL_SUMS_8, HIL_UNLESS_8("ldrb", HIL_ZERO), "=&l")
HIL_ADD_ELEMENTS(add_unsigned_elements_unless_zero, 4, HIL_SUMS_4, HIL_UNLESS_4("ldrb", HIL_ZERO), "=&l")
#undef HIL_NEXT_ROW
#undef HIL_TWO_ROWS
#undef HIL_FOUR_ROWS
#undef HIL_EIGHT_ROWS
#undef HIL_LOOP
#undef HIL_SUMS_2
#undef HIL_SUMS_4
#undef HIL_SUMS_8
#undef HIL_ADD_ELEMENTS
#undef HIL_ROW_BEHIND
#undef HIL_UNLESS
#undef HIL_UNLESS_8
#undef HIL_UNLESS_4
#undef HIL_ZERO
#undef HIL_LEAST
#undef HIL_LAST_FOUR
#undef HIL_FIRST_FOUR
#elif !defined(__AVR__)
template <Size Rows>
inline void add_elements(Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) { portable::add_elements(s, w, x, count); }
template <Size Rows>
inline void add_elements_unless_zero(Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) { portable::add_elements(s, w, x, count); }
template <Size Rows>
inline void add_elements_above_least(Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) { portable::add_elements(s, w, x, count, -128); }
template <Size Rows>
inline void add_unsigned_elements(Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) {
    portable::add_elements<uint8_t>(s, w, x, count);
}
template <Size Rows>
inline void add_unsigned_elements_unless_zero(Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) {
    portable::add_elements<uint8_t>(s, w, x, count);
}
#endif

template <class Weights> struct OnePixel;

// The elements after the last whole word of a row as a word
inline uint32_t rest_of(const int8_t *x, Size inner) {
    if (inner >= 4) return word_at(x + inner - 4) >> 8 * ((0 - inner) & 3);
    uint32_t last = 0;
    for (Size k = inner; k > 0; --k) last = last << 8 | static_cast<uint8_t>(x[k - 1]);
    return last;
}

// Cortex-M7
template <>
struct OnePixel<Blocks<int8_t, 4, 4>> {
    static constexpr Size rows = 4;
    static bool ends_in_twos(Size) { return false; }
    __attribute__((always_inline)) static inline void add(Column<4> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_words(sums, w, x, inner / 4);
        if ((inner & 3) == 0) return;
        const uint32_t last = rest_of(x, inner);
        add_words(sums, w, reinterpret_cast<const int8_t *>(&last), 1);
    }
};

// The same in pairs
template <>
struct OnePixel<Blocks<int8_t, 4, in_pairs>> {
    static constexpr Size rows = 4;
    static bool ends_in_twos(Size) { return false; }
    __attribute__((always_inline)) static inline void add(Column<4> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        for (Size r = 0; r < 4; r += 2) sums.of[r + 1] = paired(sums.of[r], sums.of[r + 1]);
        add_paired_words(sums, w, x, inner / 4);
        if ((inner & 3) != 0) {
            const uint32_t last = rest_of(x, inner);
            add_paired_words(sums, w, reinterpret_cast<const int8_t *>(&last), 1);
        }
        for (Size r = 0; r < 4; r += 2) sums.of[r + 1] = unpaired(sums.of[r], sums.of[r + 1]);
    }
};

// Cortex-M3: eight rows; where fewer are left two or four at a time, whatever computes fewer rows of zeros (passes/arrange.py)
template <>
struct OnePixel<Blocks<int8_t, 8, 1>> {
    static constexpr Size rows = 8;
    static bool ends_in_twos(Size outputs) { return outputs % 4 == 1 || outputs % 4 == 2; }
    template <Size Rows>
    __attribute__((always_inline)) static inline void add(Column<Rows> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_elements(sums, w, x, inner);
    }
};

// The same without the products of zeros; in two rows a test would cost what it saves
template <>
struct OnePixel<Blocks<int8_t, 8, unless_zero>> : OnePixel<Blocks<int8_t, 8, 1>> {
    template <Size Rows>
    __attribute__((always_inline)) static inline void add(Column<Rows> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_elements_unless_zero(sums, w, x, inner);
    }
    __attribute__((always_inline)) static inline void add(Column<2> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_elements(sums, w, x, inner);
    }
};
template <>
struct OnePixel<Blocks<int8_t, 8, unless_least>> : OnePixel<Blocks<int8_t, 8, unless_zero>> {
    using OnePixel<Blocks<int8_t, 8, unless_zero>>::add;  // of two rows
    template <Size Rows>
    __attribute__((always_inline)) static inline void add(Column<Rows> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_elements_above_least(sums, w, x, inner);
    }
};

// Weights beside bytes without a sign
template <class Weights>
struct BesideUnsigned {
    const int8_t *at;
};
template <>
struct OnePixel<BesideUnsigned<Blocks<int8_t, 4, 4>>> {
    static constexpr Size rows = 4;
    static bool ends_in_twos(Size) { return false; }
    __attribute__((always_inline)) static inline void add(Column<4> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_unsigned_words(sums, w, x, inner / 4);
        if ((inner & 3) == 0) return;
        const uint32_t last = rest_of(x, inner);
        add_unsigned_words(sums, w, reinterpret_cast<const int8_t *>(&last), 1);
    }
};
template <>
struct OnePixel<BesideUnsigned<Blocks<int8_t, 4, in_pairs>>> {
    static constexpr Size rows = 4;
    static bool ends_in_twos(Size) { return false; }
    __attribute__((always_inline)) static inline void add(Column<4> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        for (Size r = 0; r < 4; r += 2) sums.of[r + 1] = paired(sums.of[r], sums.of[r + 1]);
        add_paired_unsigned_words(sums, w, x, inner / 4);
        if ((inner & 3) != 0) {
            const uint32_t last = rest_of(x, inner);
            add_paired_unsigned_words(sums, w, reinterpret_cast<const int8_t *>(&last), 1);
        }
        for (Size r = 0; r < 4; r += 2) sums.of[r + 1] = unpaired(sums.of[r], sums.of[r + 1]);
    }
};
template <>
struct OnePixel<BesideUnsigned<Blocks<int8_t, 8, 1>>> : OnePixel<Blocks<int8_t, 8, 1>> {
    template <Size Rows>
    __attribute__((always_inline)) static inline void add(Column<Rows> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_unsigned_elements(sums, w, x, inner);
    }
};
template <>
struct OnePixel<BesideUnsigned<Blocks<int8_t, 8, unless_zero>>> : OnePixel<BesideUnsigned<Blocks<int8_t, 8, 1>>> {
    template <Size Rows>
    __attribute__((always_inline)) static inline void add(Column<Rows> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_unsigned_elements_unless_zero(sums, w, x, inner);
    }
    __attribute__((always_inline)) static inline void add(Column<2> &sums, const int8_t *&w, const int8_t *x, Size inner) {
        add_unsigned_elements(sums, w, x, inner);
    }
};

// A function of its own, which layers share: all registers are for the loop. The weights of the next block.
template <class Tile, Size Rows>
__attribute__((noinline, noclone)) const int8_t *add_column(Column<Rows> &at, const int8_t *w, const int8_t *x, Size inner) {
    Column<Rows> sums = at;
    Tile::add(sums, w, x, inner);
    at = sums;
    return w;
}

// The outputs [n, n + count) after the last whole block, at most `Rows`; with rows of zeros after them
template <class Tile, Size Rows, class Out, class B, class Shift, class BiasShift>
const int8_t *last_outputs(Out *out, const int8_t *w, const int8_t *x, Size inner, const B &bias, Size n, Size count, const Shift &shift,
                           BiasShift bias_shift) {
    using Rounded = Together<Out, PreparedOf<Shift>>;
    Column<Rows> sums = {};
#pragma GCC unroll 1
    for (Size r = 0; r < count; ++r) {
        sums.of[r] = start_of<int32_t>(bias, n + r, bias_shift) + Rounded::before(prepared(of_channel(shift, n + r)));
    }
    w = add_column<Tile>(sums, w, x, inner);
#pragma GCC unroll 1
    for (Size r = 0; r < count; ++r) {
        const auto &by = prepared(of_channel(shift, n + r));
        int32_t seen = 0;
        out[n + r] = Rounded::of(sums.of[r], by, seen);
        if (__builtin_expect(Rounded::any(seen), 0)) out[n + r] = Rounded::again(sums.of[r], by);
    }
    return w;
}
template <class Tile, Size Rows, class Out, class B, class Shift, class BiasShift>
void rest_of_row(Out *out, const int8_t *w, const int8_t *x, Size inner, const B &bias, Size n, Size outputs, const Shift &shift,
                 BiasShift bias_shift) {
    for (; n < outputs; n += Rows) {
        const Size left = outputs - n;
        w = last_outputs<Tile, Rows>(out, w, x, inner, bias, n, left < Rows ? left : Rows, shift, bias_shift);
    }
}

template <class Weights, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void outputs_of_row(Out *out, Weights weights, const int8_t *x, B bias, Size outputs, Size inner, Shift shift,
                                                       BiasShift bias_shift) {
    using Tile = OnePixel<Weights>;
    using Rounded = Together<Out, PreparedOf<Shift>>;
    const int8_t *w = weights.at;
    Size n = 0;
    for (; n + Tile::rows <= outputs; n += Tile::rows) {
        Column<Tile::rows> sums;
#pragma GCC unroll 8
        for (Size r = 0; r < Tile::rows; ++r) {
            sums.of[r] = start_of<int32_t>(bias, n + r, bias_shift) + Rounded::before(prepared(of_channel(shift, n + r)));
        }
        w = add_column<Tile>(sums, w, x, inner);
        int32_t seen = 0;
#pragma GCC unroll 8
        for (Size r = 0; r < Tile::rows; ++r) out[n + r] = Rounded::of(sums.of[r], prepared(of_channel(shift, n + r)), seen);
        if (__builtin_expect(!Rounded::any(seen), 1)) continue;
#pragma GCC unroll 1
        for (Size r = 0; r < Tile::rows; ++r) out[n + r] = Rounded::again(sums.of[r], prepared(of_channel(shift, n + r)));
    }
    constexpr Size fewest = Tile::rows > 4 ? 2 : 4;
    if (Tile::ends_in_twos(outputs)) rest_of_row<Tile, fewest>(out, w, x, inner, bias, n, outputs, shift, bias_shift);
    else rest_of_row<Tile, 4>(out, w, x, inner, bias, n, outputs, shift, bias_shift);
}

template <class Acc, class Out, Size Rows, Size Step, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Blocks<int8_t, Rows, Step> weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    static_assert(sizeof(Acc) == 4, "only layers with sums of 32 bits are arranged");
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    for (; rows > 0; --rows, x = x + inner, out += outputs, next_row(bias, outputs)) {
        outputs_of_row(out, weights, x.at, bias, outputs, inner, by, add);
    }
}
template <class Acc, class Out, Size Rows, Size Step, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Blocks<int8_t, Rows, Step> weights, Ram<uint8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    const BesideUnsigned<Blocks<int8_t, Rows, Step>> beside = {weights.at};
    for (; rows > 0; --rows, x = x + inner, out += outputs, next_row(bias, outputs)) {
        const int8_t *const bytes = reinterpret_cast<const int8_t *>(x.at);
        outputs_of_row(out, beside, bytes, bias, outputs, inner, at_run_time(shift), bias_factor(bias_shift));
    }
}
template <class Acc, class Out, int By, Size Rows, Size Step, class Shift>
void dense_bias(Out *out, Blocks<Raised<By>, Rows, Step> weights, Ram<int8_t> x, NoBias, Size rows, Size outputs, Size inner, Shift shift,
                Const<0>) {
    for (; rows > 0; --rows, x = x + inner, out += outputs) {
        const EvenAndOdd row = sums_of_bytes(x.at, inner);
        dense_bias<Acc>(out, bytes_of(weights), x, CommonStart{By * (row.even + row.odd)}, 1, outputs, inner, shift, Const<0>());
    }
}

}  // namespace hil

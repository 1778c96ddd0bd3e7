// Blocks of the sums of two products (pair.hpp): the weights of either product lie in the order of its blocks.
#pragma once
#include "firmware/kernels/arm/dense_blocks.hpp"

namespace hil {

// One of them: weights of the next block, whole words of the row and the elements after them as a word (or none), and by how much
// the sums are moved left when its products are in them; negative: the last one. The assembler reads it by offsets.
struct Factor2 {
    const int8_t *w, *x, *end, *last;
    int32_t lift;
};

// `add` with the elements of either product, and the sums moved left
template <Size Rows, class Add>
inline void each_product(Column<Rows> &sums, Factor2 *factor, Add add) {
    sums = {};
    for (;; ++factor) {
        add(sums, factor->w, factor->x, static_cast<Size>(factor->end - factor->x));
        if (factor->last != nullptr) add(sums, factor->w, factor->last, 4);
        if (factor->lift < 0) return;
        for (int32_t &sum : sums.of) sum = static_cast<int32_t>(static_cast<uint32_t>(sum) << factor->lift);
    }
}

namespace portable {

// The sums of four rows in pairs, from 0
inline void add_paired_products(Column<4> &sums, Factor2 *factors) {
    each_product(sums, factors,
                 [](Column<4> &s, const int8_t *&w, const int8_t *x, Size count) { portable::add_paired_words(s, w, x, count / 4); });
    for (Size r = 0; r < 4; r += 2) sums.of[r + 1] = unpaired(sums.of[r], sums.of[r + 1]);
}

// The sums of `Rows` rows, from 0, element by element
template <Size Rows>
inline void add_products_of(Column<Rows> &sums, Factor2 *factors) {
    each_product(sums, factors,
                 [](Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) { portable::add_elements(s, w, x, count); });
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
// 16 instructions for 16 products, two for the loop over two words, 15 for a product and 20 for a block
#define HIL_TWO_PAIRS \
    "ldr r12, [r2], #4\n" \
    "ldmia r0!, {r4, r5, r6, r8}\n" \
    "sxtb16 lr, r12\n" \
    "smlad r9, r4, lr, r9\n" \
    "sxtb16 r12, r12, ror #8\n" \
    "smlad r11, r6, lr, r11\n" \
    "sxtb16 r4, r4\n" \
    "smlad r9, r5, r12, r9\n" \
    "sxtb16 r5, r5\n" \
    "smlad r11, r8, r12, r11\n" \
    "sxtb16 r6, r6\n" \
    "smlad r7, r4, lr, r7\n" \
    "sxtb16 r8, r8\n" \
    "smlad r10, r6, lr, r10\n" \
    "smlad r7, r5, r12, r7\n" \
    "smlad r10, r8, r12, r10\n"
__attribute__((naked, noinline, noclone)) inline void add_paired_products(Column<4> &, Factor2 *) {
    asm volatile("push {r0, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
                 "movs r7, #0\n"
                 "mov r9, r7\n"
                 "mov r10, r7\n"
                 "mov r11, r7\n"
                 "1:\n"
                 "ldmia r1, {r0, r2, r3}\n"
                 "subs r12, r3, r2\n"
                 "beq 4f\n"
                 "tst r12, #4\n"
                 "bne 3f\n"
                 ".balign 8\n"
                 "2:\n" HIL_TWO_PAIRS "3:\n" HIL_TWO_PAIRS "cmp r2, r3\n"
                 "bne 2b\n"
                 "4:\n"
                 "ldr r2, [r1, #12]\n"
                 "cbz r2, 5f\n" HIL_TWO_PAIRS "5:\n"
                 "str r0, [r1], #16\n"
                 "ldr r12, [r1], #4\n"
                 "cmp r12, #0\n"
                 "blt 6f\n"
                 "lsl r7, r7, r12\n"
                 "lsl r9, r9, r12\n"
                 "lsl r10, r10, r12\n"
                 "lsl r11, r11, r12\n"
                 "b 1b\n"
                 "6:\n"
                 "sub r9, r9, r7\n"
                 "asr r9, r9, #8\n"
                 "sub r11, r11, r10\n"
                 "asr r11, r11, #8\n"
                 "pop {r0}\n"
                 "stmia r0, {r7, r9, r10, r11}\n"
                 "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_TWO_PAIRS
#else
inline void add_paired_products(Column<4> &sums, Factor2 *factor) { portable::add_paired_products(sums, factor); }
#endif

template <Size Rows>
inline void add_products_of(Column<Rows> &sums, Factor2 *factors) {
    each_product(sums, factors, [](Column<Rows> &s, const int8_t *&w, const int8_t *x, Size count) { add_elements(s, w, x, count); });
}
#if defined(__ARM_ARCH_7M__)
// 17 instructions for 8 products, two for the loop over four elements, 19 for a product and 13 for a block
#define HIL_ROW(sum) \
    "ldrsb lr, [r0], #1\n" \
    "mla " sum ", lr, r12, " sum "\n"
#define HIL_EIGHT_ROWS \
    "ldrsb r12, [r2], #1\n" HIL_ROW("r4") HIL_ROW("r5") HIL_ROW("r6") HIL_ROW("r7") HIL_ROW("r8") HIL_ROW("r9") HIL_ROW("r10") \
        HIL_ROW("r11")
__attribute__((naked, noinline, noclone)) inline void add_products_of(Column<8> &, Factor2 *) {
    asm volatile("push {r0, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
                 "movs r4, #0\n"
                 "movs r5, #0\n"
                 "movs r6, #0\n"
                 "movs r7, #0\n"
                 "mov r8, r4\n"
                 "mov r9, r4\n"
                 "mov r10, r4\n"
                 "mov r11, r4\n"
                 "1:\n"
                 "ldmia r1!, {r0, r2, r3}\n"
                 "subs r12, r3, r2\n"
                 "beq 4f\n"
                 "and r12, r12, #3\n"
                 "tbb [pc, r12]\n"
                 "3: .byte (20f - 3b) / 2, (23f - 3b) / 2, (22f - 3b) / 2, (21f - 3b) / 2\n"
                 "20:\n" HIL_EIGHT_ROWS "21:\n" HIL_EIGHT_ROWS "22:\n" HIL_EIGHT_ROWS "23:\n" HIL_EIGHT_ROWS "cmp r2, r3\n"
                 "bne 20b\n"
                 "4:\n"
                 "ldr r12, [r1, #4]\n"
                 "str r0, [r1, #-12]\n"
                 "adds r1, #8\n"
                 "cmp r12, #0\n"
                 "blt 6f\n"
                 "lsl r4, r4, r12\n"
                 "lsl r5, r5, r12\n"
                 "lsl r6, r6, r12\n"
                 "lsl r7, r7, r12\n"
                 "lsl r8, r8, r12\n"
                 "lsl r9, r9, r12\n"
                 "lsl r10, r10, r12\n"
                 "lsl r11, r11, r12\n"
                 "b 1b\n"
                 "6:\n"
                 "pop {r0}\n"
                 "stmia r0, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
                 "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_EIGHT_ROWS
#undef HIL_ROW
#endif

// Two rows and the weights of the next block, as the blocks of a core read them
template <class Weights>
struct TwoRows {
    using Tile = OnePixel<Weights>;
    const int8_t *w, *x, *v, *y;
    Size inner, more_inner;
    int lift;
    TwoRows(const int8_t *w_at, const int8_t *x_at, Size n, const int8_t *v_at, const int8_t *y_at, Size more, int by)
        : w(w_at), x(x_at), v(v_at), y(y_at), inner(n), more_inner(more), lift(by) {}
    template <Size Rows>
    __attribute__((always_inline)) void add(Column<Rows> &sums) {
        sums = {};
        v = add_column<Tile>(sums, v, y, more_inner);
        for (Size r = 0; r < Rows; ++r) sums.of[r] = static_cast<int32_t>(static_cast<uint32_t>(sums.of[r]) << lift);
        w = add_column<Tile>(sums, w, x, inner);
    }
};
template <>
struct TwoRows<Blocks<int8_t, 4, in_pairs>> {
    uint32_t last_of_x, last_of_y;
    Factor2 factors[2];
    TwoRows(const int8_t *w, const int8_t *x, Size inner, const int8_t *v, const int8_t *y, Size more_inner, int lift)
        : last_of_x(rest_of(x, inner)), last_of_y(rest_of(y, more_inner)),
          factors{factor(v, y, more_inner, last_of_y, lift), factor(w, x, inner, last_of_x, -1)} {}
    TwoRows(const TwoRows &) = delete;
    static Factor2 factor(const int8_t *w, const int8_t *x, Size inner, const uint32_t &last, int32_t lift) {
        const int8_t *const word = (inner & 3) != 0 ? reinterpret_cast<const int8_t *>(&last) : nullptr;
        return {w, x, x + (inner & ~Size(3)), word, lift};
    }
    __attribute__((always_inline)) void add(Column<4> &sums) { add_paired_products(sums, factors); }
};
template <>
struct TwoRows<Blocks<int8_t, 8, 1>> {
    Factor2 factors[2];
    TwoRows(const int8_t *w, const int8_t *x, Size inner, const int8_t *v, const int8_t *y, Size more_inner, int lift)
        : factors{{v, y, y + more_inner, nullptr, lift}, {w, x, x + inner, nullptr, -1}} {}
    template <Size Rows>
    __attribute__((always_inline)) void add(Column<Rows> &sums) {
        add_products_of(sums, factors);
    }
};

// The outputs [n, n + count) of a block of `Rows`
template <Size Rows, class Two, class Out, class B, class Shift, class BiasShift>
__attribute__((always_inline)) inline void outputs_of_two(Out *out, Two &two, const B &bias, Size n, Size count, const Shift &shift,
                                                          BiasShift bias_shift) {
    using Rounded = Together<Out, PreparedOf<Shift>>;
    Column<Rows> sums;
    two.add(sums);
    const auto started = [&](Size r) {
        return sums.of[r] + start_of<int32_t>(bias, n + r, bias_shift) + Rounded::before(prepared(of_channel(shift, n + r)));
    };
    int32_t seen = 0;
#pragma GCC unroll 8
    for (Size r = 0; r < count; ++r) { out[n + r] = Rounded::of(started(r), prepared(of_channel(shift, n + r)), seen); }
    if (__builtin_expect(!Rounded::any(seen), 1)) return;
#pragma GCC unroll 1
    for (Size r = 0; r < count; ++r) out[n + r] = Rounded::again(started(r), prepared(of_channel(shift, n + r)));
}

// The outputs after the last whole block
template <Size Rows, class Two, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline)) void rest_of_two(Out *out, Two &two, const B &bias, Size n, Size outputs, const Shift &shift,
                                           BiasShift bias_shift) {
#pragma GCC unroll 1
    for (; n < outputs; n += Rows) {
        const Size left = outputs - n;
        outputs_of_two<Rows>(out, two, bias, n, left < Rows ? left : Rows, shift, bias_shift);
    }
}

template <class Acc, class Out, Size Rows, Size Step, class B, Size MoreStep, class Lift, class Shift, class BiasShift>
void dense_bias_pair(Out *out, Blocks<int8_t, Rows, Step> weights, Ram<int8_t> x, B bias, Blocks<int8_t, Rows, MoreStep> more,
                     Ram<int8_t> y, Size rows, Size outputs, Size inner, Size more_inner, Lift lift, Shift shift, BiasShift bias_shift) {
    static_assert(Step == MoreStep && sizeof(Acc) == 4, "both are arranged alike (passes/arrange.py)");
    using Tile = OnePixel<Blocks<int8_t, Rows, Step>>;
    const auto by = at_run_time(shift);
    const auto add = bias_factor(bias_shift);
    constexpr Size fewest = Tile::rows > 4 ? 2 : 4;
    for (; rows > 0; --rows, x = x + inner, y = y + more_inner, out += outputs) {
        TwoRows<Blocks<int8_t, Rows, Step>> two(weights.at, x.at, inner, more.at, y.at, more_inner, int(lift));
        Size n = 0;
        for (; n + Tile::rows <= outputs; n += Tile::rows) outputs_of_two<Tile::rows>(out, two, bias, n, Tile::rows, by, add);
        if (n == outputs) continue;
        if (Tile::ends_in_twos(outputs)) rest_of_two<fewest>(out, two, bias, n, outputs, by, add);
        else rest_of_two<4>(out, two, bias, n, outputs, by, add);
    }
}

}  // namespace hil

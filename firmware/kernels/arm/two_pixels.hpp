// Two pixels of a convolution at a time: which rows of weights their patches meet, on each core.
#pragma once
#include "firmware/kernels/arm/blocks.hpp"

namespace hil {

// Blocks of these weights and operands of type X in sums of type Acc: `add` adds what the weights of a block and two patches give and
// moves on by those; all sums doubled then if Twice
template <class Weights, class X, class Acc>
struct TwoPixels;

// Cortex-M7: 2 x 2 sums; patches are halfwords, whatever the operand is
template <class X>
struct TwoPixels<Blocks<int8_t, 2, 4>, X, int32_t> {
    static constexpr Size rows = 2;

    template <bool Twice>
    __attribute__((always_inline)) static inline void add(Sums<2> &sums, const int8_t *&w, const uint32_t *x, Size inner) {
        add_all_fours(sums, w, x, x + rounded_up(inner, 4));
        if (!Twice) return;
        for (Size p = 0; p < 2; ++p) sums.of[0][p] = twice(sums.of[0][p]), sums.of[1][p] = twice(sums.of[1][p]);
    }
};

// The same in pairs
template <class X>
struct TwoPixels<Blocks<int8_t, 2, in_pairs>, X, int32_t> {
    static constexpr Size rows = 2;

    template <bool Twice>
    __attribute__((always_inline)) static inline void add(Sums<2> &sums, const int8_t *&w, const uint32_t *x, Size inner) {
        for (Size p = 0; p < 2; ++p) sums.of[1][p] = paired(sums.of[0][p], sums.of[1][p]);
        add_all_pairs(sums, w, x, x + rounded_up(inner, 4));
        for (Size p = 0; p < 2; ++p) {
            sums.of[1][p] = unpaired<Twice>(sums.of[0][p], sums.of[1][p]);
            if (Twice) sums.of[0][p] = twice(sums.of[0][p]);
        }
    }
};

// Cortex-M4 and M7: 4 x 2 sums in pairs; outputs are whole blocks
struct FourRowsInPairs {
    static constexpr Size rows = 4;

    template <bool Twice>
    __attribute__((always_inline)) static inline void add(Sums<4> &sums, const int8_t *&w, const uint32_t *x, Size inner) {
        const Size padded = rounded_up(inner, 4);
        Sums<4> held;  // in memory, which `sums` need not be
#pragma GCC unroll 4
        for (Size n = 0; n < 4; ++n) {
            const Size row = n / 2 * 2, p = n % 2;
            held.of[row][p] = sums.of[row][p];
            held.of[row + 1][p] = paired(sums.of[row][p], sums.of[row + 1][p]);
        }
        add_all_pairs(held, w, x, x + padded);
        w += 4 * padded;
#pragma GCC unroll 4
        for (Size n = 0; n < 4; ++n) {
            const Size row = n / 2 * 2, p = n % 2;
            sums.of[row + 1][p] = unpaired<Twice>(held.of[row][p], held.of[row + 1][p]);
            sums.of[row][p] = Twice ? twice(held.of[row][p]) : held.of[row][p];
        }
    }
};

// How the bytes of patches join four rows
struct SignedBytes {
    __attribute__((always_inline)) static inline void add(Sums<4> &s, const int8_t *&w, const int8_t *&x) { add_one(s, w, x); }
};
struct SignedUnlessZero {
    __attribute__((always_inline)) static inline void add(Sums<4> &s, const int8_t *&w, const int8_t *&x) { add_one_unless_zero(s, w, x); }
};
struct UnsignedBytes {
    __attribute__((always_inline)) static inline void add(Sums<4> &s, const int8_t *&w, const int8_t *&x) { add_one_unsigned(s, w, x); }
};
struct UnsignedUnlessZero {
    __attribute__((always_inline)) static inline void add(Sums<4> &s, const int8_t *&w, const int8_t *&x) {
        add_one_unsigned_unless_zero(s, w, x);
    }
};
template <class X, Size Step>
struct ElementsOf;
template <>
struct ElementsOf<int8_t, 1> : SignedBytes {};
template <>
struct ElementsOf<int8_t, unless_zero> : SignedUnlessZero {};
template <>
struct ElementsOf<int8_t, unless_least> : UnsignedUnlessZero {};  // patches hold what elements are above the least
template <>
struct ElementsOf<uint8_t, 1> : UnsignedBytes {};
template <>
struct ElementsOf<uint8_t, unless_zero> : UnsignedUnlessZero {};

// Cortex-M3: 4 x 2 sums; the elements of the two patches in turn
template <class X, Size Step>
struct FourRowsOfBytes {
    static constexpr Size rows = 4;

    template <bool Twice>
    __attribute__((always_inline)) static inline void add(Sums<4> &sums, const int8_t *&w, const uint32_t *words, Size inner) {
        static_assert(!Twice, "this core needs no sum twice");
        const int8_t *x = reinterpret_cast<const int8_t *>(words), *const end = x + 2 * rounded_up(inner, 4), *at = w;
        w += 4 * rounded_up(inner, 4);
        while (x != end) {
            ElementsOf<X, Step>::add(sums, at, x);
            ElementsOf<X, Step>::add(sums, at, x);
            ElementsOf<X, Step>::add(sums, at, x);
            ElementsOf<X, Step>::add(sums, at, x);
        }
    }
};
template <Size Step>
struct TwoPixels<Blocks<int8_t, 4, Step>, int8_t, int32_t> : FourRowsOfBytes<int8_t, Step> {};
template <Size Step>
struct TwoPixels<Blocks<int8_t, 4, Step>, uint8_t, int32_t> : FourRowsOfBytes<uint8_t, Step> {};
template <class X>
struct TwoPixels<Blocks<int8_t, 4, in_pairs>, X, int32_t> : FourRowsInPairs {};
template <>
struct TwoPixels<Blocks<int8_t, 4, in_pairs>, int8_t, int32_t> : FourRowsInPairs {};
template <>
struct TwoPixels<Blocks<int8_t, 4, in_pairs>, uint8_t, int32_t> : FourRowsInPairs {};

}  // namespace hil

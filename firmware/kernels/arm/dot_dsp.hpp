// Dot products for cores with the DSP extension (Cortex-M7): two products in one instruction, four rows at once.
// Instructions per product, loads included: 16 x 16 bits 1.3, 8 x 8 and 8 x 16 bits 1.7. The sums are those of
// dot.hpp: exact integers may be added in any order.
#pragma once
#include "firmware/kernels/arm/dsp.hpp"
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// Pairs of neighbouring elements as two halfwords: even (0, 2) and odd (1, 3), or in order (0, 1) and (2, 3)
// Four halfwords in the same order as split bytes
inline Pairs split(const int16_t *p) {
    const uint32_t low = word_at(p), high = word_at(p + 2);
    return {lower_halves(low, high), upper_halves(low, high)};
}
inline Pairs in_order(const int16_t *p) { return {word_at(p), word_at(p + 2)}; }

template <class W, class X>
struct Order {  // of the operands of one row
    static Pairs weights(const W *p) { return split(p); }
    static Pairs values(const X *p) { return split(p); }
};
template <>
struct Order<int16_t, int16_t> {
    static Pairs weights(const int16_t *p) { return in_order(p); }
    static Pairs values(const int16_t *p) { return in_order(p); }
};

// A function of its own: all registers are for the loop.
template <Size Rows, class Acc, class W, class X>
__attribute__((noinline)) void add_rows(Acc (&sums)[Rows], const W *weights, const X *x, Size count) {
    const W *row[Rows];
    Acc total[Rows];
#pragma GCC unroll 4
    for (Size r = 0; r < Rows; ++r) {
        row[r] = weights + r * count;
        total[r] = sums[r];
    }
    const X *const end = x + (count & ~Size(3));
    for (; x != end; x += 4) {
        const Pairs values = Order<W, X>::values(x);
#pragma GCC unroll 4
        for (Size r = 0; r < Rows; ++r) {
            const Pairs factors = Order<W, X>::weights(row[r]);
            row[r] += 4;
            total[r] = add_products(add_products(total[r], factors.first, values.first), factors.second, values.second);
        }
    }
    for (Size k = 0; k < (count & 3); ++k) {
#pragma GCC unroll 4
        for (Size r = 0; r < Rows; ++r) total[r] += static_cast<int32_t>(row[r][k]) * x[k];
    }
#pragma GCC unroll 4
    for (Size r = 0; r < Rows; ++r) sums[r] = total[r];
}

// Bytes need two registers more while they are split: two rows at a time then, or sums would move to the stack.
template <class W, class X>
inline void add_four(int32_t (&sums)[4], const W *w, const X *x, Size count) {
    if (sizeof(W) + sizeof(X) == 4) {
        add_rows<4>(sums, w, x, count);
        return;
    }
    int32_t first[2] = {sums[0], sums[1]}, second[2] = {sums[2], sums[3]};
    add_rows<2>(first, w, x, count);
    add_rows<2>(second, w + 2 * count, x, count);
    sums[0] = first[0];
    sums[1] = first[1];
    sums[2] = second[0];
    sums[3] = second[1];
}

#define HIL_DSP_ROWS(W, X) \
    inline void accumulate_rows(int32_t (&sums)[4], W w, X x, Size count) { add_four(sums, w.at, x.at, count); } \
    inline void accumulate_rows(int64_t (&sums)[2], W w, X x, Size count) { add_rows<2>(sums, w.at, x.at, count); } \
    inline void accumulate(int32_t &sum, W w, X x, Size count) { \
        int32_t sums[1] = {sum}; \
        add_rows<1>(sums, w.at, x.at, count); \
        sum = sums[0]; \
    }
HIL_DSP_ROWS(Flash<int8_t>, Ram<int8_t>)
HIL_DSP_ROWS(Flash<int8_t>, Ram<uint8_t>)
HIL_DSP_ROWS(Flash<int8_t>, Ram<int16_t>)
HIL_DSP_ROWS(Flash<int16_t>, Ram<int8_t>)
HIL_DSP_ROWS(Flash<int16_t>, Ram<uint8_t>)
HIL_DSP_ROWS(Flash<int16_t>, Ram<int16_t>)
#undef HIL_DSP_ROWS

}  // namespace hil

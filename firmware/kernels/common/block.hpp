// Moving elements (tinyhil/ops/movement.py).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// Four nested loops over positions `offset + n_0 * stride_0 + ...`, the last axis fastest. Strides may be negative.
#ifdef __AVR__
using Stride = int16_t;
#else
using Stride = int32_t;
#endif
struct Block {
    Size offset, size_0, size_1, size_2, size_3;
    Stride stride_0, stride_1, stride_2, stride_3;
#ifdef __AVR__  // as in window.hpp
    Block(Size offset_, Size size_0_, Size size_1_, Size size_2_, Size size_3_, Stride stride_0_, Stride stride_1_, Stride stride_2_,
          Stride stride_3_)
        : offset(offset_), size_0(size_0_), size_1(size_1_), size_2(size_2_), size_3(size_3_), stride_0(stride_0_), stride_1(stride_1_),
          stride_2(stride_2_), stride_3(stride_3_) {}
#endif
};

// `visit(position)` in order; positions wrap like any unsigned number, so a negative stride is an addition too
template <class Visit>
inline void each_position(const Block &b, Visit visit) {
    Size p0 = b.offset;
    for (Size i = 0; i < b.size_0; ++i, p0 += static_cast<Size>(b.stride_0)) {
        Size p1 = p0;
        for (Size j = 0; j < b.size_1; ++j, p1 += static_cast<Size>(b.stride_1)) {
            Size p2 = p1;
            for (Size k = 0; k < b.size_2; ++k, p2 += static_cast<Size>(b.stride_2)) {
                Size p3 = p2;
                for (Size n = 0; n < b.size_3; ++n, p3 += static_cast<Size>(b.stride_3)) visit(p3);
            }
        }
    }
}

template <class Acc, class Out, class X, class Shift>
void move(Out *out, X x, const Block &block, Shift shift) {
    each_position(block, [&](Size at) { *out++ = requantize<Out>(static_cast<Acc>(x[at]), shift); });
}

template <class Acc, class Out, class X, class Shift>
void place(Out *out, X x, const Block &block, Shift shift) {
    Size n = 0;
    each_position(block, [&](Size at) { out[at] = requantize<Out>(static_cast<Acc>(x[n++]), shift); });
}

// `present` is `out` as it was before
template <class Acc, class Out, class X, class Y, class Shift>
void place_more(Out *out, X x, Y present, const Block &block, Shift shift) {
    (void)present;
    place<Acc>(out, x, block, shift);
}

template <class Acc, class Out, class Table, class X, class Shift>
void gather_rows(Out *out, Table indices, X x, Size outer, Size chosen, Size size, Size inner, Shift shift) {
    for (; outer > 0; --outer, x = x + size * inner) {
        for (Size n = 0; n < chosen; ++n) {
            const X row = x + indices[n] * inner;
            for (Size i = 0; i < inner; ++i) *out++ = requantize<Out>(static_cast<Acc>(row[i]), shift);
        }
    }
}

}  // namespace hil

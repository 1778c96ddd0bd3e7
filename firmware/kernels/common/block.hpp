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

#ifndef __AVR__
// An axis of a plane: its length, and how far apart its elements lie in what is written and in what is read
struct Axis {
    Size size;
    Stride to, from;
};
template <class X>
__attribute__((noinline)) void copy_apart(X *to, const X *from, Axis axis) {
    const Stride there = axis.to, here = axis.from;
    Size count = axis.size;
    if (there == 1) {
        for (; count >= 4; count -= 4, to += 4, from += 4 * here) {
            const X first = from[0], second = from[here], third = from[2 * here], fourth = from[3 * here];
            to[0] = first, to[1] = second, to[2] = third, to[3] = fourth;
        }
    } else if (here == 1) {
        for (; count >= 4; count -= 4, to += 4 * there, from += 4) {
            const X first = from[0], second = from[1], third = from[2], fourth = from[3];
            to[0] = first, to[there] = second, to[2 * there] = third, to[3 * there] = fourth;
        }
    }
    for (; count > 0; --count, to += there, from += here) *to = *from;
}
// Along the longer axis, but for neighbours
template <class X>
__attribute__((noinline)) void copy_plane(X *to, const X *from, Axis outer, Axis inner) {
    const bool are_neighbours = inner.to == 1 && inner.from == 1;
    if (outer.size > inner.size && !(are_neighbours && inner.size >= 4)) {
        for (; inner.size > 0; --inner.size, to += inner.to, from += inner.from) copy_apart(to, from, outer);
        return;
    }
    for (; outer.size > 0; --outer.size, to += outer.to, from += outer.from) {
        if (are_neighbours) {
            copy_elements(to, from, inner.size);
        } else {
            copy_apart(to, from, inner);
        }
    }
}
// `visit(position)` of the first element of each plane, the last two axes. The block is a copy: bytes that are written could be its own.
template <class Visit>
inline void each_plane(const Block b, Visit visit) {
    Size p0 = b.offset;
    for (Size i = 0; i < b.size_0; ++i, p0 += static_cast<Size>(b.stride_0)) {
        Size p1 = p0;
        for (Size j = 0; j < b.size_1; ++j, p1 += static_cast<Size>(b.stride_1)) visit(p1);
    }
}
// Elements as they are, in RAM
template <class X>
inline void move_planes(X *to, const X *from, const Block &b) {
    const Axis outer = {b.size_2, static_cast<Stride>(b.size_3), b.stride_2}, inner = {b.size_3, 1, b.stride_3};
    each_plane(b, [&](Size at) { copy_plane(to, from + at, outer, inner), to += outer.size * inner.size; });
}
template <class X>
inline void place_planes(X *to, const X *from, const Block &b) {
    const Axis outer = {b.size_2, b.stride_2, static_cast<Stride>(b.size_3)}, inner = {b.size_3, b.stride_3, 1};
    each_plane(b, [&](Size at) { copy_plane(to + at, from, outer, inner), from += outer.size * inner.size; });
}
#endif

template <class Acc, class Out, class X, class Shift>
void move(Out *out, X x, const Block &block, Shift shift) {
    each_position(block, [&](Size at) { *out++ = requantize<Out>(static_cast<Acc>(x[at]), shift); });
}

#ifndef __AVR__
// What keeps its format is what it was
template <class Acc, class Code>
void move(Code *out, Ram<Code> x, const Block &block, Const<0>) {
    move_planes(out, x.at, block);
}
#endif

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

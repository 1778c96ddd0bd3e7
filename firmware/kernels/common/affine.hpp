// Asymmetric integers in the arithmetic of TensorFlow Lite (tinyhil/formats/affine.py, tinyhil/ops/affine.py).
#pragma once
#include "firmware/kernels/common/affine_powers.hpp"
#include "firmware/kernels/common/affine_sum.hpp"
#include "firmware/kernels/common/block.hpp"
#include "firmware/kernels/common/conv.hpp"
#include "firmware/kernels/common/elementwise.hpp"
#include "firmware/kernels/common/pair.hpp"
#include "firmware/kernels/common/pool.hpp"
#include "firmware/kernels/common/quire.hpp"
#include "firmware/kernels/common/rescale.hpp"
#include "firmware/kernels/common/rows.hpp"

namespace hil {

// Multiplier and shift of each output channel, in the place of a kernel's shift
template <class Multipliers, class Shifts, bool Once>
struct Channels {
    Multipliers multipliers;
    Shifts shifts;
    int zero;
};

#ifdef __AVR__
template <class M, class S, bool Once>
struct IsApart<int32_t, Channels<M, S, Once>, Flash<int8_t>, Ram<int16_t>> {
    static constexpr bool value = true;
};
#endif
template <bool Once>
struct Rescale {
    int32_t multiplier;
    int shift;
    int zero;
};
template <class M, class S, bool Once>
inline Rescale<Once> of_channel(const Channels<M, S, Once> &c, Size n) {
    return {c.multipliers[n], c.shifts[n], c.zero};
}
template <class M, class S, bool Once>
inline Channels<M, S, Once> from_channel(const Channels<M, S, Once> &c, Size n) {
    return {c.multipliers + n, c.shifts + n, c.zero};
}

template <class Out, class Number, bool Once>
inline Out requantize(Number sum, Rescale<Once> r) {
    const int32_t units = Once ? rescale_once(sum, r.multiplier, r.shift) : rescale(sum, r.multiplier, r.shift);
    return saturate<Out>(static_cast<int32_t>(units + r.zero));
}

#ifdef __AVR__
}  // namespace hil
#include "firmware/kernels/avr/affine_rows_avr.hpp"
namespace hil {
#endif

template <class Acc, class Out, class W, class X, class B, class M, class S, class Zero>
void dense_affine(Out *out, W weights, X x, B bias, M multipliers, S shifts, Size rows, Size outputs, Size inner, Zero zero) {
    const Channels<M, S, true> channels = {multipliers, shifts, int(zero)};
    dense_bias<Acc>(out, weights, x, bias, rows, outputs, inner, channels, Const<0>());
}

template <class Acc, class Out, class W, class X, class B, class M, class S, class V, class Y, class Lift, class Zero>
void dense_affine_pair(Out *out, W weights, X x, B bias, M multipliers, S shifts, V more, Y y, Size rows, Size outputs, Size inner,
                       Size more_inner, Lift lift, Zero zero) {
    const Channels<M, S, true> channels = {multipliers, shifts, int(zero)};
    dense_bias_pair<Acc>(out, weights, x, bias, more, y, rows, outputs, inner, more_inner, lift, channels, Const<0>());
}

// Codes of which Zero stands for nothing: what windows are padded with
template <class Code, int Zero>
struct AffineCode {
    Code code;
    AffineCode() : code(static_cast<Code>(Zero)) {}
    AffineCode(Code c) : code(c) {}
};
template <class Code, int Zero>
inline Ram<Code> ram(const AffineCode<Code, Zero> *p) {
    return {&p->code};
}
template <class Code, int Zero>
struct PadsWithZero<AffineCode<Code, Zero>> {
    static constexpr bool value = false;
};
#ifndef __AVR__
template <class Code, int Zero>
struct PadCode<AffineCode<Code, Zero>> {
    static constexpr int32_t value = Zero;
};
#endif

template <class Acc, class Out, class T, class W, class X, class B, class M, class S, class Zero, int Pad>
HIL_PER_LAYER void conv_affine(Out *out, T *patch, W weights, X x, B bias, M multipliers, S shifts, const Window &w, Size groups,
                               Size outputs, Zero zero, Const<Pad>) {
    const Channels<M, S, false> channels = {multipliers, shifts, int(zero)};
    AffineCode<T, Pad> *const padded = reinterpret_cast<AffineCode<T, Pad> *>(patch);
    convolve<Acc>(out, padded, weights, x, bias, w, groups, outputs, channels, Const<0>());
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, int AZero, int BZero, int Zero, int Sign, int32_t AM,
          int AS, int32_t BM, int BS, int32_t OM, int OS>
void sum_affine(Out *out, A a, B b, Count count, P a_period, Q b_period, Const<AZero>, Const<BZero>, Const<Zero>, Const<Sign>,
                LongConst<AM>, Const<AS>, LongConst<BM>, Const<BS>, LongConst<OM>, Const<OS>) {
    using Sum = typename SumOf<Factor<AM, AS>, Factor<BM, BS>, Factor<OM, OS>, AZero, BZero, Zero, Sign>::type;
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) out[n] = Sum::template of<Out>(a[i.next(n)], b[j.next(n)]);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, int AZero, int BZero, int Zero, int32_t M, int By>
void mul_affine(Out *out, A a, B b, Count count, P a_period, Q b_period, Const<AZero>, Const<BZero>, Const<Zero>, LongConst<M>, Const<By>) {
    using Product = typename ProductOf<M, By, AZero, BZero, Zero>::type;
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) out[n] = Product::template of<Out>(a[i.next(n)], b[j.next(n)]);
}

// ---- sums and products of 16 bits, slopes of 8 and 16 (tinyhil/ops/affine_words.py)

// |terms| <= 2^29, |sum| <= 2^30: codes of 16 bits moved by 15, times factors of at most 1 / 2
template <class Acc, class Out, class A, class B, class Count, class P, class Q>
void word_sum_affine(Out *out, A a, B b, Count count, P a_period, Q b_period, int sign, int32_t am, int as, int32_t bm, int bs, int32_t om,
                     int os) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t left = rescale(static_cast<int32_t>(a[i.next(n)]) * (int32_t(1) << 15), am, as);
        const int32_t right = rescale(static_cast<int32_t>(b[j.next(n)]) * (int32_t(1) << 15), bm, bs);
        out[n] = saturate<Out>(rescale(static_cast<int32_t>(sign > 0 ? left + right : left - right), om, os));
    }
}

// |a * b| <= 2^30
template <class Acc, class Out, class A, class B, class Count, class P, class Q>
void word_mul_affine(Out *out, A a, B b, Count count, P a_period, Q b_period, int32_t m, int by) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t product = static_cast<int32_t>(a[i.next(n)]) * static_cast<int32_t>(b[j.next(n)]);
        out[n] = saturate<Out>(rescale(product, m, by));
    }
}

// Of a slope below zero x changes its sign, since an ATmega's multiplier has none.
inline int32_t sloped(int32_t x, int32_t m, int by) { return m < 0 ? rescale(-x, -m, by) : rescale(x, m, by); }

// |x - x_zero| < 2^17, moved to the left by at most 13 bits
template <class Acc, class Out, class X, class Count>
void slopes_affine(Out *out, X x, Count count, int x_zero, int zero, int32_t below, int below_by, int32_t above, int above_by) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t value = static_cast<int32_t>(x[n]) - x_zero;
        const int32_t units = value < 0 ? sloped(value, below, below_by) : sloped(value, above, above_by);
        out[n] = saturate<Out>(static_cast<int32_t>(units + zero));
    }
}

// ---- codes that are moved, compared and averaged (tinyhil/ops/affine_moves.py)

template <class Acc, class Out, class X>
void move_codes(Out *out, X x, const Block &block) {
    each_position(block, [&](Size at) { *out++ = x[at]; });
}

template <class Acc, class Out, class X>
void place_codes(Out *out, X x, const Block &block) {
    Size n = 0;
    each_position(block, [&](Size at) { out[at] = x[n++]; });
}

#ifndef __AVR__
template <class Acc, class Code>
void move_codes(Code *out, Ram<Code> x, const Block &block) {
    move_planes(out, x.at, block);
}
template <class Acc, class Code>
void place_codes(Code *out, Ram<Code> x, const Block &block) {
    place_planes(out, x.at, block);
}
#endif

template <class Acc, class Out, class X, class Y>
void place_more_codes(Out *out, X x, Y, const Block &block) {
    place_codes<Acc>(out, x, block);
}

template <class Acc, class Out, class Table, class X>
void gather_rows_codes(Out *out, Table indices, X x, Size outer, Size chosen, Size size, Size inner) {
    for (; outer > 0; --outer, x = x + size * inner) {
        for (Size n = 0; n < chosen; ++n) {
            const X row = x + indices[n] * inner;
            for (Size i = 0; i < inner; ++i) *out++ = row[i];
        }
    }
}

template <class Acc, class Out, class X>
void max_pool_codes(Out *out, X x, const Window &w) {
#ifndef __AVR__
    if (is_two_by_two(w)) return each_largest<Out>(out, x, w, [](Out *at, Out top) { *at = top; });
#endif
    each_window(out, x, w, [=](Out *at, X plane, const Part &part) {
        Out top = plane[part.first()];
        each_element(plane, part, [&](Out code) { top = code > top ? code : top; });
        *at = top;
    });
}

// sum is below 2^14 * 2^16, multiplier and shift are those of the count where it varies
template <class Acc, class Out, class M, class S, class X, class XZero, class Zero, class Varies>
void average_pool_affine(Out *out, M multipliers, S shifts, X x, const Window &w, XZero x_zero, Zero zero, Varies varies) {
    each_window(out, x, w, [=](Out *at, X plane, const Part &part) {
        const Size count = part.count(), n = int(varies) ? count - 1 : 0;
        const int32_t sum = window_sum<int32_t>(plane, part) - static_cast<int32_t>(count) * int(x_zero);
        *at = saturate<Out>(static_cast<int32_t>(rescale_away(sum, multipliers[n], shifts[n]) + int(zero)));
    });
}

template <class Acc, class Out, class X, class Count>
void clamp_codes(Out *out, X x, Count count, int32_t low, int32_t high) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Out code = x[n];
        out[n] = code < low ? static_cast<Out>(low) : code > high ? static_cast<Out>(high) : code;
    }
}

// ---- some rows of their results (rows.hpp)

template <class Acc, class Out, class T, class Rows, class W, class X, class B, class M, class S, class Y, class Zero, int Pad>
HIL_PER_LAYER void conv_affine_rows(Out *out, T *patch, Rows rows, W weights, X x, B bias, M multipliers, S shifts, Y, const RowWindow &l,
                                    Size groups, Size outputs, Zero zero, Const<Pad>) {
    const Channels<M, S, false> channels = {multipliers, shifts, int(zero)};
    AffineCode<T, Pad> *const padded = reinterpret_cast<AffineCode<T, Pad> *>(patch);
    convolve_rows<Acc>(out, padded, rows, weights, x, bias, l, groups, outputs, channels, Const<0>());
}

template <class Acc, class Out, class Rows, class A, class B, class Y, class... Params>
void sum_affine_rows(Out *out, Rows rows, A a, B b, Y, const Lines &l, Size b_plane, Size b_row, Size b_ring, Params... params) {
    each_stretch_of_two(out, rows, a, b, l, b_plane, b_row, b_ring,
                        [&](Out *to, A left, B right, Size n) { sum_affine<Acc>(to, left, right, n, n, n, params...); });
}

template <class Acc, class Out, class Rows, class A, class B, class Y, class... Params>
void mul_affine_rows(Out *out, Rows rows, A a, B b, Y, const Lines &l, Size b_plane, Size b_row, Size b_ring, Params... params) {
    each_stretch_of_two(out, rows, a, b, l, b_plane, b_row, b_ring,
                        [&](Out *to, A left, B right, Size n) { mul_affine<Acc>(to, left, right, n, n, n, params...); });
}

template <class Acc, class Out, class Rows, class X, class Y>
void move_codes_rows(Out *out, Rows rows, X x, Y, const Lines &l, Size x_step) {
    each_element_moved(out, rows, x, l, x_step, [&](Out from, Out *to) { *to = from; });
}

template <class Acc, class Out, class Rows, class X, class Y>
void max_pool_codes_rows(Out *out, Rows rows, X x, Y, const RowWindow &l) {
#ifndef __AVR__
    if (is_two_by_two(l.window)) return each_largest_of_rows<Out>(out, rows, x, l, [](Out *at, Out top) { *at = top; });
#endif
    each_window_of_rows(out, rows, x, l, [&](Out *at, X plane, const Span &down, const Span &across) {
        Out top = plane[static_cast<Size>(down.at) % l.x_ring * l.x_row + static_cast<Size>(across.at)];
        each_element_of_lines(plane, l, down, across, [&](Out code) { top = code > top ? code : top; });
        *at = top;
    });
}

template <class Acc, class Out, class Rows, class M, class S, class X, class Y, class XZero, class Zero, class Varies>
void average_pool_affine_rows(Out *out, Rows rows, M multipliers, S shifts, X x, Y, const RowWindow &l, XZero x_zero, Zero zero,
                              Varies varies) {
    each_window_of_rows(out, rows, x, l, [&](Out *at, X plane, const Span &down, const Span &across) {
        const Size count = (down.end - down.first) * (across.end - across.first), n = int(varies) ? count - 1 : 0;
        const int32_t sum = sum_of_lines<int32_t>(plane, l, down, across) - static_cast<int32_t>(count) * int(x_zero);
        *at = saturate<Out>(static_cast<int32_t>(rescale_away(sum, multipliers[n], shifts[n]) + int(zero)));
    });
}

template <class Acc, class Out, class Rows, class X, class Y>
void clamp_codes_rows(Out *out, Rows rows, X x, Y, const Lines &l, int32_t low, int32_t high) {
    each_stretch(out, rows, x, l, [&](Out *to, X from, Size n) { clamp_codes<Acc>(to, from, n, low, high); });
}

// ---- between asymmetric integers and everything else: in single precision

// An operand as floats, scale * (code - zero)
template <class X>
struct Real32 {
    X codes;
    float scale;
    int16_t zero;
    float operator[](Size i) const { return static_cast<float>(static_cast<int32_t>(codes[i]) - zero) * scale; }
    Real32 operator+(Size n) const { return {codes + n, scale, zero}; }
};
template <class X>
inline Real32<X> real32(X codes, uint32_t scale_bits, int16_t zero) {
    return {codes, float_of(scale_bits), zero};
}

inline float nearest_float(float x) { return x; }
template <class Number>
inline float nearest_float(Number x) {
    return static_cast<float>(Float32::pack(parts(x)));
}

// A result: round(value * 2^-shift / scale) + zero, the quotient by the rounded reciprocal, ties to even
struct ToAffine {
    uint32_t inverse_bits;
    int16_t zero;
    int shift;
};
template <class Out, class Number>
inline Out requantize(Number value, ToAffine to) {
    float units = scaled(nearest_float(value), -to.shift) * float_of(to.inverse_bits);
    if (units != units) {
        ++saturations;
        return saturate<Out>(static_cast<int32_t>(to.zero));
    }
    units = units > 100000.0f ? 100000.0f : units < -100000.0f ? -100000.0f : units;
    units = (units + 12582912.0f) - 12582912.0f;
    return saturate<Out>(static_cast<int32_t>(units) + to.zero);
}

}  // namespace hil

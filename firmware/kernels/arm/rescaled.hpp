// Layers of asymmetric integers whose bias, multiplier and shift are a record of each output (passes/rescalings.py). Zero
// point and rounding half join before the shift, which leaves twice the result and its last bit; both roundings of TensorFlow
// Lite's arithmetic (rescale.hpp) are inside of one sum: high + half is rounded down where high is 0 or above, and one less
// where it is below 0. Where an activation clamps everything below the zero point that one does not count.
#pragma once
#include "firmware/kernels/arm/conv_blocks.hpp"
#include "firmware/kernels/arm/dense_blocks.hpp"
#include "firmware/kernels/arm/near.hpp"
#include "firmware/kernels/common/affine.hpp"

namespace hil {

namespace portable {

// sum + a * b / 2^32 to nearest with ties towards plus infinity
inline int32_t add_upper_rounded(int32_t sum, int32_t a, int32_t b) { return wrapped(sum, (int64_t(a) * b + (int64_t(1) << 31)) >> 32); }
// the upper half of (upper, lower) + a * b
inline int32_t upper_of_sum(int32_t upper, uint32_t lower, int32_t a, int32_t b) {
    const uint64_t start = uint64_t(static_cast<uint32_t>(upper)) << 32 | lower;
    return static_cast<int32_t>((start + static_cast<uint64_t>(int64_t(a) * b)) >> 32);
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
inline int32_t add_upper_rounded(int32_t sum, int32_t a, int32_t b) {
    int32_t made;
    asm("smmlar %0, %1, %2, %3" : "=r"(made) : "r"(a), "r"(b), "r"(sum));
    return made;
}
#else
inline int32_t add_upper_rounded(int32_t sum, int32_t a, int32_t b) { return portable::add_upper_rounded(sum, a, b); }
#endif
#if __ARM_ARCH_ISA_THUMB == 2
inline int32_t upper_of_sum(int32_t upper, uint32_t lower, int32_t a, int32_t b) {
    asm("smlal %0, %1, %2, %3" : "+r"(lower), "+r"(upper) : "r"(a), "r"(b));
    return upper;
}
#else
inline int32_t upper_of_sum(int32_t upper, uint32_t lower, int32_t a, int32_t b) { return portable::upper_of_sum(upper, lower, a, b); }
#endif

// The records of a layer in the place of a kernel's shift. `Once`: one rounding, what fully connected layers do.
template <bool Once, bool Doubled, int Zero>
struct Records {
    const int32_t *at;
};
constexpr Size words_of_a_record = 3;
template <bool Once, bool Doubled, int Zero>
inline Records<Once, Doubled, Zero> from_channel(const Records<Once, Doubled, Zero> &r, Size n) {
    return {r.at + words_of_a_record * n};
}
template <bool Once, bool Doubled, int Zero>
inline Records<Once, Doubled, Zero> of_channel(const Records<Once, Doubled, Zero> &r, Size n) {
    return from_channel(r, n);
}

// `Early`: sums start at the bias; else it joins a sum when that is doubled
template <bool Once, bool Doubled, int Zero, bool Early>
struct Rescaled {
    int32_t bias, multiplier, right, addend;
};
template <bool Once, bool Doubled, int Zero>
__attribute__((always_inline)) inline Rescaled<Once, Doubled, Zero, !Doubled> prepared(const Records<Once, Doubled, Zero> &r) {
    return {r.at[0], r.at[1], r.at[2], (2 * Zero + 1) * (int32_t(1) << r.at[2])};
}
template <bool Once, int Zero>
inline Rescaled<Once, true, Zero, true> early(const Rescaled<Once, true, Zero, false> &by) {
    return {by.bias, by.multiplier, by.right, by.addend};
}

template <bool Once, bool Doubled, int Zero>
inline Records<Once, Doubled, Zero> records_of(Flash<int32_t> r) {
    return {r.at};
}
template <bool Once, bool Doubled, int Zero>
inline NearRecords<Once, Zero> records_of(NearOperand r) {
    static_assert(!Doubled, "this core needs no sum twice");
    return {r.at};
}

// Whether a result is never below Zero
template <class Out, int Zero>
struct IsFrom {
    static constexpr bool value = false;
};
template <int32_t Low, int32_t High, int Zero>
struct IsFrom<Within<int8_t, Low, High>, Zero> {
    static constexpr bool value = Low >= Zero;
};

// Twice the result, rounded down; `sum` with its bias, and doubled if Doubled
template <class Out, bool Once, bool Doubled, int Zero, bool Early>
__attribute__((always_inline)) inline int32_t twice_rescaled(int32_t sum, const Rescaled<Once, Doubled, Zero, Early> &by) {
    if (Once) return add_upper(by.addend, sum, by.multiplier) >> by.right;
    const int32_t sign = IsFrom<Out, Zero>::value ? 0 : sum >> 31;
    if (Doubled) return add_upper_rounded(by.addend + sign, sum, by.multiplier) >> by.right;
    const uint32_t half = (uint32_t(1) << 30) ^ (static_cast<uint32_t>(sign) & 0x80000000u);  // 2^31 less below 0, with `sign`
    return upper_of_sum(by.addend + sign, half, sum, by.multiplier) >> by.right;
}

// Noted<Out>::of of half a number
template <class Out, bool IsKnown = Noted<Out>::is_known>
struct NotedHalf {
    static Out of(int32_t twice, int32_t &) { return saturate<Out>(twice >> 1); }
};
template <class Out>
struct NotedHalf<Out, true> {
    static Out of(int32_t twice, int32_t &seen) { return Noted<Out>::of(twice >> 1, seen); }
};
#if __ARM_ARCH_ISA_THUMB == 2
template <int32_t High>
struct NotedHalf<Within<int8_t, -128, High>, true> {
    static Within<int8_t, -128, High> of(int32_t twice, int32_t &seen) {
        int32_t value;
        if (High > 127) {
            asm("usat %0, #8, %1, asr #1" : "=r"(value) : "r"(twice));
            seen |= value;
        }
        asm("ssat %0, #8, %1, asr #1" : "=r"(value) : "r"(twice));
        if (High < 127 && value > High) value = High;
        return {static_cast<int8_t>(value)};
    }
};
#endif

template <class Out, bool Once, bool Doubled, int Zero, bool Early>
struct Together<Out, Rescaled<Once, Doubled, Zero, Early>, true> {
    using By = Rescaled<Once, Doubled, Zero, Early>;
    static constexpr bool takes_twice = Doubled;
    static int32_t before(const By &by) { return Early ? by.bias : 0; }
    static int32_t twice(int32_t sum, const By &by) { return twice_rescaled<Out>(Early ? sum : sum + by.bias, by); }
    static Out of(int32_t sum, const By &by, int32_t &seen) { return NotedHalf<Out>::of(twice(sum, by), seen); }
    static bool any(int32_t seen) { return seen > 127; }
    __attribute__((noinline, noclone, cold)) static Out again(int32_t sum, const By &by) { return saturate<Out>(twice(sum, by) >> 1); }
};
template <class Out, bool Once, bool Doubled, int Zero, bool Early>
struct Together<Out, Rescaled<Once, Doubled, Zero, Early>, false> : Together<Out, Rescaled<Once, Doubled, Zero, Early>, true> {};

template <class Acc, class Out, class W, class X, class R, int Zero, int Twice>
void dense_rescaled(Out *out, W weights, X x, R records, Size rows, Size outputs, Size inner, Const<Zero>, Const<Twice>) {
    dense_bias<Acc>(out, weights, x, NoBias(), rows, outputs, inner, records_of<true, Twice != 0, Zero>(records), Const<0>());
}

template <class Acc, class Out, class W, class X, class V, class Y, class Lift, int Zero, int Twice>
void dense_rescaled_pair(Out *out, W weights, X x, Flash<int32_t> records, V more, Y y, Size rows, Size outputs, Size inner,
                         Size more_inner, Lift lift, Const<Zero>, Const<Twice>) {
    const Records<true, Twice != 0, Zero> to = {records.at};
    dense_bias_pair<Acc>(out, weights, x, NoBias(), more, y, rows, outputs, inner, more_inner, lift, to, Const<0>());
}

// Records of a pair whose factors are whole numbers of 2^-16: what joins the product, zero point and rounding half included
struct Factors { const int32_t *at; };
struct FactorOfRow { int32_t start, by; };
constexpr Size words_of_a_factor = 2;
inline Factors from_channel(const Factors &f, Size n) { return {f.at + words_of_a_factor * n}; }
inline Factors of_channel(const Factors &f, Size n) { return from_channel(f, n); }
inline FactorOfRow prepared(const Factors &f) { return {f.at[0], f.at[1]}; }

// Each result is clipped for itself: in recurrent cells that is common
template <class Out, bool IsKnown>
struct Together<Out, FactorOfRow, IsKnown> {
    static constexpr bool takes_twice = false;
    static int32_t before(const FactorOfRow &) { return 0; }
    static Out of(int32_t sum, const FactorOfRow &f, int32_t &) { return saturate<Out>((sum * f.by + f.start) >> 16); }
    static bool any(int32_t) { return false; }
    static Out again(int32_t, const FactorOfRow &) { return {}; }
};

template <class Acc, class Out, class W, class X, class V, class Y, class Lift, int Zero>
void dense_factored_pair(Out *out, W weights, X x, Flash<int32_t> records, V more, Y y, Size rows, Size outputs, Size inner,
                         Size more_inner, Lift lift, Const<Zero>) {
    dense_bias_pair<Acc>(out, weights, x, NoBias(), more, y, rows, outputs, inner, more_inner, lift, Factors{records.at}, Const<0>());
}

template <class Acc, class Out, class T, class W, class X, class R, int Zero, int Pad, int Twice>
void conv_rescaled(Out *out, T *patch, W weights, X x, R records, const Window &w, Size groups, Size outputs, Const<Zero>, Const<Pad>,
                   Const<Twice>) {
    AffineCode<T, Pad> *const padded = reinterpret_cast<AffineCode<T, Pad> *>(patch);
    const auto channels = records_of<false, Twice != 0, Zero>(records);
    convolve<Acc>(out, padded, weights, x, NoChannelBias(), w, groups, outputs, channels, Const<0>());
}

template <class Acc, class Out, class T, class Rows, class W, class X, class R, class Y, int Zero, int Pad, int Twice>
void conv_rescaled_rows(Out *out, T *patch, Rows rows, W weights, X x, R records, Y, const RowWindow &l, Size groups, Size outputs,
                        Const<Zero>, Const<Pad>, Const<Twice>) {
    AffineCode<T, Pad> *const padded = reinterpret_cast<AffineCode<T, Pad> *>(patch);
    const auto channels = records_of<false, Twice != 0, Zero>(records);
    convolve_rows<Acc>(out, padded, rows, weights, x, NoChannelBias(), l, groups, outputs, channels, Const<0>());
}

}  // namespace hil

// Where sums of 32 bits start and how they are rounded, as numbers at run time: layers that differ in nothing else share
// their code then. For chips on which a shift by a register costs no more than one by a constant.
#pragma once
#include "firmware/kernels/common/dense.hpp"
#include "firmware/kernels/common/limits.hpp"

namespace hil {

// ((sum << left) + half) >> right, one of the shifts 0: what requantize does for any shift
struct Rounding {
    int left, right;
    int32_t half;
};
struct RightRounding {
    int right;
    int32_t half;
};
template <class Out>
using RoundedOut = typename EnableIf<!IsSign<Out>::value, Out>::type;
template <class Out>
inline RoundedOut<Out> requantize(int32_t sum, Rounding r) {
    return limited<Out>((static_cast<int32_t>(static_cast<uint32_t>(sum) << r.left) + r.half) >> r.right);
}
template <class Out>
inline RoundedOut<Out> requantize(int32_t sum, RightRounding r) {
    return limited<Out>((sum + r.half) >> r.right);
}

// the bound of the sum covers 2^(shift - 1), so a shift is at most 31 to the right, or to the left
constexpr int32_t half_of(int shift) { return shift > 0 ? int32_t(1) << (shift - 1) : 0; }
inline Rounding at_run_time(int shift) { return {shift < 0 ? -shift : 0, shift > 0 ? shift : 0, half_of(shift)}; }
template <bool Right>
struct RoundingOf {
    using type = RightRounding;
    static type of(int shift) { return {shift, half_of(shift)}; }
};
template <>
struct RoundingOf<false> {
    using type = Rounding;
    static type of(int shift) { return at_run_time(shift); }
};
template <int N>
inline typename RoundingOf<(N >= 0)>::type at_run_time(Const<N>) {
    return RoundingOf<(N >= 0)>::of(N);
}
template <class Shift>
inline Shift at_run_time(Shift shift) {
    return shift;
}

// A sum rounded as of_channel says
template <class Out, class Shift>
inline Out rounded(int32_t sum, const Shift &shift) {
    return requantize<Out>(sum, shift);
}
template <class Out>
inline Out rounded(int32_t sum, const int &shift) {
    return requantize<Out>(sum, at_run_time(shift));
}

// bias * 2^shift as a product; a bias moved beyond the sum is 0
struct BiasFactor { int32_t by; };
constexpr int32_t factor_of(int shift) { return shift < 31 ? int32_t(1) << shift : 0; }
template <class Acc, class B>
inline Acc start_of(const B &bias, Size n, BiasFactor factor) {
    return bias[n] * factor.by;
}
template <int N>
inline BiasFactor bias_factor(Const<N>) {
    return {factor_of(N)};
}

}  // namespace hil

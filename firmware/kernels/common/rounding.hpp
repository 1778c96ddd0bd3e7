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

// A rounding with what all of its sums share worked out: most are what they were
inline const RightRounding &prepared(const RightRounding &r) { return r; }
inline const Rounding &prepared(const Rounding &r) { return r; }
inline int prepared(int shift) { return shift; }
// One whose sums start at all that joins them: most do
template <class Shift>
inline const Shift &early(const Shift &shift) {
    return shift;
}

template <class T>
struct Plainly {
    using type = T;
};
template <class T>
struct Plainly<const T &> {
    using type = T;
};
template <class Shift>
using PreparedOf = typename Plainly<decltype(prepared(of_channel(*static_cast<const Shift *>(nullptr), 0)))>::type;

// The code of a value; above 127 in `seen` if it has to be clipped and counted, as every large value of `all` kinds is
template <class Out>
struct Noted {
    static constexpr bool is_known = false;
};
template <>
struct Noted<int8_t> {
    static constexpr bool is_known = true, all = true;
    static int8_t of(int32_t value, int32_t &seen) {
        seen |= value ^ value >> 31;
        return static_cast<int8_t>(value);
    }
};
template <>
struct Noted<NonNegative<int8_t>> {
    static constexpr bool is_known = true, all = true;
    static NonNegative<int8_t> of(int32_t value, int32_t &seen) {
        value = clamped_to_unsigned_byte(value);
        seen |= value;
        return {static_cast<int8_t>(value)};
    }
};
// Without a sign: half of what is above 255 is above 127
template <>
struct Noted<NonNegative<Unsigned<8>>> {
    static constexpr bool is_known = true, all = true;
    static NonNegative<Unsigned<8>> of(int32_t value, int32_t &seen) {
        value &= ~(value >> 31);
        seen |= value >> 1;
        return {{static_cast<uint8_t>(value)}};
    }
};
template <int32_t Low, int32_t High>
struct Noted<Within<int8_t, Low, High>> {
    static constexpr bool is_known = Low >= -128, all = High > 127;
    static Within<int8_t, Low, High> of(int32_t value, int32_t &seen) {
        if (High > 127) seen |= clamped_to_unsigned_byte(value);
        return {static_cast<int8_t>(clamped_within<Low, High>(value))};
    }
};

// The sums of a block, rounded together: what none of them needs is asked once. `before` joins a sum where it starts, `of` makes a
// code of a sum and notes in `seen` what it has to say; if `any` of them was clipped all are rounded anew by `again`. Of sums that
// it `takes_twice` products count double.
template <class Out, class Shift, bool IsKnown = Noted<Out>::is_known>
struct Together {
    static constexpr bool takes_twice = false;
    static int32_t before(const Shift &) { return 0; }
    static Out of(int32_t sum, const Shift &shift, int32_t &) { return rounded<Out>(sum, shift); }
    static bool any(int32_t) { return false; }
    static Out again(int32_t sum, const Shift &shift) { return rounded<Out>(sum, shift); }
};
template <class Out>
struct Together<Out, RightRounding, true> {
    static constexpr bool takes_twice = false;
    static int32_t before(const RightRounding &r) { return r.half; }
    static Out of(int32_t sum, const RightRounding &r, int32_t &seen) { return Noted<Out>::of(sum >> r.right, seen); }
    static bool any(int32_t seen) { return seen > 127; }
    __attribute__((noinline, noclone, cold)) static Out again(int32_t sum, const RightRounding &r) { return saturate<Out>(sum >> r.right); }
};

// Clipping the results of recurrent cells is common: each is asked for itself, which costs no more where nothing else limits it.
template <>
struct Together<int8_t, RightRounding, true> {
    static constexpr bool takes_twice = false;
    static int32_t before(const RightRounding &r) { return r.half; }
    static int8_t of(int32_t sum, const RightRounding &r, int32_t &) { return limited<int8_t>(sum >> r.right); }
    static bool any(int32_t) { return false; }
    static int8_t again(int32_t sum, const RightRounding &r) { return limited<int8_t>(sum >> r.right); }
};

// Sums of 64 bits, of which 32 are left after a shift of 1 to 31 (passes/arrange.py)
template <class Out>
struct TogetherWide {
    static constexpr bool takes_twice = false;
    static int32_t before(const RightRounding &r) { return r.half; }
    static Out of(int64_t sum, const RightRounding &r, int32_t &) {
        const uint32_t low = static_cast<uint32_t>(sum), high = static_cast<uint32_t>(sum >> 32);
        return limited<Out>(static_cast<int32_t>(low >> r.right | high << (32 - r.right)));
    }
    static bool any(int32_t) { return false; }
    static Out again(int64_t sum, const RightRounding &r) {
        int32_t seen = 0;
        return of(sum, r, seen);
    }
};
template <class Acc, class Out, class Shift>
struct RoundingBlock {
    using type = Together<Out, Shift>;
};
template <class Out>
struct RoundingBlock<int64_t, Out, RightRounding> {
    using type = TogetherWide<Out>;
};
template <class Acc, class Out, class Shift>
using RoundedBlock = typename RoundingBlock<Acc, Out, Shift>::type;

// bias * 2^shift as a product; a bias moved beyond the sum is 0
struct BiasFactor { int32_t by; };
constexpr int32_t factor_of(int shift) { return shift < 31 ? int32_t(1) << shift : 0; }
template <class Acc, class B>
inline Acc start_of(const B &bias, Size n, BiasFactor factor) {
    return static_cast<Acc>(bias[n]) * factor.by;
}
// What all sums of a row or of a pixel start with, in the place of their biases
struct CommonStart { int32_t of; };
template <class Acc>
inline Acc start_of(const CommonStart &start, Size, BiasFactor) {
    return start.of;
}
template <>
struct VariesByPixel<CommonStart> {
    static constexpr bool value = true;
};
template <int N>
inline BiasFactor bias_factor(Const<N>) {
    return {factor_of(N)};
}

}  // namespace hil

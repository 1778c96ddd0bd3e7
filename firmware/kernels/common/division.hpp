// Quotients and square roots, rounded once (tinyhil/ops/division.py), and what quotients leave (tinyhil/ops/remainder.py).
#pragma once
#include "firmware/kernels/common/elementwise.hpp"

namespace hil {

// floor(numerator / denominator + 1/2); the denominator is not 0
template <class Acc>
inline Acc rounded_quotient(Acc numerator, Acc denominator) {
    if (denominator < 0) {
        numerator = -numerator;
        denominator = -denominator;
    }
    const Acc doubled = 2 * numerator + denominator, divisor = 2 * denominator;
    const Acc quotient = doubled / divisor;
    return doubled < 0 && quotient * divisor != doubled ? quotient - 1 : quotient;
}

template <class Out>
inline Out beyond(bool negative, bool zero) {
    if (!zero) return saturate<Out>(negative ? static_cast<int32_t>(-65536) : static_cast<int32_t>(65536));
    ++saturations;
    return Out(0);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R>
void div(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_lift, R b_lift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc left = a[i.next(n)], right = b[j.next(n)];
        if (right == 0) {
            out[n] = beyond<Out>(left < 0, left == 0);
            continue;
        }
        const Acc up = left * (static_cast<Acc>(1) << int(a_lift)), down = right * (static_cast<Acc>(1) << int(b_lift));
        out[n] = requantize<Out>(rounded_quotient<Acc>(up, down), Const<0>());
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Truncates, class Quotient,
          class Shift>
void mod(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_lift, R b_lift, Truncates truncates, Quotient quotient, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc left = static_cast<Acc>(a[i.next(n)]) * (static_cast<Acc>(1) << int(a_lift));
        const Acc right = static_cast<Acc>(b[j.next(n)]) * (static_cast<Acc>(1) << int(b_lift));
        if (right == 0) {
            out[n] = beyond<Out>(false, true);
            continue;
        }
        Acc rest = left % right;
        if (!int(truncates) && rest != 0 && (rest < 0) != (right < 0)) rest += right;
        out[n] = requantize<Out>(int(quotient) ? static_cast<Acc>((left - rest) / right) : rest, shift);
    }
}

// of whole numbers, held with a_power and b_power <= 0
template <class Acc, class Out, class A, class B, class Count, class P, class Q, class APower, class BPower, class Mode, class Shift>
void bitwise(Out *out, A a, B b, Count count, P a_period, Q b_period, APower a_power, BPower b_power, Mode mode, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t left = static_cast<int32_t>(a[i.next(n)]) >> -int(a_power),
                      right = static_cast<int32_t>(b[j.next(n)]) >> -int(b_power);
        out[n] = requantize<Out>(static_cast<Acc>(bits_of(int(mode), left, right)), shift);
    }
}

// floor(sqrt(radicand)), bit by bit
template <class Unsigned>
inline Unsigned whole_root(Unsigned radicand) {
    Unsigned root = 0, bit = static_cast<Unsigned>(1) << (8 * sizeof(Unsigned) - 2);
    while (bit > radicand) bit >>= 2;
    for (; bit != 0; bit >>= 2) {
        if (radicand >= root + bit) {
            radicand -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return root;
}

inline uint32_t radicand(uint16_t x, int lift) {
    if (lift < 0) return lift > -16 ? x >> -lift : 0;
    const uint64_t lifted = static_cast<uint64_t>(x) << lift;
    return lifted >> 32 ? 0xFFFFFFFF : static_cast<uint32_t>(lifted);
}

template <class Acc, class Out, class X>
void sqrt(Out *out, X x, Size count, int lift) {
    for (Size n = 0; n < count; ++n) {
        const int16_t value = x[n];
        if (value < 0) {
            out[n] = beyond<Out>(true, true);
            continue;
        }
        out[n] = saturate<Out>(static_cast<int32_t>((whole_root(radicand(static_cast<uint16_t>(value), lift)) + 1) >> 1));
    }
}

}  // namespace hil

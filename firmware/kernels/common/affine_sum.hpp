// a + b and a - b of asymmetric integers of 8 bits: two products of codes and one sum, wherever that decides the result.
//
// TensorFlow Lite rescales both operands to 28 bits, adds them and rescales their sum, rounding five times. All of that moves
// the result by less than 1 / 100 of a unit, so the sum with 16 bits below the point rounds to the same integer unless it
// lies next to where rounding changes over; only there (fewer than one result in a hundred) is it computed step by step.
#pragma once
#include "firmware/kernels/common/numeric.hpp"
#include "firmware/kernels/common/rescale.hpp"
#ifdef __AVR__
#include "firmware/kernels/avr/affine_sum_avr.hpp"
#endif

namespace hil {

// multiplier * 2^(shift - 31), as rescale multiplies
template <int32_t Multiplier, int Shift>
struct Factor {
    static constexpr int32_t multiplier = Multiplier;
    static constexpr int shift = Shift;
};

namespace portable {

// sum += x * Factor
template <int32_t Factor>
inline void add_product_with(int32_t &sum, int8_t x) {
    sum += x * Factor;
}

// start + left * A + right * B
template <int32_t A, int32_t B>
inline int32_t sum_of_products(int32_t start, int8_t left, int8_t right) {
    return start + left * A + right * B;
}

}  // namespace portable
#ifndef __AVR__
using portable::add_product_with;
using portable::sum_of_products;
#endif

constexpr int64_t rounded_by(int64_t x, int right) { return (x + (int64_t(1) << (right - 1))) >> right; }
constexpr int64_t size_of(int number) { return number < 0 ? -int64_t(number) : number; }

template <class A, class B, class O, int AZero, int BZero, int Zero, int Sign>
struct CodeSum {
    static constexpr int POINT = 16, LIFT = 20;  // LIFT: bits by which operands are moved to the left first
    static constexpr int64_t ONE = int64_t(1) << POINT;
    // what one code of an operand is in the sum
    static constexpr int right(int shift) { return 62 - LIFT - POINT - shift - O::shift; }
    static constexpr bool is_near = A::shift <= 0 && B::shift <= 0 && O::shift <= -14 && right(A::shift) <= 62 && right(B::shift) <= 62;
    static constexpr int64_t of_code(int32_t multiplier, int shift) {
        return is_near ? rounded_by(int64_t(multiplier) * O::multiplier, right(shift)) : 0;
    }
    static constexpr int64_t a = of_code(A::multiplier, A::shift), b = Sign * of_code(B::multiplier, B::shift);
    // both factors rounded, for differences of 255; operands and their sum rounded, and the sum once more before its last shift
    static constexpr int64_t error = 255 + (is_near ? (int64_t(O::multiplier) >> (is_near ? 14 - O::shift : 0)) + 3 : 0);
    static constexpr int64_t start = Zero * ONE + ONE / 2 + error - AZero * a - BZero * b;
    static constexpr int64_t largest = 256 * (a + Sign * b) + (size_of(Zero) + 1) * ONE;
    static constexpr bool is_quick = is_near && largest < (int64_t(1) << 31);

    template <class Out>
    static Out of(int8_t left, int8_t right) {
        if (is_quick) {
            const int32_t sum = sum_of_products<static_cast<int32_t>(a), static_cast<int32_t>(b)>(static_cast<int32_t>(start), left, right);
            if (static_cast<uint16_t>(sum) >= static_cast<uint16_t>(2 * error)) return saturate<Out>(static_cast<int16_t>(sum >> POINT));
        }
        return step_by_step<Out>(left, right);
    }

    template <class Out>
    __attribute__((noinline, cold)) static Out step_by_step(int8_t left, int8_t right) {
        const int32_t x = rescale_lifted(left - AZero, A::multiplier, Const<A::shift>());
        const int32_t y = rescale_lifted(right - BZero, B::multiplier, Const<B::shift>());
        const auto units = rescale_sum(Sign > 0 ? x + y : x - y, O::multiplier, Const<O::shift>());
        return saturate<Out>(static_cast<decltype(units + 0)>(units + Zero));
    }
};

}  // namespace hil

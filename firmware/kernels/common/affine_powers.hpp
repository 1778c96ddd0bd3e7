// Sums and products of asymmetric integers of 8 bits whose scales are powers of two: no multiplier, one rounding by shifts.
//
// TensorFlow Lite's multiplier of such a factor is 2^30. Its sums are exact until their last shift, which rounds ties away from
// zero. Its products are halved first, ties upwards, and then shifted like sums: that is one rounding of p + 1, where the numbers
// below zero lose two.
#pragma once
#include "firmware/kernels/common/affine_sum.hpp"
#include "firmware/kernels/common/rescale.hpp"

namespace hil {

constexpr int32_t HALF = int32_t(1) << 30;  // a factor of 1 / 2

constexpr int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
constexpr int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

#ifdef __AVR__
template <bool Short>
struct ProductNumberOf {
    using type = __int24;  // of 18 bits
};
template <>
struct ProductNumberOf<true> {
    using type = int16_t;
};
template <bool Short>
using ProductNumber = typename ProductNumberOf<Short>::type;

// A byte without a sign times one with a sign takes one instruction, its product with a zero point another one.
template <class Number, int AZero, int BZero>
inline Number product_of_codes(int8_t left, int8_t right) {
    if (AZero != -128) return static_cast<Number>(static_cast<Number>(left - AZero) * static_cast<Number>(right - BZero));
    const uint8_t a = static_cast<uint8_t>(left ^ -128);
    const int16_t product = static_cast<int16_t>(static_cast<int16_t>(a) * right);
    if (BZero == 0) return product;
    const uint16_t more = static_cast<uint16_t>(static_cast<uint16_t>(a) * static_cast<uint8_t>(BZero < 0 ? -BZero : BZero));
    return static_cast<Number>(BZero < 0 ? static_cast<Number>(product) + static_cast<Number>(more)
                                         : static_cast<Number>(product) - static_cast<Number>(more));
}
// `negative` for numbers below 0, else `other`
template <class Number>
inline Number of_sign(Number number, int32_t negative, int32_t other) {
    return number < 0 ? static_cast<Number>(negative) : static_cast<Number>(other);
}
#else
template <bool Short>
using ProductNumber = int32_t;
template <class Number, int AZero, int BZero>
inline Number product_of_codes(int8_t left, int8_t right) {
    return (left - AZero) * (right - BZero);
}
inline int32_t of_sign(int32_t number, int32_t negative, int32_t other) { return other + (number >> 31) * (other - negative); }
#endif

// a * 2^AShift + Sign * b * 2^BShift, of which Right bits are rounded
template <int AShift, int BShift, int Right, int AZero, int BZero, int Zero, int Sign>
struct ShiftedSum {
    static constexpr int A = 1 << AShift, B = Sign * (1 << BShift);
    static constexpr int32_t half = Right > 0 ? int32_t(1) << (Right - 1) : 0;
    static constexpr int32_t middle = -int32_t(AZero) * A - int32_t(BZero) * B;
    static constexpr bool is_short = 128 * int32_t(A + larger(B, -B)) + larger(middle, -middle) + half < 32768 && Right >= 0;
    using Number = Wide<is_short ? 16 : 32>;

    template <class Out>
    static Out of(int8_t left, int8_t right) {
        Number sum = static_cast<Number>(static_cast<Number>(left) * A + static_cast<Number>(right) * B + static_cast<Number>(middle));
        if (Right > 0) {
            sum = static_cast<Number>(sum + of_sign(sum, half - 1, half));
            sum = shift_right(sum, Const<(Right > 0 ? Right : 0)>());
        } else {
            sum = static_cast<Number>(sum * (Number(1) << (Right > 0 ? 0 : -Right)));
        }
        return saturate<Out>(static_cast<Number>(sum + Zero));
    }
};

template <class A, class B, class O, int AZero, int BZero, int Zero, int Sign>
struct SumOf {
    static constexpr int LEFT = 19;  // bits by which halved operands lie above their last one
    static constexpr int lowest = A::shift < B::shift ? A::shift : B::shift, right = 1 - LEFT - lowest - O::shift;
    static constexpr bool is_power = A::multiplier == HALF && B::multiplier == HALF && O::multiplier == HALF && A::shift <= 0 &&
        B::shift <= 0 && lowest > -12 && right <= 20 && right > -8 && O::shift <= 0;
    template <bool Power, class Unused>
    struct Choice {
        using type = CodeSum<A, B, O, AZero, BZero, Zero, Sign>;
    };
    template <class Unused>
    struct Choice<true, Unused> {
        using type = ShiftedSum<A::shift - lowest, B::shift - lowest, right, AZero, BZero, Zero, Sign>;
    };
    using type = typename Choice<is_power, void>::type;
};

// a * b / 2^Right
template <int Right, int AZero, int BZero, int Zero>
struct ShiftedProduct {
    static constexpr int32_t a_low = -128 - AZero, a_high = 127 - AZero, b_low = -128 - BZero, b_high = 127 - BZero;
    static constexpr int32_t highest = larger(larger(a_low * b_low, a_high *b_high), larger(a_low *b_high, a_high *b_low));
    static constexpr int32_t lowest = smaller(smaller(a_low * b_low, a_high *b_high), smaller(a_low *b_high, a_high *b_low));
    static constexpr int32_t half = Right > 1 ? int32_t(1) << (Right - 1) : 0;
    static constexpr bool is_short = highest + half + 1 < 32768 && lowest >= -32768;
    static constexpr bool is_near_short = Right >= 8 && (highest >> Right) + larger(Zero, -Zero) < 32767;
    using Number = ProductNumber<is_short>;
    using Units = Wide<is_short || is_near_short ? 16 : 32>;

    template <class Out>
    static Out of(int8_t left, int8_t right) {
        Number product = product_of_codes<Number, AZero, BZero>(left, right);
        product = static_cast<Number>(product + (Right > 1 ? of_sign(product, half - 1, half + 1) : 1));
        return saturate<Out>(static_cast<Units>(static_cast<Units>(shift_right(product, Const<Right>())) + Zero));
    }
};

// a * b times any factor
template <int32_t Multiplier, int By, int AZero, int BZero, int Zero>
struct ScaledProduct {
    template <class Out>
    static Out of(int8_t left, int8_t right) {
        const auto units = rescale_product(left - AZero, right - BZero, Multiplier, Const<By>());
        return saturate<Out>(static_cast<decltype(units + 0)>(units + Zero));
    }
};

template <int32_t Multiplier, int By, int AZero, int BZero, int Zero>
struct ProductOf {
    static constexpr bool is_power = Multiplier == HALF && By <= 0 && By > -16;
    template <bool Power, class Unused>
    struct Choice {
        using type = ScaledProduct<Multiplier, By, AZero, BZero, Zero>;
    };
    template <class Unused>
    struct Choice<true, Unused> {
        using type = ShiftedProduct<1 - By, AZero, BZero, Zero>;
    };
    using type = typename Choice<is_power, void>::type;
};

}  // namespace hil

// Functions of asymmetric integers, code by code as TensorFlow Lite Micro has them (tinyhil/ops/byte_functions.py).
#pragma once
#include "firmware/kernels/common/cells.hpp"
#include "firmware/kernels/common/real.hpp"
#include "firmware/kernels/common/softmax_affine.hpp"

namespace hil {

// x / 2^times, ties away from zero; times < 32
inline int32_t halved(int32_t x, int times) {
    if (times == 0) return x;
    const int32_t twice = (x + (x >> 31)) >> (times - 1);
    return (twice >> 1) + (twice & 1);
}

template <class Acc, class Out, class A, class B>
void code_squares(Out *out, A a, B b, Size count, Size a_period, Size b_period, int32_t a_zero, int32_t b_zero, int32_t a_multiplier,
                  int a_power, int32_t b_multiplier, int b_power, int32_t multiplier, int power, int32_t zero, int lift, int bits) {
    for (Size n = 0; n < count; ++n) {
        const int32_t x = (static_cast<int32_t>(a[n % a_period]) - a_zero) * (int32_t(1) << lift);
        const int32_t y = (static_cast<int32_t>(b[n % b_period]) - b_zero) * (int32_t(1) << lift);
        const int32_t d = rescale(x, a_multiplier, a_power) - rescale(y, b_multiplier, b_power);  // |d| < 2^15
        const int64_t code = static_cast<int64_t>(rescale(static_cast<int32_t>(d * d), multiplier, power)) + zero;
        out[n] = static_cast<Out>(clipped_to(code, bits));
    }
}

// Of nothing by nothing: 0; of a number by nothing: the end on its side
template <class Acc, class Out, class A, class B>
void code_quotients(Out *out, A a, B b, Size count, Size a_period, Size b_period, int a_zero, int b_zero, int32_t multiplier, int power,
                    int zero) {
    for (Size n = 0; n < count; ++n) {
        const int32_t y = static_cast<int32_t>(b[n % b_period]) - b_zero;
        const int32_t x = (static_cast<int32_t>(a[n % a_period]) - a_zero) * (y < 0 ? -1 : 1);
        int32_t quotient = x < 0 ? -255 : x > 0 ? 255 : 0;
        if (y != 0) {
            const uint32_t size = static_cast<uint32_t>(y < 0 ? -y : y);
            const int zeros = leading_zeros(size);
            const int headroom = leading_zeros(static_cast<uint32_t>(x >= 0 ? 2 * x + 1 : -2 * x - 1));
            const int32_t lifted = static_cast<int32_t>(static_cast<uint32_t>(x) << headroom);
            const int32_t product = doubled_product(doubled_product(lifted, reciprocal_of_sum(size << zeros)), multiplier);
            const int right = 31 - zeros + headroom - power;
            quotient = right > 31 ? 0 : halved(product, right > 0 ? right : 0);
        }
        out[n] = static_cast<Out>(clipped_to(quotient + zero, 8));
    }
}

// Sums of |x| <= 2^16, along <= 2^15: within 32 bits
template <class Acc, class Out, class A>
void code_totals(Out *out, A x, Size outer, Size along, Size inner, int32_t x_zero, int32_t multiplier, int power, int32_t zero, int bits) {
    for (Size o = 0; o < outer; ++o) {
        for (Size i = 0; i < inner; ++i) {
            int32_t sum = 0;
            for (Size n = 0; n < along; ++n) sum += static_cast<int32_t>(x[(o * along + n) * inner + i]) - x_zero;
            const int64_t code = static_cast<int64_t>(rescale(sum, multiplier, power)) + zero;
            out[o * inner + i] = static_cast<Out>(clipped_to(code, bits));
        }
    }
}

// Differences in units of 2^-8 of scales below 1: less, less or equal, equal, not equal
template <class Acc, class Out, class A, class B>
void code_comparisons(Out *out, A a, B b, Size count, Size a_period, Size b_period, int32_t a_zero, int32_t b_zero, int32_t a_multiplier,
                      int a_power, int32_t b_multiplier, int b_power, int mode) {
    for (Size n = 0; n < count; ++n) {
        const int32_t x = rescale((static_cast<int32_t>(a[n % a_period]) - a_zero) * 256, a_multiplier, a_power);
        const int32_t y = rescale((static_cast<int32_t>(b[n % b_period]) - b_zero) * 256, b_multiplier, b_power);
        out[n] = static_cast<Out>(mode == 0 ? x < y : mode == 1 ? x <= y : (x == y) == (mode == 2));
    }
}

// What sums of products of codes of so many bytes are kept in: 2^15 products of 16 bits, or any of 32
template <int Bytes>
struct SumOfCodes {
    typedef int64_t type;
};
template <>
struct SumOfCodes<1> {
    typedef int32_t type;
};

template <class Acc, class Out, class A, class B, class Sum = typename SumOfCodes<sizeof(Out)>::type>
void code_products(Out *out, A a, B b, Size batches, Size a_batches, Size b_batches, Size rows, Size inner, Size columns, int32_t a_zero,
                   int32_t b_zero, int32_t multiplier, int power, int32_t zero, int bits) {
    for (Size batch = 0; batch < batches; ++batch) {
        const Size first = batch % a_batches * rows * inner, second = batch % b_batches * inner * columns;
        for (Size row = 0; row < rows; ++row) {
            for (Size column = 0; column < columns; ++column) {
                Sum sum = 0;
                for (Size i = 0; i < inner; ++i) {
                    const int32_t x = static_cast<int32_t>(a[first + row * inner + i]) - a_zero;
                    sum += static_cast<Sum>(x) * (static_cast<int32_t>(b[second + i * columns + column]) - b_zero);
                }
                const int64_t code = static_cast<int64_t>(rescale(sum, multiplier, power)) + zero;
                *out++ = static_cast<Out>(clipped_to(code, bits));
            }
        }
    }
}

// ln of a sum in units of 2^-19, with 26 fraction bits
inline int32_t logarithm_of_sum(int32_t total) {
    const int32_t root_half = 1518500250L, middle = 1805811301L, quarter = int32_t(1) << 23;
    const int high = leading_zeros(static_cast<uint32_t>(total));
    const int32_t raised = static_cast<int32_t>(static_cast<uint32_t>(total) << (high - 1));
    const int32_t a = clipped_to(2 * static_cast<int64_t>(doubled_product(raised, root_half)), 32);
    const int below = leading_zeros(static_cast<uint32_t>(doubled_product(total, root_half)));
    const int32_t b = clipped_to(static_cast<int64_t>(total) * (int64_t(1) << (below - 1)), 32);
    const int32_t v = a < b ? a : b;
    const int32_t by_high = (12 - high) * (int32_t(1) << 25) + quarter, by_below = (13 - below) * (int32_t(1) << 25) - quarter;
    const int32_t z = by_high > by_below ? by_high : by_below;
    const int32_t p = static_cast<int32_t>((static_cast<int64_t>(v) + middle + 1) / 2), q = 2 * (v - middle);
    const int32_t c = doubled_product(q, q);
    const int32_t above = doubled_product(q, v) + doubled_product(doubled_product(q, c), 117049297L);
    const int32_t under = doubled_product(p, 1057819769L + q + doubled_product(c, 127690142L)) + doubled_product(q, 638450708L);
    const uint32_t one_more = static_cast<uint32_t>((static_cast<int64_t>(under) + 0x80000000LL) / 2) * 2;
    return 2 * (doubled_product(z, 1488522236L) + doubled_product(halved(above, 6), reciprocal_of_sum(one_more)));
}

template <class Acc, class Out, class E, class D, class X>
void code_log_softmax(Out *out, E exponentials, D distances, X x, Size outer, Size count, Size entries, int32_t back, int back_power,
                      int least) {
    for (Size row = 0; row < outer; ++row, x = x + count) {
        int most = -128;
        for (Size n = 0; n < count; ++n) most = static_cast<int>(x[n]) > most ? static_cast<int>(x[n]) : most;
        int32_t sum = 0;
        for (Size n = 0; n < count; ++n) {
            const Size d = static_cast<Size>(most - static_cast<int>(x[n]));
            if (d < entries) sum += static_cast<int32_t>((static_cast<uint32_t>(exponentials[d]) + 2048) >> 12);
        }
        const int32_t ln = logarithm_of_sum(sum);
        const int32_t shown = rescale(static_cast<int32_t>(static_cast<uint32_t>(ln) + 0x80000000UL), back, back_power);
        for (Size n = 0; n < count; ++n) {
            const int d = most - static_cast<int>(x[n]);
            const int32_t far = static_cast<int32_t>(distances[static_cast<Size>(d)]) - ln;
            *out++ = static_cast<Out>(-d > (shown > least ? shown : least) ? clipped_to(halved(far, 22) + 127, 8) : -128);
        }
    }
}

}  // namespace hil

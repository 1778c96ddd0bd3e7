// Functions in single precision, and of 8-bit operands by table (tinyhil/ops/real_functions.py).
#pragma once
#include "firmware/kernels/common/elementwise.hpp"
#include "firmware/kernels/common/single_functions.hpp"

namespace hil {

template <class Acc, class Out, class Table, class X, class Count>
HIL_ELEMENTWISE void lookup(Out *out, Table table, X x, Count count) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) out[n] = table[code_of(x[n], 0)];
}

// One kernel per function of x (first, second: parameters of the function, as bits)
#define HIL_SINGLE_KERNEL(name, expression) \
    template <class Acc, class Out, class X, class Count, class Power, class Shift> \
    void single_##name(Out *out, X operand, Count count, Power power, uint32_t first_bits, uint32_t second_bits, Shift shift) { \
        const float first = float_of(first_bits), second = float_of(second_bits); \
        (void)first; \
        (void)second; \
        for (Size n = 0; n < static_cast<Size>(count); ++n) { \
            const float x = scaled(static_cast<float>(operand[n]), power); \
            out[n] = requantize<Out>(static_cast<float>(expression), shift); \
        } \
    }
HIL_SINGLE_KERNEL(sigmoid, single::sigmoid(x))
HIL_SINGLE_KERNEL(tanh, single::tanh(x))
HIL_SINGLE_KERNEL(exp, single::exp(first *x))
HIL_SINGLE_KERNEL(log, single::log(x))
HIL_SINGLE_KERNEL(sqrt, single::sqrt(x))
HIL_SINGLE_KERNEL(reciprocal, single::reciprocal(x))
HIL_SINGLE_KERNEL(erf, single::erf(x))
HIL_SINGLE_KERNEL(gelu, (x * 0.5f) * (single::erf(x * 0.70710678f) + 1.0f))
HIL_SINGLE_KERNEL(gelu_tanh, (x * 0.5f) * (single::tanh((x + ((x * x) * x) * 0.044715f) * 0.7978846f) + 1.0f))
HIL_SINGLE_KERNEL(softplus, (x > 0.0f ? x : 0.0f) + single::log(single::exp(x < 0.0f ? x : -x) + 1.0f))
HIL_SINGLE_KERNEL(elu, x < 0.0f ? first * (single::exp(x * second) - 1.0f) : x)
HIL_SINGLE_KERNEL(clip, x<first ? first : x> second ? second : x)
#undef HIL_SINGLE_KERNEL

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class Shift>
void single_div(Out *out, A a, B b, Count count, P a_period, Q b_period, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const float left = static_cast<float>(a[i.next(n)]), right = static_cast<float>(b[j.next(n)]);
        out[n] = requantize<Out>(single::divide(left, right), shift);
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class APower, class BPower, class Truncates,
          class Quotient, class Shift>
void single_mod(Out *out, A a, B b, Count count, P a_period, Q b_period, APower a_power, BPower b_power, Truncates truncates,
                Quotient quotient, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const float left = scaled(static_cast<float>(a[i.next(n)]), a_power), right = scaled(static_cast<float>(b[j.next(n)]), b_power);
        const float rest = single::remainder(left, right, int(truncates) != 0);
        out[n] = requantize<Out>(int(quotient) ? single::whole_quotient(left, right, rest) : rest, shift);
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class APower, class BPower, class Mode, class Shift>
void single_bitwise(Out *out, A a, B b, Count count, P a_period, Q b_period, APower a_power, BPower b_power, Mode mode, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const float left = scaled(static_cast<float>(a[i.next(n)]), a_power), right = scaled(static_cast<float>(b[j.next(n)]), b_power);
        const int32_t bits = bits_of(int(mode), static_cast<int32_t>(left), static_cast<int32_t>(right));
        out[n] = requantize<Out>(static_cast<float>(bits), shift);
    }
}

template <class Acc, class Out, class X, class Centre, class Mean, class Power, class Shift>
void single_normalize(Out *out, X x, Size outer, Size along, Size inner, Centre centre, Mean mean, uint32_t epsilon_bits, Power power,
                      Shift shift) {
    const auto at = [&](Size n) { return scaled(static_cast<float>(x[n]), power); };
    const float count = static_cast<float>(along);
    for (; outer > 0; --outer, x = x + along * inner, out += along * inner) {
        for (Size i = 0; i < inner; ++i) {
            const Size end = i + along * inner;
            float middle = 0.0f, squares = 0.0f;
            if (int(centre)) {
                for (Size n = i; n < end; n += inner) middle += at(n);
                middle = single::divide(middle, count);
            }
            const auto centred = [&](Size n) { return int(centre) ? at(n) - middle : at(n); };
            for (Size n = i; n < end; n += inner) squares += centred(n) * centred(n);
            const float root = single::sqrt((int(mean) ? single::divide(squares, count) : squares) + float_of(epsilon_bits));
            for (Size n = i; n < end; n += inner) {
                out[n] = requantize<Out>(root == 0.0f ? 0.0f : single::divide(centred(n), root), shift);
            }
        }
    }
}

template <class Acc, class Out, class X, class Power, class Shift>
void single_softmax(Out *out, X x, Size outer, Size along, Size inner, Power power, Shift shift) {
    const auto at = [&](Size n) { return scaled(static_cast<float>(x[n]), power); };
    for (; outer > 0; --outer, x = x + along * inner, out += along * inner) {
        for (Size i = 0; i < inner; ++i) {
            const Size end = i + along * inner;
            float top = at(i), total = 0.0f;
            for (Size n = i + inner; n < end; n += inner) top = at(n) > top ? at(n) : top;
            for (Size n = i; n < end; n += inner) total += single::exp(at(n) - top);
            for (Size n = i; n < end; n += inner) { out[n] = requantize<Out>(single::divide(single::exp(at(n) - top), total), shift); }
        }
    }
}

}  // namespace hil

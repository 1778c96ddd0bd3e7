// Functions of one operand of at most 8 bits, by a table of its codes (tinyhil/ops/code_table.py).
#pragma once
#include "firmware/kernels/common/affine_sum.hpp"
#include "firmware/kernels/common/elementwise.hpp"
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// out[n] = table[code of x[n]]; results of codes below `lowest` and above `highest` are clipped
template <class Acc, class Out, class Table, class X, class Count, class Mask, class L, class H>
HIL_ELEMENTWISE void code_table(Out *out, Table table, X x, Count count, Mask mask, L lowest, H highest) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const uint8_t code = code_of(x[n], 0);
        const int16_t number = static_cast<int8_t>(code);
        if (int(lowest) > -128 && number < int(lowest)) count_clipped();
        if (int(highest) < 127 && number > int(highest)) count_clipped();
        out[n] = element_of<Out>(table[static_cast<uint8_t>(code & int(mask))], 0);
    }
}

// out[n] = lower byte of table[code of x[n]], the upper one: how often that is clipped
template <class Acc, class Out, class Table, class X, class Count, class Mask>
HIL_ELEMENTWISE void counted_table(Out *out, Table table, X x, Count count, Mask mask) {
    uint32_t clipped = 0;
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const uint16_t entry = static_cast<uint16_t>(table[static_cast<uint8_t>(code_of(x[n], 0) & int(mask))]);
        clipped += entry >> 8;
        out[n] = element_of<Out>(static_cast<int8_t>(entry), 0);
    }
    saturations = saturations + clipped;
}

// Counts an index beyond two pairs of limits, once for each; `none` and more: no limit.
template <int none, class L, class H, class Least, class Most>
HIL_ELEMENTWISE void count_beyond(int at, L lowest, H highest, Least least, Most most) {
    const int first = int(lowest) > int(least) ? int(lowest) : int(least), last = int(highest) < int(most) ? int(highest) : int(most);
    if (first > 0 && at < first) {
        if (at < int(lowest)) count_clipped();
        if (at < int(least)) count_clipped();
    }
    if (last < none && at > last) {
        if (at > int(highest)) count_clipped();
        if (at > int(most)) count_clipped();
    }
}

// out[n] = table[a[n] + base + b[n]], both parts of the index bytes without a sign. Results below `lowest` and above `highest`
// are clipped, and so are sums below `least` and above `most`, which another operation's results were. 510 and more: none are.
template <class Acc, class Out, class Table, class A, class B, class Count, class P, class Q, class Base, class L, class H, class Least,
          class Most>
HIL_ELEMENTWISE void sum_table(Out *out, Table table, A a, B b, Count count, P a_period, Q b_period, Base base, L lowest, H highest,
                               Least least, Most most) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const uint8_t left = static_cast<uint8_t>(a[i.next(n)] + int(base)), right = static_cast<uint8_t>(b[j.next(n)]);
        const int at = left + right;
        count_beyond<510>(at, lowest, highest, least, most);
        out[n] = element_of<Out>(table[static_cast<Size>(at)], 0);
    }
}

// out[n] = table[(a[n] * slope + starts[n]) / 2^right], whose sums fit 32 bits; limits of indices as in sum_table, 2^14 - 1: none
template <class Acc, class Out, class Table, class A, class B, class Count, class P, class Q, int32_t Factor, int N, class L, class H,
          class Least, class Most>
HIL_ELEMENTWISE void linear_table(Out *out, Table table, A a, B starts, Count count, P a_period, Q b_period, LongConst<Factor>, Const<N>,
                                  L lowest, H highest, Least least, Most most) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        int32_t sum = starts[j.next(n)];
        add_product_with<Factor>(sum, a[i.next(n)]);
        const int at = static_cast<int>(sum >> N);
        count_beyond<(1 << 14) - 1>(at, lowest, highest, least, most);
        out[n] = element_of<Out>(table[static_cast<Size>(at)], 0);
    }
}

// out[r][c] = (x[r][c] * slope[c] + start[c]) / 2^right, rounded down, and the same once more of that in a second step; slopes and starts
// in turn, sums fit 32 bits
template <class Acc, class Out, class Forms, class X, class Steps, class Right>
void linear_channels(Out *out, Forms forms, X x, Size rows, Size channels, Steps steps, Right right) {
    for (; rows > 0; --rows, x = x + channels, out += channels) {
        Forms form = forms;
#ifndef __AVR__
#pragma GCC unroll 4
#endif
        for (Size c = 0; c < channels; ++c, form = form + 2 * int(steps)) {
            const Out code = saturate<Out>(static_cast<int32_t>((x[c] * form[0] + form[1]) >> int(right)));
            out[c] = int(steps) == 1 ? code : saturate<Out>(static_cast<int32_t>((code * form[2] + form[3]) >> int(right)));
        }
    }
}

}  // namespace hil

// Softmax (tinyhil/ops/softmax.py derives table and error bound).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

constexpr uint16_t exp_last = 384;  // table index of t = 12
constexpr uint32_t exp_end = static_cast<uint32_t>(exp_last + 1) << 11;

// exp(-t) * 2^19 for t = distance * 2^(scale - 16); below 2^19 + 1
template <class Table>
inline uint32_t exp_negative(Table table, uint16_t distance, int scale) {
    uint32_t t = distance;
    if (scale < 0) {
        t = scale > -16 ? t >> -scale : 0;
    } else {
        if (scale > 20) scale = 20;  // 2^20 is past the table's end
        t = t > exp_end >> scale ? exp_end : t << scale;
    }
    if (t >= static_cast<uint32_t>(exp_last) << 11) return 0;
    const uint16_t r = static_cast<uint16_t>(t & 0x7FF);
    const uint32_t parabola = 65536UL - r + ((static_cast<uint32_t>(r) * r) >> 17);
    return (table[static_cast<Size>(t >> 11)] * parabola) >> 12;
}

template <class Acc, class Out, class Table, class X>
void softmax(Out *out, Table table, X x, Size outer, Size count, Size inner, int scale, int fraction_bits) {
    for (; outer > 0; --outer, x = x + count * inner, out += count * inner) {
        for (Size i = 0; i < inner; ++i) {
            const Size end = i + count * inner;
            int16_t top = -32768;
            for (Size n = i; n < end; n += inner) top = x[n] > top ? x[n] : top;
            uint32_t total = 0;  // at least 2^19, below 2^31
            for (Size n = i; n < end; n += inner) {
                total += exp_negative(table, static_cast<uint16_t>(static_cast<uint16_t>(top) - static_cast<uint16_t>(x[n])), scale);
            }
#ifndef __AVR__
            if (fraction_bits <= 12) {  // e is at most 2^19, total below 2^31: 32 bits hold all
                for (Size n = i; n < end; n += inner) {
                    const uint32_t e =
                        exp_negative(table, static_cast<uint16_t>(static_cast<uint16_t>(top) - static_cast<uint16_t>(x[n])), scale);
                    out[n] = saturate<Out>(static_cast<int32_t>(((e << fraction_bits) + total / 2) / total));
                }
                continue;
            }
#endif
            for (Size n = i; n < end; n += inner) {
                const uint64_t e =
                    exp_negative(table, static_cast<uint16_t>(static_cast<uint16_t>(top) - static_cast<uint16_t>(x[n])), scale);
                out[n] = requantize<Out>(static_cast<int64_t>(((e << fraction_bits) + total / 2) / total), Const<0>());
            }
        }
    }
}

// The same of rows of bytes, by the exponentials of every distance from the largest; fraction bits are 12 at most
template <class Acc, class Out, class Table, class X>
void softmax_looked_up(Out *out, Table exponentials, X x, Size outer, Size count, int fraction_bits) {
    const auto entry = [&](int distance) { return static_cast<uint32_t>(exponentials[static_cast<Size>(distance)]); };
    for (; outer > 0; --outer, x = x + count, out += count) {
        int top = -128;
#ifndef __AVR__
#pragma GCC unroll 4
#endif
        for (Size n = 0; n < count; ++n) top = x[n] > top ? x[n] : top;
        uint32_t total = 0;  // at least 2^19, below 2^31
#ifndef __AVR__
#pragma GCC unroll 4
#endif
        for (Size n = 0; n < count; ++n) total += entry(top - x[n]);
        const uint32_t half = total / 2;
        const auto part = [&](uint32_t e) { return saturate<Out>(static_cast<int32_t>(((e << fraction_bits) + half) / total)); };
        Size n = 0;
        for (; n + 4 <= count; n += 4) {  // loaded before anything is stored, which might be where they are
            const uint32_t a = entry(top - x[n]), b = entry(top - x[n + 1]), c = entry(top - x[n + 2]), d = entry(top - x[n + 3]);
            out[n] = part(a);
            out[n + 1] = part(b);
            out[n + 2] = part(c);
            out[n + 3] = part(d);
        }
        for (; n < count; ++n) out[n] = part(entry(top - x[n]));
    }
}

}  // namespace hil

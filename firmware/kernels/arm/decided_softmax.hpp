// Softmax of rows of asymmetric bytes, defined in single precision: a table of exponentials and exact sums decide.
#pragma once
#include "firmware/kernels/arm/decided.hpp"
#include "firmware/kernels/common/single_ops.hpp"

namespace hil {

__attribute__((noinline)) inline float single_total(Real32<Ram<int8_t>> x, float top, Size along) {
    float total = 0.0f;
    for (Size n = 0; n < along; ++n) total += single::exp(x[n] - top);
    return total;
}
__attribute__((noinline)) inline int8_t single_part(float distance, float total, const ToAffine &to) {
    return requantize<int8_t>(single::divide(single::exp(distance), total), to);
}

__attribute__((noinline)) inline int largest_code(const int8_t *x, Size count) {
    uint32_t tops = static_cast<uint8_t>(*x) * 0x01010101u;
    const int8_t *const end = x + (count & ~Size(3));
#pragma GCC unroll 4
    for (; x != end; x += 4) tops = larger_bytes(tops, word_at(x));
    if (count & 3) tops = larger_bytes(tops, rest_at(x, count & 3, static_cast<int8_t>(tops)));
    tops = larger_bytes(tops, tops >> 16 | tops << 16);
    return static_cast<int8_t>(larger_bytes(tops, tops >> 8 | tops << 24));
}

// `exponentials`: of -scale * (255 - i) with 30 fraction bits. In float_units, arguments of the floats are wrong by at most 765 of a code's
// worth, their exponentials by 4 more, sums by the number of terms, quotients and units by 2; a result by that share of itself.
template <class Acc, class Table>
void softmax_decided(int8_t *out, Table exponentials, Real32<Ram<int8_t>> x, Size outer, Size along, ToAffine to) {
    constexpr int f = 20;
    constexpr float one = 1048576.0f;
    const float inverse = float_of(to.inverse_bits);
    const float share = float_unit * (2.0f * (765.0f * x.scale + 5.0f) + static_cast<float>(along) + 8.0f);
    for (; outer > 0; --outer, x = x + along, out += along) {
        const int8_t *const codes = x.codes.at;
        const int top = largest_code(codes, along);
        const uint32_t *const table = reinterpret_cast<const uint32_t *>(exponentials.at) + (255 - top);
        uint64_t sum = 0;  // 30 fraction bits
#pragma GCC unroll 4
        for (Size n = 0; n < along; ++n) sum += table[codes[n]];
        float unit = 9.313226e-10f;
        for (; sum >> 32; sum >>= 1) unit += unit;
        const float total = static_cast<float>(static_cast<uint32_t>(sum)) * unit;
        const float units = single::divide(inverse * one, total);  // a result of 1
        const float most = units < 260.0f * one ? units : 260.0f * one;
        const bool is_possible = share < 0.0001f && units < 1000.0f * one;
        const Decided round = is_possible ? decided(f, static_cast<int32_t>(most * share) + 6, to.zero) : undecided(f);
        const uint32_t factor = is_possible ? static_cast<uint32_t>(units) << 2 : 0;
        float exact = 0.0f;
        for (Size n = 0; n < along; ++n) {
            const int32_t t = static_cast<int32_t>((static_cast<uint64_t>(table[codes[n]]) * factor) >> 32) + round.start;
            if (__builtin_expect(static_cast<uint32_t>(t) << (32 - f) <= round.open, 0)) {
                const float largest = x.scale * static_cast<float>(top - x.zero);
                if (exact == 0.0f) exact = single_total(x, largest, along);
                out[n] = single_part(x[n] - largest, exact, to);
            } else {
                out[n] = saturate<int8_t>(static_cast<int32_t>(t >> f));
            }
        }
    }
}

}  // namespace hil

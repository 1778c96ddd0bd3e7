// The batch engine: BATCH samples at once, every tensor an array [element][lane] of decoded numbers.
// Integers as int32, codes of posits, minifloats and fixed32 as the doubles they stand for, IEEE formats as floats.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <vector>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace batch_engine {

constexpr int BATCH = 16;

enum Kind : int64_t { INTS, DOUBLES, FLOATS };
enum Domain : int64_t { INTEGER, CODED, SINGLE };
enum Rule : int64_t { FIXED, POSIT, FLOATING, AFFINE, SIGN };  // how results become numbers of a format

// As TENSOR in search/engine/tables.py declares it. `bits` and `es` are a posit's, `mantissa` and `granule` a float's.
struct Tensor {
    int64_t kind, count, offset, rule, bits, es, mantissa, granule, has_nan, lowest, highest, zero, special;
    double largest, scale, inverse;
};

// As OP declares it. `inputs[i]` is a tensor, or -1 for a constant at `data[i]`: expanded to a batch unless its kernel
// reads scalars. `clipped`: saturations of constants, in every sample alike.
struct Op {
    int64_t kernel, domain, mode, out, count, clipped;
    int64_t inputs[4];
    int64_t data[6];
    int64_t params[24];
    double reals[4];

    template <class T>
    const T *constants(int i) const { return reinterpret_cast<const T *>(data[i]); }
};

inline double power_of_two(int64_t n) { return std::ldexp(1.0, static_cast<int>(std::max<int64_t>(-1070, std::min<int64_t>(n, 1020)))); }
#if defined(__has_builtin)
#if __has_builtin(__builtin_bit_cast)
#define HIL_BIT_CAST  // which vectorizers see through, unlike memcpy
#endif
#endif
#ifdef HIL_BIT_CAST
inline uint64_t bits_of(double value) { return __builtin_bit_cast(uint64_t, value); }
inline double of_bits(uint64_t bits) { return __builtin_bit_cast(double, bits); }
#else
inline uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}
inline double of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
#endif

struct Machine {
    const Tensor *tensors;
    std::vector<uint8_t *> at;
    std::vector<double> buffers[5];  // operands converted for one operation, patches
    int32_t counts[BATCH], tallied[BATCH];
    int64_t block = 0;  // of samples
    void (*by_numpy)(int64_t, uint8_t **, int32_t *) = nullptr;  // operations without a version in batches

    template <class T>
    T *buffer(int slot, size_t elements) {
        const size_t words = elements * BATCH * sizeof(T) / sizeof(double) + 16;
        if (buffers[slot].size() < words) buffers[slot].resize(words);
        return reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(buffers[slot].data()) + 63) & ~uintptr_t(63));
    }

    template <class T>
    T *tensor(int64_t index) { return reinterpret_cast<T *>(at[index]); }

    // Operand i as numbers of type N, [element][lane]: in place if it is stored so.
    template <class N>
    const N *operand(const Op &op, int i) {
        if (op.inputs[i] < 0) return op.constants<N>(i);
        return converted<N>(op.inputs[i], i);
    }

    template <class N>
    const N *converted(int64_t index, int slot);
};

template <class N> struct KindOf;
template <> struct KindOf<int32_t> { static constexpr Kind value = INTS; };
template <> struct KindOf<double> { static constexpr Kind value = DOUBLES; };
template <> struct KindOf<float> { static constexpr Kind value = FLOATS; };
template <> struct KindOf<int64_t> { static constexpr Kind value = static_cast<Kind>(-1); };

template <class N>
const N *Machine::converted(int64_t index, int slot) {
    const Tensor &t = tensors[index];
    if (t.kind == KindOf<N>::value && !(t.kind == DOUBLES && t.special)) return tensor<N>(index);
    const size_t n = t.count * BATCH;
    N *const out = buffer<N>(slot, t.count);
    if (t.kind == INTS) {
        const int32_t *x = tensor<int32_t>(index);
        if (t.rule == AFFINE && std::is_same<N, float>::value) {
            for (size_t k = 0; k < n; ++k) out[k] = static_cast<N>((static_cast<double>(x[k]) - t.zero) * t.scale);
        } else {
            for (size_t k = 0; k < n; ++k) out[k] = static_cast<N>(x[k]);
        }
    } else if (t.kind == DOUBLES) {  // NaR and NaN count as 0 where kernels compute, zeros are positive
        const double *x = tensor<double>(index);
        for (size_t k = 0; k < n; ++k) out[k] = static_cast<N>((x[k] == x[k] ? x[k] : 0.0) + 0.0);
    } else {
        const float *x = tensor<float>(index);
        for (size_t k = 0; k < n; ++k) out[k] = static_cast<N>(x[k]);
    }
    return out;
}

}  // namespace batch_engine

// Evaluates vectors: a message is (case, n, n pairs of u32), its answer n results of u32 and a byte of saturations.
// model/cases.hpp, made by the test, has the table `operation[]` and `dots`: from that case on all pairs are one sum.
#pragma once
#include <stdint.h>

#include "firmware/kernels/kernels.hpp"
#include "firmware/kernels/common/quire.hpp"
#include "firmware/kernels/common/single_functions.hpp"

namespace vectors {

struct Pair {
    uint32_t a, b;
};
using Operation = uint32_t (*)(const Pair *pairs, uint8_t count);

template <class T>
inline T element(uint32_t code) { return T{static_cast<typename T::Code>(code)}; }
template <> inline int8_t element<int8_t>(uint32_t code) { return static_cast<int8_t>(code); }
template <> inline int16_t element<int16_t>(uint32_t code) { return static_cast<int16_t>(code); }
template <> inline int32_t element<int32_t>(uint32_t code) { return static_cast<int32_t>(code); }
template <> inline float element<float>(uint32_t code) { return hil::float_of(code); }

template <class T>
inline uint32_t code(T x) { return static_cast<uint32_t>(x.code) & (0xFFFFFFFF >> (32 - 8 * sizeof x.code)); }
inline uint32_t code(int8_t x) { return static_cast<uint8_t>(x); }
inline uint32_t code(int16_t x) { return static_cast<uint16_t>(x); }
inline uint32_t code(int32_t x) { return static_cast<uint32_t>(x); }
inline uint32_t code(float x) { return x != x ? 0x7FC00000 : hil::bits_of(x); }

template <class Acc, class A, class B, class Out, int Shift>
uint32_t add(const Pair *p, uint8_t) {
    using Number = typename hil::Working<Acc, Out, A, B>::type;
    const Number sum = static_cast<Number>(static_cast<Number>(element<A>(p->a)) + static_cast<Number>(element<B>(p->b)));
    return code(hil::requantize<Out>(sum, hil::Const<Shift>()));
}

template <class Acc, class A, class B, class Out, int Shift>
uint32_t multiply(const Pair *p, uint8_t) {
    using Number = typename hil::Working<Acc, Out, A, B>::type;
    return code(hil::requantize<Out>(hil::Multiply<Number>::of(element<A>(p->a), element<B>(p->b)), hil::Const<Shift>()));
}

template <class Acc, class A, class Out, int Shift>
uint32_t convert(const Pair *p, uint8_t) {
    return code(hil::requantize<Out>(static_cast<Acc>(element<A>(p->a)), static_cast<int>(Shift)));
}

template <class Acc, class A, class B>
uint32_t compare(const Pair *p, uint8_t) {
    const Acc a = static_cast<Acc>(element<A>(p->a)), b = static_cast<Acc>(element<B>(p->b));
    return (a < b) | (a <= b) << 1 | (a == b) << 2 | (a >= b) << 3 | (a > b) << 4 | (a != b) << 5;
}

template <class Acc, class A, class B, class Out, int Shift>
uint32_t dot(const Pair *p, uint8_t count) {
    A a[16] = {};
    B b[16] = {};
    for (uint8_t i = 0; i < count; ++i) {
        a[i] = element<A>(p[i].a);
        b[i] = element<B>(p[i].b);
    }
    Acc sum = hil::Start<Acc>::of(a[0], hil::Const<2>());
    hil::accumulate(sum, hil::ram(a), hil::ram(b), count);
    return code(hil::requantize<Out>(sum, hil::Const<Shift>()));
}

template <float (*F)(float)>
uint32_t function(const Pair *p, uint8_t) { return code(F(hil::float_of(p->a))); }

// What the compiler makes of them: on chips without an FPU library calls
inline float plus(float a, float b) { return a + b; }
inline float times(float a, float b) { return a * b; }

// a * 2^b, b a whole number from -252 to 253
inline float times_power(float a, float b) { return hil::scaled(a, static_cast<int>(b)); }

template <float (*F)(float, float)>
uint32_t function2(const Pair *p, uint8_t) { return code(F(hil::float_of(p->a), hil::float_of(p->b))); }

// Asymmetric integers: p->a times the multiplier p->b. A product has its two factors in the halves of p->a.
template <int Shift>
uint32_t rescaled(const Pair *p, uint8_t) { return code(hil::rescale(element<int32_t>(p->a), element<int32_t>(p->b), Shift)); }
template <int Shift>
uint32_t rescaled_once(const Pair *p, uint8_t) {
    return code(hil::rescale_once(element<int32_t>(p->a), element<int32_t>(p->b), Shift));
}
template <int Shift>
uint32_t rescaled_lifted(const Pair *p, uint8_t) {
    return code(hil::rescale_lifted(element<int16_t>(p->a), element<int32_t>(p->b), hil::Const<Shift>()));
}
template <int Shift>
uint32_t rescaled_sum(const Pair *p, uint8_t) {
    return code(static_cast<int32_t>(hil::rescale_sum(element<int32_t>(p->a), element<int32_t>(p->b), hil::Const<Shift>())));
}
template <int Shift>
uint32_t rescaled_product(const Pair *p, uint8_t) {
    const int16_t left = element<int16_t>(p->a), right = element<int16_t>(p->a >> 16);
    return code(static_cast<int32_t>(hil::rescale_product(left, right, element<int32_t>(p->b), hil::Const<Shift>())));
}
// a + b or a - b of the two bytes of p->a
template <class Sum>
uint32_t code_sum(const Pair *p, uint8_t) {
    return code(Sum::template of<int8_t>(element<int8_t>(p->a), element<int8_t>(p->a >> 8)));
}

void answer(uint32_t result, uint8_t saturations);
void respond(uint8_t index, const Pair *pairs, uint8_t count);

}  // namespace vectors

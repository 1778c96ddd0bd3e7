// Fourier transforms in fixed point, stage by stage in place (tinyhil/ops/fourier.py).
#pragma once
#include "firmware/kernels/common/memory.hpp"

namespace hil {

template <class T>
struct Fraction;
template <>
struct Fraction<int16_t> {
    using Wide = int32_t;
    static constexpr int bits = 15;
};
template <>
struct Fraction<int32_t> {
    using Wide = int64_t;
    static constexpr int bits = 31;
};

// Numbers of sample width T: sums wrap, products are rounded once. Twiddles are below 2^bits, so sums of two products fit Wide.
template <class T>
struct Complex {
    using Wide = typename Fraction<T>::Wide;
    T re, im;

    static T wrap(Wide x) { return static_cast<T>(x); }
    static T rounded(Wide x) { return wrap((x + (Wide(1) << (Fraction<T>::bits - 1))) >> Fraction<T>::bits); }
    static Complex of(Wide re, Wide im) { return {wrap(re), wrap(im)}; }
    Complex operator+(Complex b) const { return of(Wide(re) + b.re, Wide(im) + b.im); }
    Complex operator-(Complex b) const { return of(Wide(re) - b.re, Wide(im) - b.im); }
    Complex operator*(Complex b) const { return {rounded(Wide(re) * b.re - Wide(im) * b.im), rounded(Wide(re) * b.im + Wide(im) * b.re)}; }
    Complex by(T factor) const { return {rounded(Wide(re) * factor), rounded(Wide(im) * factor)}; }
    Complex part(int count) const { return by(static_cast<T>(((Wide(1) << Fraction<T>::bits) - 1) / count)); }
    Complex conjugate() const { return of(re, -Wide(im)); }
    Complex turned(int sign) const { return sign < 0 ? of(im, -Wide(re)) : of(-Wide(im), re); }
    Complex half() const { return {static_cast<T>(re >> 1), static_cast<T>(im >> 1)}; }
};

template <class T, class Table>
inline Complex<T> complex_at(Table table, Size n) {
    return {static_cast<T>(table[2 * n]), static_cast<T>(table[2 * n + 1])};
}

// One butterfly of `radix` points, `size` apart, whose twiddles are `step` apart
template <class T, class Table>
inline void butterfly(Complex<T> *x, int radix, Size size, Table turns, Size step, int sign, T third) {
    const Complex<T> a = x[0].part(radix), b = x[size].part(radix) * complex_at<T>(turns, step);
    if (radix == 2) {
        x[0] = a + b;
        x[size] = a - b;
        return;
    }
    const Complex<T> c = x[2 * size].part(radix) * complex_at<T>(turns, 2 * step);
    if (radix == 3) {
        const Complex<T> plus = b + c, middle = a - plus.half(), side = (b - c).by(third).turned(1);
        x[0] = a + plus;
        x[size] = middle + side;
        x[2 * size] = middle - side;
        return;
    }
    const Complex<T> d = x[3 * size].part(radix) * complex_at<T>(turns, 3 * step);
    const Complex<T> even = a + c, odd = a - c, plus = b + d, quarter = (b - d).turned(sign);
    x[0] = even + plus;
    x[size] = odd + quarter;
    x[2 * size] = even - plus;
    x[3 * size] = odd - quarter;
}

// All stages over points that are in their order
template <class T, class Stages, class Table>
inline void transform(Complex<T> *x, Size points, Stages stages, Table turns, int sign) {
    for (Size at = 0; stages[at] != 0; at += 3) {
        const int radix = stages[at];
        const Size size = stages[at + 1], stride = stages[at + 2];
        const T third = radix == 3 ? static_cast<T>(turns[2 * stride * size + 1]) : T(0);
        for (Size block = 0; block < points; block += radix * size) {
            for (Size n = 0; n < size; ++n) butterfly(x + block + n, radix, size, turns, n * stride, sign, third);
        }
    }
}

// Halves of z[k] and of the conjugate of z[half - k], of which spectrum and signal are made
template <class T>
struct Halves {
    Complex<T> plus, minus;
    Halves(Complex<T> there, Complex<T> back) {
        const Complex<T> a = there.part(2), b = back.conjugate().part(2);
        plus = a + b;
        minus = a - b;
    }
};

template <class Acc, class T, class S, class O, class W, class A, class X>
void whole_rfft(T *result, S stages, O order, W turns, A apart, X x, Size rows, Size given, Size length, int) {
    using Wide = typename Fraction<T>::Wide;
    const Size half = length / 2;
    for (; rows > 0; --rows, x = x + given, result += length + 2) {
        Complex<T> *out = reinterpret_cast<Complex<T> *>(result);
        for (Size n = 0; n < half; ++n) {
            const Size at = 2 * static_cast<Size>(order[n]);
            out[n] = {static_cast<T>(at < given ? x[at] : 0), static_cast<T>(at + 1 < given ? x[at + 1] : 0)};
        }
        transform(out, half, stages, turns, -1);
        const Complex<T> first = out[0].part(2);
        out[0] = {Complex<T>::wrap(Wide(first.re) + first.im), 0};
        out[half] = {Complex<T>::wrap(Wide(first.re) - first.im), 0};
        for (Size k = 1; k <= half / 2; ++k) {
            const Halves<T> z(out[k], out[half - k]);
            const Complex<T> turned = z.minus * complex_at<T>(apart, k - 1);
            out[k] = Complex<T>::of((Wide(z.plus.re) + turned.re) >> 1, (Wide(z.plus.im) + turned.im) >> 1);
            out[half - k] = Complex<T>::of((Wide(z.plus.re) - turned.re) >> 1, (Wide(turned.im) - z.plus.im) >> 1);
        }
    }
}

template <class Acc, class T, class S, class O, class W, class A, class X>
void whole_irfft(T *result, S stages, O order, W turns, A apart, X x, Size rows, Size, Size length, int) {
    using Wide = typename Fraction<T>::Wide;
    const Size half = length / 2;
    for (; rows > 0; --rows, x = x + (length + 2), result += length) {
        Complex<T> *out = reinterpret_cast<Complex<T> *>(result);
        for (Size n = 0; n < half; ++n) {
            const Size k = order[n], low = k <= half / 2 ? k : half - k;
            if (k == 0) {
                out[n] = Complex<T>::of(Wide(x[0]) + x[2 * half], Wide(x[0]) - x[2 * half]).part(2);
                continue;
            }
            const Halves<T> z(complex_at<T>(x, low), complex_at<T>(x, half - low));
            const Complex<T> turned = z.minus * complex_at<T>(apart, low - 1);
            // in the middle, where both are one, the second is what stays
            out[n] = k < half - k ? z.plus + turned : (z.plus - turned).conjugate();
        }
        transform(out, half, stages, turns, 1);
    }
}

}  // namespace hil

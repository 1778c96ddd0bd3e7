// Transposed convolution and linear interpolation (tinyhil/ops/upsample.py).
#pragma once
#include "firmware/kernels/common/quire.hpp"
#include "firmware/kernels/common/window.hpp"

namespace hil {

// The taps of one axis that fall on an input: kernel positions first, first + step, ... < end; the first of them on input
// `at`, each next one on the input before it.
struct Taps { Size first, step, at, count; };

// y + pad = at * stride + k * dilation with 0 <= at < size, 0 <= k < kernel
inline Taps taps(Size y, Size pad, Size stride, Size dilation, Size kernel, Size size) {
    Taps found = {0, 0, 0, 0};
    const Size target = y + pad;
    for (Size k = 0; k < kernel && k * dilation <= target; ++k) {
        const Size rest = target - k * dilation;
        if (rest % stride != 0 || rest / stride >= size) continue;
        if (found.count == 0) {
            found.first = k;
            found.at = rest / stride;
        } else if (found.count == 1) {
            found.step = k - found.first;
        }
        ++found.count;
    }
    return found;
}

template <class Acc, class Out, class W, class X, class B, class Shift, class BiasShift>
void conv_transpose(Out *out, W weights, X x, B bias, const Window &w, Size groups, Size outputs, Shift shift, BiasShift bias_shift) {
    const Size channels = w.channels / groups, plane = w.height * w.width, kernel = w.kernel_y * w.kernel_x;
    for (Size n = 0; n < outputs; ++n, weights = weights + channels * kernel) {
        const X planes = x + (n / (outputs / groups)) * channels * plane;
        for (Size y = 0; y < w.out_height; ++y) {
            const Taps down = taps(y, w.pad_y, w.stride_y, w.dilation_y, w.kernel_y, w.height);
            for (Size column = 0; column < w.out_width; ++column) {
                const Taps across = taps(column, w.pad_x, w.stride_x, w.dilation_x, w.kernel_x, w.width);
                Acc sum = Start<Acc>::of(bias[n], bias_shift);
                sum += Acc(0);  // -0.0 becomes 0.0
                const Size back = across.step * w.dilation_x / w.stride_x, up = down.step * w.dilation_y / w.stride_y;
                for (Size c = 0; c < channels; ++c) {
                    for (Size i = 0; i < down.count; ++i) {
                        Size at = c * plane + (down.at - i * up) * w.width + across.at;
                        Size tap = c * kernel + (down.first + i * down.step) * w.kernel_x + across.first;
                        for (Size j = 0; j < across.count; ++j, at -= back, tap += across.step) {
                            sum += Multiply<Acc>::of(weights[tap], planes[at]);
                        }
                    }
                }
                *out++ = requantize<Out>(sum, shift);
            }
        }
    }
}

template <class Acc, class Out, class Table, class X, class Shift>
void interpolate(Out *out, Table positions, X x, Size outer, Size chosen, Size size, Size inner, Shift shift) {
    for (; outer > 0; --outer, x = x + size * inner) {
        for (Size n = 0; n < chosen; ++n) {
            const Size low = positions[2 * n];
            const int32_t weight = positions[2 * n + 1], rest = 32768 - weight;
            const X row = x + low * inner, next = low + 1 < size ? row + inner : row;
            for (Size i = 0; i < inner; ++i) {
                Acc sum = Multiply<Acc>::of(row[i], rest);
                sum += Multiply<Acc>::of(next[i], weight);
                *out++ = requantize<Out>(sum, shift);
            }
        }
    }
}

}  // namespace hil

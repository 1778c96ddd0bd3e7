// The largest byte of windows of at most four columns: rows are compared four bytes at a time.
#pragma once
#include "firmware/kernels/arm/decided.hpp"
#include "firmware/kernels/common/affine.hpp"
#include "firmware/kernels/common/pool.hpp"

namespace hil {

// `use(out, largest)` for every window of at most four columns: rows are compared four bytes at a time
template <class Out, class Use>
__attribute__((always_inline)) inline void each_largest_byte(Out *out, const int8_t *x, const Window &w, Use use) {
    const int height = w.height, width = w.width, kernel_y = w.kernel_y, kernel_x = w.kernel_x, stride_x = w.stride_x,
              stride_y = w.stride_y, pad_x = w.pad_x, pad_y = w.pad_y;
    const Size rows = w.out_height, columns = w.out_width;
    const int8_t *const end = x + w.channels * w.height * w.width;
    for (Size c = w.channels; c > 0; --c, x += height * width) {
        int top = -pad_y;
        for (Size r = 0; r < rows; ++r, top += stride_y) {
            const int first = top < 0 ? 0 : top, last = top + kernel_y > height ? height : top + kernel_y;
            const int8_t *const row = x + first * width;
            const int below = last - first - 1;
            int left = -pad_x;
            for (Size k = 0; k < columns; ++k, left += stride_x, ++out) {
                int count = kernel_x, at = left;
                if (at < 0) {
                    count += at;
                    at = 0;
                }
                if (at + count > width) count = width - at;
                const int8_t *p = row + at;
                uint32_t tops;
                if (__builtin_expect(p + below * width + 4 <= end, 1)) {
                    tops = word_at(p);
                    for (int n = below; n > 0; --n) {
                        p += width;
                        tops = larger_bytes(tops, word_at(p));
                    }
                } else {
                    tops = rest_at(p, static_cast<Size>(count), -128);
                    for (int n = below; n > 0; --n) {
                        p += width;
                        tops = larger_bytes(tops, rest_at(p, static_cast<Size>(count), -128));
                    }
                }
                uint32_t found = tops;
                if (count > 1) found = larger_bytes(found, tops >> 8);
                if (count > 2) found = larger_bytes(found, tops >> 16);
                if (count > 3) found = larger_bytes(found, tops >> 24);
                use(out, static_cast<int8_t>(found));
            }
        }
    }
}
inline bool has_narrow_windows(const Window &w) {
    return w.kernel_x <= 4 && w.dilation_x == 1 && w.dilation_y == 1 && w.pad_x < w.kernel_x && w.pad_y < w.kernel_y &&
        (w.out_height - 1) * w.stride_y < w.height + w.pad_y && (w.out_width - 1) * w.stride_x < w.width + w.pad_x && !is_two_by_two(w);
}
template <class Acc>
void max_pool_codes(int8_t *out, Ram<int8_t> x, const Window &w) {
    if (!has_narrow_windows(w)) return max_pool_codes<Acc, int8_t, Ram<int8_t>>(out, x, w);
    each_largest_byte(out, x.at, w, [](int8_t *at, int8_t top) { *at = top; });
}
template <class Acc, class Out, class Shift>
void max_pool(Out *out, Ram<int8_t> x, const Window &w, Shift shift) {
    if (!has_narrow_windows(w)) return max_pool<Acc, Out, Ram<int8_t>, Shift>(out, x, w, shift);
    each_largest_byte(out, x.at, w, [&](Out *at, int8_t top) { *at = requantize<Out>(static_cast<Acc>(top), shift); });
}

}  // namespace hil
// Sliding windows (tinyhil/ops/window.py): planes of one sample in NCHW order.
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// Rows, columns and pads of a window; a plane has at most 32767 elements on AVR, so 16 bits hold every product below.
struct Window {
    Size channels, height, width, out_height, out_width, kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
#ifdef __AVR__  // where a constant of many fields would be copied from RAM: a constructor writes each as it is
    Window(Size channels_, Size height_, Size width_, Size out_height_, Size out_width_, Size kernel_y_, Size kernel_x_, Size stride_y_,
           Size stride_x_, Size pad_y_, Size pad_x_, Size dilation_y_, Size dilation_x_)
        : channels(channels_), height(height_), width(width_), out_height(out_height_), out_width(out_width_), kernel_y(kernel_y_),
          kernel_x(kernel_x_), stride_y(stride_y_), stride_x(stride_x_), pad_y(pad_y_), pad_x(pad_x_), dilation_y(dilation_y_),
          dilation_x(dilation_x_) {}
#endif
};

// A window over planes of which only some rows may be there: row y of a plane is at slot y % ring. Distances in elements
// between the channels and between the slots of operand and result.
struct RowWindow {
    Window window;
    Size x_plane, x_row, x_ring, out_plane, out_row, out_ring;
#ifdef __AVR__
    RowWindow(const Window &w, Size x_plane_, Size x_row_, Size x_ring_, Size out_plane_, Size out_row_, Size out_ring_)
        : window(w), x_plane(x_plane_), x_row(x_row_), x_ring(x_ring_), out_plane(out_plane_), out_row(out_row_), out_ring(out_ring_) {}
    RowWindow(Size channels_, Size height_, Size width_, Size out_height_, Size out_width_, Size kernel_y_, Size kernel_x_, Size stride_y_,
              Size stride_x_, Size pad_y_, Size pad_x_, Size dilation_y_, Size dilation_x_, Size x_plane_, Size x_row_, Size x_ring_,
              Size out_plane_, Size out_row_, Size out_ring_)
        : window(channels_, height_, width_, out_height_, out_width_, kernel_y_, kernel_x_, stride_y_, stride_x_, pad_y_, pad_x_,
                 dilation_y_, dilation_x_),
          x_plane(x_plane_), x_row(x_row_), x_ring(x_ring_), out_plane(out_plane_), out_row(out_row_), out_ring(out_ring_) {}
#endif
};
// y % ring: an AVR divides for longer than it subtracts as often as a line buffer goes into a plane.
inline Size slot_of(Size y, Size ring) {
#ifdef __AVR__
    while (y >= ring) y -= ring;
    return y;
#else
    return y < ring ? y : y % ring;  // whole planes are not divided
#endif
}
// Whole planes: every row is at its own slot.
inline RowWindow whole(const Window &w) {
    return {w, w.height * w.width, w.width, w.height, w.out_height * w.out_width, w.out_width, w.out_height};
}

#ifdef __AVR__
using Position = int16_t;
#else
using Position = int32_t;
#endif

// The part of one axis of a window that lies inside of the plane: kernel positions [first, end), the first of them at
// plane position `at`.
struct Span {
    Size first, end;
    Position at;
};

// `origin`: plane position of kernel position 0, negative where the window hangs over in front
inline Span inside(Position origin, Size kernel, Size dilation, Size size) {
    Span span = {0, kernel, origin};
    for (; span.at < 0 && span.first < kernel; ++span.first) span.at = static_cast<Position>(span.at + dilation);
    Position last = static_cast<Position>(origin + (kernel - 1) * dilation);
    for (; last >= static_cast<Position>(size) && span.end > span.first; --span.end) { last = static_cast<Position>(last - dilation); }
    return span;
}

inline Position origin(Size index, Size stride, Size pad) { return static_cast<Position>(index * stride) - static_cast<Position>(pad); }

}  // namespace hil

// Layers of fixed point with a scale per output channel (tinyhil/ops/channels.py).
#pragma once
#include "firmware/kernels/common/rows.hpp"

namespace hil {

// The shift of each output channel, in the place of a kernel's shift
template <class Shifts>
struct ChannelShifts {
    Shifts shifts;
};
template <class S>
inline int of_channel(const ChannelShifts<S> &c, Size n) {
    return c.shifts[n];
}
template <class S>
inline ChannelShifts<S> from_channel(const ChannelShifts<S> &c, Size n) {
    return {c.shifts + n};
}

template <class Acc, class Out, class W, class X, class B, class S>
void dense_channels(Out *out, W weights, X x, B bias, S shifts, Size rows, Size outputs, Size inner) {
    dense_bias<Acc>(out, weights, x, bias, rows, outputs, inner, ChannelShifts<S>{shifts}, Const<0>());
}

template <class Acc, class Out, class T, class W, class X, class B, class S>
HIL_PER_LAYER void conv_channels(Out *out, T *patch, W weights, X x, B bias, S shifts, const Window &w, Size groups, Size outputs) {
    convolve<Acc>(out, patch, weights, x, bias, w, groups, outputs, ChannelShifts<S>{shifts}, Const<0>());
}

template <class Acc, class Out, class T, class Rows, class W, class X, class B, class S, class Y>
HIL_PER_LAYER void conv_channels_rows(Out *out, T *patch, Rows rows, W weights, X x, B bias, S shifts, Y, const RowWindow &l, Size groups,
                                      Size outputs) {
    convolve_rows<Acc>(out, patch, rows, weights, x, bias, l, groups, outputs, ChannelShifts<S>{shifts}, Const<0>());
}

}  // namespace hil

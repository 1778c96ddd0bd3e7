// Dot products with an exact accumulator. The generic loop defines the result; chip versions are held to the same bits.
#pragma once
#include "firmware/kernels/numeric.hpp"

namespace hil {

template <class Acc, class A, class B>
inline void accumulate(Acc &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += static_cast<Acc>(a[i]) * b[i];
}

}  // namespace hil

#ifdef __AVR__
#include "firmware/kernels/dot_avr.hpp"
#endif

// Dot products of coded formats on the ATmega.
#pragma once
#include "firmware/kernels/quire.hpp"

namespace hil {

template <int Bits, int Low, int Guard, class A, class B>
inline void accumulate(Quire<Bits, Low, Guard> &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += Multiply<Quire<Bits, Low, Guard>>::of(a[i], b[i]);
}

}  // namespace hil

// Numbers known at compile time, and what each of them is called in generated calls.
#pragma once
#include <stdint.h>

namespace hil {

// A number known at compile time, passed like a value: shifts by a variable cost an AVR a loop.
template <int N>
struct Const {
    constexpr operator int() const { return N; }
};

// The same for numbers of 32 bits, which an int of the AVR does not hold
template <int32_t N>
struct LongConst {
    constexpr operator int32_t() const { return N; }
};

// What such a number is to a kernel: by these names generated calls pass them (codegen/kernel_calls.py).
template <int N>
using ALift = Const<N>;
template <int32_t N>
using AMultiplier = LongConst<N>;
template <int N>
using APeriod = Const<N>;
template <int N>
using APower = Const<N>;
template <int N>
using AShift = Const<N>;
template <int N>
using AZero = Const<N>;
template <int N>
using AddShift = Const<N>;
template <int N>
using BLift = Const<N>;
template <int32_t N>
using BMultiplier = LongConst<N>;
template <int N>
using BPeriod = Const<N>;
template <int N>
using BPower = Const<N>;
template <int N>
using BShift = Const<N>;
template <int N>
using BZero = Const<N>;
template <int N>
using Base = Const<N>;
template <int N>
using BiasShift = Const<N>;
template <int N>
using By = Const<N>;
template <int N>
using CPeriod = Const<N>;
template <int N>
using Centre = Const<N>;
template <int N>
using Count = Const<N>;
template <int N>
using Doubled = Const<N>;
template <int N>
using Drop = Const<N>;
template <int N>
using FractionBits = Const<N>;
template <int N>
using HLift = Const<N>;
template <int N>
using Highest = Const<N>;
template <int N>
using Largest = Const<N>;
template <int N>
using Least = Const<N>;
template <int N>
using Lift = Const<N>;
template <int N>
using Line = Const<N>;
template <int N>
using Lowest = Const<N>;
template <int N>
using Mask = Const<N>;
template <int N>
using Mean = Const<N>;
template <int N>
using Mode = Const<N>;
template <int N>
using Most = Const<N>;
template <int32_t N>
using Multiplier = LongConst<N>;
template <int32_t N>
using OMultiplier = LongConst<N>;
template <int N>
using OShift = Const<N>;
template <int N>
using OneShift = Const<N>;
template <int N>
using Pad = Const<N>;
template <int N>
using Quotient = Const<N>;
template <int N>
using Right = Const<N>;
template <int N>
using Steps = Const<N>;
template <int32_t N>
using Slope = LongConst<N>;
template <int N>
using ToPower = Const<N>;
template <int N>
using Shift = Const<N>;
template <int N>
using Sign = Const<N>;
template <int N>
using Truncates = Const<N>;
template <int N>
using Varies = Const<N>;
template <int N>
using XLift = Const<N>;
template <int N>
using XZero = Const<N>;
template <int N>
using Zero = Const<N>;

}  // namespace hil

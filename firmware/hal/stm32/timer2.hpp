// The cycle counter of an STM32 whose core has none: TIM2 of 32 bits at the core's clock. A tag is left in a compare register
// of a channel that is off, where a debugger, or an emulator, sees it. The chip's init() has opened the timer's gate.
#pragma once
#include "firmware/hal/cortexm/reg.hpp"

namespace counter {

constexpr uint32_t TIM2_CR1 = 0x40000000, TIM2_CNT = 0x40000024, TIM2_ARR = 0x4000002C, TIM2_CCR4 = 0x40000040;

inline uint32_t read() { return cortexm::reg(TIM2_CNT); }

inline void publish(uint32_t tag) { cortexm::reg(TIM2_CCR4) = tag; }

inline void start() {
    cortexm::reg(TIM2_ARR) = ~0u;
    cortexm::reg(TIM2_CNT) = 0;
    cortexm::reg(TIM2_CR1) = 1u;
}

}  // namespace counter

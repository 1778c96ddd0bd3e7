// The cycle counter of a Cortex-M3 and up, and the port of its tracer: what sections.cpp counts with.
#pragma once
#include "firmware/hal/cortexm/reg.hpp"

namespace counter {

inline uint32_t read() { return cortexm::reg(cortexm::DWT_CYCCNT); }

// Without a tracer the port is disabled and ignores the write; neither case waits.
inline void publish(uint32_t tag) { cortexm::reg(cortexm::ITM_STIM0) = tag; }

inline void start() {
    using namespace cortexm;
    constexpr uint32_t trace_enable = 1u << 24, unlock = 0xC5ACCE55;
    reg(DEMCR) |= trace_enable;
    reg(DWT_LAR) = unlock;  // the Cortex-M7 starts with the DWT locked; the M3 ignores this
    reg(DWT_CYCCNT) = 0;
    reg(DWT_CTRL) |= 1u;
}

}  // namespace counter

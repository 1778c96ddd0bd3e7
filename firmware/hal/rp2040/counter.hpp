// The cycle counter of an RP2040, whose core has none: SysTick counts 24 bits of cycles, the timer says in microseconds which of
// its turns it is in; both come from the crystal. A tag is left in a scratch register of the watchdog, where an emulator sees it.
#pragma once
#include "firmware/hal/cortexm/reg.hpp"

namespace counter {

constexpr uint32_t SYST_CSR = 0xE000E010, SYST_RVR = 0xE000E014, SYST_CVR = 0xE000E018, TURN = 0xFFFFFF;
constexpr uint32_t TIMERAWL = 0x40054028, WATCHDOG_SCRATCH0 = 0x4005800C;

static uint32_t phase;  // cycles of SysTick less those of the timer, when both were started

// The difference of the two is `phase` within a few hundred cycles; SysTick turns over after 16.8 million, the result after 2^32.
inline uint32_t read() {
    const uint32_t fine = TURN - cortexm::reg(SYST_CVR), coarse = cortexm::reg(TIMERAWL) * (F_CPU / 1000000);
    const int32_t ahead = static_cast<int32_t>((fine - coarse - phase) << 8) >> 8;
    return coarse + static_cast<uint32_t>(ahead);
}

inline void publish(uint32_t tag) { cortexm::reg(WATCHDOG_SCRATCH0) = tag; }

inline void start() {
    constexpr uint32_t enable = 1u << 0, core_clock = 1u << 2;
    cortexm::reg(SYST_RVR) = TURN;
    cortexm::reg(SYST_CVR) = 0;
    cortexm::reg(SYST_CSR) = enable | core_clock;
    phase = 0;
    phase = read();
}

}  // namespace counter

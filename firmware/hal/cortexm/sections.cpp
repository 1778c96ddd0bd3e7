// Timed sections on DWT CYCCNT, published on ITM stimulus port 0, and the interrupt lock.
#include "firmware/hal/cortexm/sections.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/hal.hpp"

using cortexm::reg;

namespace {

constexpr uint32_t CALIBRATION_TAG = 0x7FFFFFFF, END_OF_SECTION = 0x80000000;

uint32_t open_tag, started, empty_section_cycles;

// A call of its own: an emulator that counts by basic blocks then sees the read at a fixed place.
__attribute__((noinline)) uint32_t cycle_count() { return reg(cortexm::DWT_CYCCNT); }

// Without a tracer the port is disabled and ignores the write; neither case waits.
void publish(uint32_t tag) { reg(cortexm::ITM_STIM0) = tag; }

}  // namespace

namespace cortexm {

void init_sections() {
    constexpr uint32_t trace_enable = 1u << 24, unlock = 0xC5ACCE55;
    reg(DEMCR) |= trace_enable;
    reg(DWT_LAR) = unlock;  // the Cortex-M7 starts with the DWT locked; the M3 ignores this
    reg(DWT_CYCCNT) = 0;
    reg(DWT_CTRL) |= 1u;
    empty_section_cycles = 0;
    // The first empty section fills caches and flash buffers, the second is the cost.
    for (int run = 0; run < 2; ++run) {
        hal::section_begin(CALIBRATION_TAG);
        const uint32_t cycles = hal::section_end();
        if (run == 1) empty_section_cycles = cycles;
    }
}

}  // namespace cortexm

__attribute__((noinline)) void hal::section_begin(uint32_t tag) {
    open_tag = tag;
    publish(tag);
    started = cycle_count();
}

__attribute__((noinline)) uint32_t hal::section_end() {
    const uint32_t cycles = cycle_count() - started;
    publish(open_tag | END_OF_SECTION);
    return cycles > empty_section_cycles ? cycles - empty_section_cycles : 0;
}

uint32_t hal::ticks() { return cycle_count(); }

#include "firmware/hal/cortexm/lock.cpp"

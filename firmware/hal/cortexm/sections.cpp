// Timed sections on the cycle counter that the chip names (HIL_COUNTER; else the core's own), and the interrupt lock.
#include "firmware/hal/cortexm/sections.hpp"

#ifndef HIL_COUNTER
#define HIL_COUNTER "firmware/hal/cortexm/dwt.hpp"
#endif
#include HIL_COUNTER
#include "firmware/hal/hal.hpp"

#ifndef HIL_KEEP_LOOP
#define HIL_KEEP_LOOP(runs)
#endif

namespace {

constexpr uint32_t CALIBRATION_TAG = 0x7FFFFFFF, END_OF_SECTION = 0x80000000;

uint32_t open_tag, started, empty_section_cycles;

// A call of its own: an emulator that counts by basic blocks then sees the read at a fixed place.
__attribute__((noinline)) uint32_t cycle_count() { return counter::read(); }

}  // namespace

namespace cortexm {

void init_sections() {
    counter::start();
    empty_section_cycles = 0;
    // The first empty section fills caches and flash buffers, the second is the cost.
    int runs = 2;
    HIL_KEEP_LOOP(runs);
    for (int run = 0; run < runs; ++run) {
        hal::section_begin(CALIBRATION_TAG);
        const uint32_t cycles = hal::section_end();
        if (run == 1) empty_section_cycles = cycles;
    }
}

}  // namespace cortexm

__attribute__((noinline)) void hal::section_begin(uint32_t tag) {
    open_tag = tag;
    counter::publish(tag);
    started = cycle_count();
}

__attribute__((noinline)) uint32_t hal::section_end() {
    const uint32_t cycles = cycle_count() - started;
    counter::publish(open_tag | END_OF_SECTION);
    return cycles > empty_section_cycles ? cycles - empty_section_cycles : 0;
}

uint32_t hal::ticks() { return cycle_count(); }

#include "firmware/hal/cortexm/lock.cpp"

// Pins that follow inferences, on any Cortex-M: HIL_GATE_PORT (0: port A) and HIL_GATE_PIN, HIL_PULSE_PORT and HIL_PULSE_PIN.
// Included once by a chip, after its own pins::set() and pins::make_output(), both of (port, pin, high).
#pragma once
#include "firmware/hal/hal.hpp"

namespace pins {

// Called by hal::init().
inline void start() {
#ifdef HIL_GATE_PORT
    make_output(HIL_GATE_PORT, HIL_GATE_PIN, false);
#endif
#ifdef HIL_PULSE_PORT
    make_output(HIL_PULSE_PORT, HIL_PULSE_PIN, true);
#endif
}

}  // namespace pins

#ifdef HIL_GATE_PORT
void hal::gate(bool high) { pins::set(HIL_GATE_PORT, HIL_GATE_PIN, high); }
#endif

#ifdef HIL_PULSE_PORT
// Two microseconds by the cycle counter: longer than the one that is asked for, whatever the clock.
void hal::pulse() {
    const uint32_t began = hal::ticks();
    pins::set(HIL_PULSE_PORT, HIL_PULSE_PIN, false);
    while (hal::ticks() - began < 2 * (F_CPU / 1000000)) {}
    pins::set(HIL_PULSE_PORT, HIL_PULSE_PIN, true);
}
#endif

// Pins that follow inferences, on any STM32: HIL_GATE_PORT (0: port A) and HIL_GATE_PIN, HIL_PULSE_PORT and HIL_PULSE_PIN.
// A chip's hal.cpp includes it once and says where: pins::GPIOA, pins::PORT_GATES (register of the ports' clock gates).
#pragma once
#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/hal.hpp"
#include "firmware/hal/stm32/usart.hpp"

namespace pins {

constexpr uint32_t PORT_BYTES = 0x400, MODER = 0x00, OSPEEDR = 0x08, BSRR = 0x18;

inline void set(uint32_t port, uint32_t pin, bool high) {
    cortexm::reg(GPIOA + port * PORT_BYTES + BSRR) = 1u << (high ? pin : pin + 16);
}

inline void make_output(uint32_t port, uint32_t pin, bool high) {
    usart::open_gate(PORT_GATES, port);
    set(port, pin, high);
    usart::set_field(GPIOA + port * PORT_BYTES + OSPEEDR, 2 * pin, 2, 2);
    usart::set_field(GPIOA + port * PORT_BYTES + MODER, 2 * pin, 2, 1);
}

// Called by hal::init().
void start() {
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
    while (hal::ticks() - began < 2 * (F_CPU / 1000000)) {
    }
    pins::set(HIL_PULSE_PORT, HIL_PULSE_PIN, true);
}
#endif

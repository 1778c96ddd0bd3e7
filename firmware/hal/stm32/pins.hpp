// Pins that follow inferences, on any STM32.
// A chip's hal.cpp includes it once and says where: pins::GPIOA, pins::PORT_GATES (register of the ports' clock gates).
#pragma once
#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/stm32/usart.hpp"

namespace pins {

constexpr uint32_t PORT_BYTES = 0x400, MODER = 0x00, OSPEEDR = 0x08, BSRR = 0x18;

inline void set(uint32_t port, uint32_t pin, bool high) { cortexm::reg(GPIOA + port * PORT_BYTES + BSRR) = 1u << (high ? pin : pin + 16); }

inline void make_output(uint32_t port, uint32_t pin, bool high) {
    usart::open_gate(PORT_GATES, port);
    set(port, pin, high);
    usart::set_field(GPIOA + port * PORT_BYTES + OSPEEDR, 2 * pin, 2, 2);
    usart::set_field(GPIOA + port * PORT_BYTES + MODER, 2 * pin, 2, 1);
}

}  // namespace pins

#include "firmware/hal/cortexm/pins.hpp"

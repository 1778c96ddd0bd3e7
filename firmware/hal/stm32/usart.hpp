// The USART of STM32 families with the registers CR1, BRR, ISR, ICR, RDR and TDR (L4, H7), LPUART included: what of hal.hpp
// is the same for all of them. A chip's hal.cpp includes it once and says which one it is: `usart::USART_BASE`.
#pragma once
#include <stdint.h>

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/hal.hpp"

namespace usart {

constexpr uint32_t CR1 = USART_BASE, BRR = CR1 + 0x0C, ISR = CR1 + 0x1C, ICR = CR1 + 0x20, RDR = CR1 + 0x24, TDR = CR1 + 0x28;
constexpr uint32_t CR1_UE = 1u << 0, CR1_RE = 1u << 2, CR1_TE = 1u << 3, CR1_RXNEIE = 1u << 5;
constexpr uint32_t ISR_ORE = 1u << 3, ISR_RXNE = 1u << 5, ISR_TXE = 1u << 7;

volatile uint16_t overruns;

void start(uint32_t divider) {
    cortexm::reg(CR1) = 0;
    cortexm::reg(BRR) = divider;
    cortexm::reg(CR1) = CR1_UE | CR1_TE;
}

// Bits [shift, shift + width) of a register become `value`.
void set_field(uint32_t address, uint32_t shift, uint32_t width, uint32_t value) {
    const uint32_t mask = ((1u << width) - 1) << shift;
    cortexm::reg(address) = (cortexm::reg(address) & ~mask) | (value << shift);
}

// A clock gate, open when the write is through: the clock runs two cycles later.
void open_gate(uint32_t address, uint32_t bit) {
    cortexm::reg(address) |= 1u << bit;
    const uint32_t read_back = cortexm::reg(address);
    (void)read_back;
}

}  // namespace usart

extern "C" void uart_interrupt() {
    using namespace usart;
    const uint32_t status = cortexm::reg(ISR);
    if (status & ISR_ORE) {
        cortexm::reg(ICR) = ISR_ORE;
        if (overruns != UINT16_MAX) overruns = overruns + 1;
    }
    if (status & ISR_RXNE) hil_on_byte(static_cast<uint8_t>(cortexm::reg(RDR)));
}

void hal::put(uint8_t byte) {
    while (!(cortexm::reg(usart::ISR) & usart::ISR_TXE)) {}
    cortexm::reg(usart::TDR) = byte;
}

// Off leaves the receiver running, so that what is lost shows as an overrun.
void hal::rx_enable(bool on) {
    using namespace usart;
    const uint32_t control = cortexm::reg(CR1) & ~CR1_RXNEIE;
    cortexm::reg(CR1) = on ? control | CR1_RE | CR1_RXNEIE : control;
}

uint16_t hal::rx_overruns() { return usart::overruns; }

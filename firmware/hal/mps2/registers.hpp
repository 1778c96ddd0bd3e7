// The peripherals of the MPS2 FPGA images AN385 and AN500 that the firmware uses.
// Addresses: application notes AN385 and AN500, memory map; bits: CMSDK Technical Reference Manual (DDI0479), chapter 4.
#pragma once
#include <stdint.h>

namespace mps2 {

constexpr uint32_t CLOCK_HZ = 25000000, UART0_RX_IRQ = 0;

constexpr uint32_t TIMER0_CTRL = 0x40000000, TIMER0_VALUE = 0x40000004, TIMER0_RELOAD = 0x40000008;
constexpr uint32_t UART0_DATA = 0x40004000, UART0_STATE = 0x40004004, UART0_CTRL = 0x40004008;
constexpr uint32_t UART0_INTCLEAR = 0x4000400C, UART0_BAUDDIV = 0x40004010;

constexpr uint32_t STATE_TX_FULL = 1u << 0, STATE_RX_FULL = 1u << 1, STATE_RX_OVERRUN = 1u << 3;
constexpr uint32_t CTRL_TX_ENABLE = 1u << 0, CTRL_RX_ENABLE = 1u << 1, CTRL_RX_INTERRUPT = 1u << 3;
constexpr uint32_t INT_RX = 1u << 1;

}  // namespace mps2

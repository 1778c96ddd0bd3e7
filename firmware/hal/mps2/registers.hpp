// The peripherals of the MPS2 FPGA images AN385, AN500 and AN505 that the firmware uses.
// Addresses: application notes AN385 and AN500, memory map; bits: CMSDK Technical Reference Manual (DDI0479), chapter 4.
#pragma once
#include <stdint.h>

namespace mps2 {

#ifdef HIL_UART_UART0S  // AN505: a Cortex-M33, secure; expansion interrupts begin at 32
constexpr uint32_t CLOCK_HZ = 20000000, UART0_RX_IRQ = 32, PERIPHERALS = 0x50000000, UART0_DATA = 0x50200000;
#else
constexpr uint32_t CLOCK_HZ = 25000000, UART0_RX_IRQ = 0, PERIPHERALS = 0x40000000, UART0_DATA = 0x40004000;
#endif
constexpr uint32_t TIMER0_CTRL = PERIPHERALS, TIMER0_VALUE = PERIPHERALS + 4, TIMER0_RELOAD = PERIPHERALS + 8;
constexpr uint32_t UART0_STATE = UART0_DATA + 0x4, UART0_CTRL = UART0_DATA + 0x8, UART0_INTCLEAR = UART0_DATA + 0xC;
constexpr uint32_t UART0_BAUDDIV = UART0_DATA + 0x10;

constexpr uint32_t STATE_TX_FULL = 1u << 0, STATE_RX_FULL = 1u << 1, STATE_RX_OVERRUN = 1u << 3;
constexpr uint32_t CTRL_TX_ENABLE = 1u << 0, CTRL_RX_ENABLE = 1u << 1, CTRL_RX_INTERRUPT = 1u << 3;
constexpr uint32_t INT_RX = 1u << 1;

}  // namespace mps2

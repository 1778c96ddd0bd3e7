// STM32G0B1 at 64 MHz, and the USART2 that a Nucleo-64 wires to its ST-LINK (PA2, PA3).
// Register addresses and bits: reference manual RM0444, chapters FLASH, RCC, GPIO, TIM2 and USART.
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"

namespace usart {
constexpr uint32_t USART_BASE = 0x40004400;  // USART2
}

namespace pins {
constexpr uint32_t GPIOA = 0x50000000, PORT_GATES = 0x40021034;  // RCC_IOPENR
}

#include "firmware/hal/stm32/pins.hpp"
#include "firmware/hal/stm32/usart.hpp"

using cortexm::reg;
using cortexm::wait_for;
using usart::open_gate;
using usart::set_field;

namespace {

constexpr uint32_t USART2_IRQ = 28, BAUD = HIL_BAUD;
constexpr uint32_t RCC_CR = 0x40021000, RCC_CFGR = 0x40021008, RCC_PLLCFGR = 0x4002100C;
constexpr uint32_t RCC_IOPENR = 0x40021034, RCC_APBENR1 = 0x4002103C, FLASH_ACR = 0x40022000;
constexpr uint32_t PUPDR = 0x0C, AFRL = 0x20, MODER = 0x00;

// Two wait states above 48 MHz (RM0444, table 17), then the PLL.
void start_clock() {
    constexpr uint32_t pll_on = 1u << 24, pll_ready = 1u << 25, use_pll = 2;
    constexpr uint32_t from_hsi = 2, times_8 = 8u << 8, by_2 = 1u << 29, output = 1u << 28;  // 16 / 1 * 8 / 2 MHz
    constexpr uint32_t wait_states = 2, prefetch = 1u << 8, cache = 1u << 9;
    reg(FLASH_ACR) = prefetch | cache | wait_states;
    wait_for(FLASH_ACR, 7, wait_states);
    reg(RCC_PLLCFGR) = from_hsi | times_8 | by_2 | output;
    reg(RCC_CR) |= pll_on;
    wait_for(RCC_CR, pll_ready, pll_ready);
    reg(RCC_CFGR) = use_pll;
    wait_for(RCC_CFGR, 7u << 3, use_pll << 3);
}

void start_uart() {
    open_gate(RCC_IOPENR, 0);
    open_gate(RCC_APBENR1, 17);
    set_field(pins::GPIOA + AFRL, 8, 8, 0x11);  // PA2: TX, PA3: RX
    set_field(pins::GPIOA + PUPDR, 6, 2, 1);    // pull-up
    set_field(pins::GPIOA + MODER, 4, 4, 0xA);
    usart::start((F_CPU + BAUD / 2) / BAUD);
}

}  // namespace

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<USART2_IRQ>(uart_interrupt);

void hal::init() {
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_clock();
    start_uart();
    pins::start();
    open_gate(RCC_APBENR1, 0);  // TIM2 counts cycles
    cortexm::init_sections();
    cortexm::enable_irq(USART2_IRQ);
}

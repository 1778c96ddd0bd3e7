// STM32L4R5 at 120 MHz, and the LPUART1 that the Nucleo-144 wires to its ST-LINK (PG7, PG8).
// Register addresses and bits: reference manual RM0432, chapters FLASH, PWR, RCC, GPIO and LPUART.
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"

namespace usart {
constexpr uint32_t USART_BASE = 0x40008000;  // LPUART1
}

namespace pins {
constexpr uint32_t GPIOA = 0x48000000, PORT_GATES = 0x4002104C;  // RCC_AHB2ENR
}

#include "firmware/hal/stm32/pins.hpp"
#include "firmware/hal/stm32/usart.hpp"

using cortexm::reg;
using cortexm::wait_for;
using usart::open_gate;
using usart::set_field;

namespace {

constexpr uint32_t LPUART1_IRQ = 70, HSI_HZ = 16000000, BAUD = HIL_BAUD;
constexpr uint32_t RCC_CR = 0x40021000, RCC_CFGR = 0x40021008, RCC_PLLCFGR = 0x4002100C, RCC_CCIPR = 0x40021088;
constexpr uint32_t RCC_AHB2ENR = 0x4002104C, RCC_APB1ENR1 = 0x40021058, RCC_APB1ENR2 = 0x4002105C;
constexpr uint32_t FLASH_ACR = 0x40022000, PWR_CR2 = 0x40007004, PWR_CR5 = 0x40007080;
constexpr uint32_t GPIOG = 0x48001800, MODER = 0x00, PUPDR = 0x0C, AFRL = 0x20, AFRH = 0x24;

// Above 80 MHz: range 1 boost, five wait states, and a microsecond at half the speed on the way (RM0432, 5.1.7 and 6.2.9).
void start_clock() {
    constexpr uint32_t hsi_on = 1u << 8, hsi_ready = 1u << 10, pll_on = 1u << 24, pll_ready = 1u << 25;
    constexpr uint32_t from_hsi = 2, by_2 = 1u << 4, times_30 = 30u << 8, output = 1u << 24;  // 16 / 2 * 30 / 2 MHz
    constexpr uint32_t wait_states = 5, caches = 7u << 8, use_pll = 3, halved = 8u << 4;
    open_gate(RCC_APB1ENR1, 28);                // PWR
    reg(PWR_CR5) &= ~(1u << 8);                 // R1MODE: boost
    reg(FLASH_ACR) = caches | wait_states;
    wait_for(FLASH_ACR, 15, wait_states);
    reg(RCC_CR) |= hsi_on;
    wait_for(RCC_CR, hsi_ready, hsi_ready);
    reg(RCC_PLLCFGR) = from_hsi | by_2 | times_30 | output;
    reg(RCC_CR) |= pll_on;
    wait_for(RCC_CR, pll_ready, pll_ready);
    reg(RCC_CFGR) = halved | use_pll;
    wait_for(RCC_CFGR, 3u << 2, use_pll << 2);
    for (volatile uint32_t turn = 0; turn < 60; turn = turn + 1) {  // at least a cycle each, at 60 MHz
    }
    reg(RCC_CFGR) = use_pll;
}

// Clocked by the HSI16, which gives every rate from 9600 to 921600 Bd.
void start_uart() {
    reg(PWR_CR2) |= 1u << 9;  // IOSV: the supply of PG2 to PG15 is there
    open_gate(RCC_AHB2ENR, 6);
    set_field(RCC_CCIPR, 10, 2, 2);
    open_gate(RCC_APB1ENR2, 0);
    set_field(GPIOG + AFRL, 28, 4, 8);   // PG7: TX
    set_field(GPIOG + AFRH, 0, 4, 8);    // PG8: RX
    set_field(GPIOG + PUPDR, 16, 2, 1);  // pull-up
    set_field(GPIOG + MODER, 14, 4, 0xA);
    usart::start((256u * (HSI_HZ / 16) + BAUD / 32) / (BAUD / 16));  // 35556
}

}  // namespace

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<LPUART1_IRQ>(uart_interrupt);

void hal::init() {
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_clock();
    start_uart();
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(LPUART1_IRQ);
}

// STM32U575 at 160 MHz, TrustZone off, and the USART1 that the Nucleo-144 wires to its ST-LINK (PA9, PA10).
// Register addresses and bits: reference manual RM0456, chapters FLASH, ICACHE, PWR, RCC, GPIO and USART.
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"

namespace usart {
constexpr uint32_t USART_BASE = 0x40013800;  // USART1
}

namespace pins {
constexpr uint32_t GPIOA = 0x42020000, PORT_GATES = 0x46020C8C;  // RCC_AHB2ENR1
}

#include "firmware/hal/stm32/pins.hpp"
#include "firmware/hal/stm32/usart.hpp"

using cortexm::reg;
using cortexm::wait_for;
using usart::open_gate;
using usart::set_field;

namespace {

constexpr uint32_t USART1_IRQ = 61, BAUD = HIL_BAUD;
constexpr uint32_t RCC_CR = 0x46020C00, RCC_CFGR1 = 0x46020C1C, RCC_PLL1CFGR = 0x46020C28, RCC_PLL1DIVR = 0x46020C34;
constexpr uint32_t RCC_AHB2ENR1 = 0x46020C8C, RCC_AHB3ENR = 0x46020C94, RCC_APB2ENR = 0x46020CA4;
constexpr uint32_t PWR_VOSR = 0x4602080C, FLASH_ACR = 0x40022000, ICACHE_CR = 0x40030400;
constexpr uint32_t MODER = 0x00, PUPDR = 0x0C, AFRH = 0x24;

// 160 MHz need voltage range 1, the booster, which is clocked by the PLL's source, and four wait states (RM0456, 10.5.4
// and 7.3.3). The cache has two ways, as after a reset.
void start_clock() {
    constexpr uint32_t hsi_on = 1u << 8, hsi_ready = 1u << 10, pll_on = 1u << 24, pll_ready = 1u << 25, use_pll = 3;
    constexpr uint32_t from_hsi = 2, input_8_to_16_mhz = 3u << 2, output = 1u << 18;
    constexpr uint32_t times_20 = 19, by_2 = 1u << 24 | 1u << 16 | 1u << 9;  // 16 * 20 / 2 MHz
    constexpr uint32_t range_1 = 3u << 16, range_ready = 1u << 15, boost = 1u << 18, boost_ready = 1u << 14;
    constexpr uint32_t wait_states = 4, prefetch = 1u << 8;
    open_gate(RCC_AHB3ENR, 2);  // PWR
    reg(PWR_VOSR) |= range_1;
    wait_for(PWR_VOSR, range_ready, range_ready);
    reg(RCC_CR) |= hsi_on;
    wait_for(RCC_CR, hsi_ready, hsi_ready);
    reg(RCC_PLL1CFGR) = from_hsi | input_8_to_16_mhz | output;
    reg(RCC_PLL1DIVR) = times_20 | by_2;
    reg(PWR_VOSR) |= boost;
    wait_for(PWR_VOSR, boost_ready, boost_ready);
    reg(FLASH_ACR) = prefetch | wait_states;
    wait_for(FLASH_ACR, 15, wait_states);
    reg(ICACHE_CR) |= 1u;
    reg(RCC_CR) |= pll_on;
    wait_for(RCC_CR, pll_ready, pll_ready);
    reg(RCC_CFGR1) = use_pll;
    wait_for(RCC_CFGR1, 3u << 2, use_pll << 2);
}

void start_uart() {
    open_gate(RCC_AHB2ENR1, 0);
    open_gate(RCC_APB2ENR, 14);
    set_field(pins::GPIOA + AFRH, 4, 8, 0x77);  // PA9: TX, PA10: RX
    set_field(pins::GPIOA + PUPDR, 20, 2, 1);   // pull-up
    set_field(pins::GPIOA + MODER, 18, 4, 0xA);
    usart::start((F_CPU + BAUD / 2) / BAUD);
}

}  // namespace

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<USART1_IRQ>(uart_interrupt);

void hal::init() {
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_clock();
    start_uart();
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(USART1_IRQ);
}

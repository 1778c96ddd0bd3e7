// STM32H747 and H745, Cortex-M7 core: clock (clock.hpp), caches, and the USART behind the ST-LINK's port:
// USART1 on PA9/PA10 of the Discovery board, USART3 on PD8/PD9 of the Nucleo (HIL_UART_USART3).
// Register addresses and bits: reference manual RM0399, chapters RCC, GPIO and USART.
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"
#include "firmware/hal/stm32h747/clock.hpp"

namespace usart {
#ifdef HIL_UART_USART3
constexpr uint32_t USART_BASE = 0x40004800;  // USART3
#else
constexpr uint32_t USART_BASE = 0x40011000;  // USART1
#endif
}  // namespace usart

namespace pins {
constexpr uint32_t GPIOA = 0x58020000, PORT_GATES = 0x580244E0;  // RCC_AHB4ENR
}

#include "firmware/hal/stm32/pins.hpp"
#include "firmware/hal/stm32/usart.hpp"

using cortexm::reg;
using usart::open_gate;
using usart::set_field;

namespace {

uint32_t core_hz;

#ifdef HIL_UART_USART3
constexpr uint32_t USART_IRQ = 39, TX_PIN = 8, PORT_GATE = 3, USART_GATE = 18;
constexpr uint32_t GPIO_MODER = 0x58020C00, GPIO_PUPDR = 0x58020C0C, GPIO_AFRH = 0x58020C24;
constexpr uint32_t RCC_AHB4ENR = 0x580244E0, RCC_APBENR = 0x580244E8;  // APB1LENR
#else
constexpr uint32_t USART_IRQ = 37, TX_PIN = 9, PORT_GATE = 0, USART_GATE = 4;
constexpr uint32_t GPIO_MODER = 0x58020000, GPIO_PUPDR = 0x5802000C, GPIO_AFRH = 0x58020024;
constexpr uint32_t RCC_AHB4ENR = 0x580244E0, RCC_APBENR = 0x580244F0;  // APB2ENR
#endif

void enable_instruction_cache() {
    cortexm::barrier();
    reg(cortexm::ICIALLU) = 0;
    cortexm::barrier();
    reg(cortexm::SCB_CCR) |= 1u << 17;
    cortexm::barrier();
}

// Invalidate every line first: after power-on the tags are random. No DMA is used, so nothing else needs care.
void enable_data_cache() {
    reg(cortexm::SCB_CSSELR) = 0;
    cortexm::barrier();
    const uint32_t geometry = reg(cortexm::SCB_CCSIDR);
    const uint32_t last_set = (geometry >> 13) & 0x7FFF, last_way = (geometry >> 3) & 0x3FF;
    for (uint32_t set = 0; set <= last_set; ++set)
        for (uint32_t way = 0; way <= last_way; ++way) reg(cortexm::DCISW) = (way << 30) | (set << 5);  // 4 ways, lines of 32 bytes
    cortexm::barrier();
    reg(cortexm::SCB_CCR) |= 1u << 16;
    cortexm::barrier();
}

// SRAM1, SRAM2 and SRAM3 belong to the other core's domain: for this one their clocks are off after reset.
void enable_regions() {
    constexpr uint32_t RCC_AHB2ENR = 0x580244DC;
    reg(RCC_AHB2ENR) |= 7u << 29;
    const uint32_t read_back = reg(RCC_AHB2ENR);  // the clock runs two cycles after the write
    (void)read_back;
}

void start_uart() {
    reg(RCC_AHB4ENR) |= 1u << PORT_GATE;
    open_gate(RCC_APBENR, USART_GATE);
    set_field(GPIO_AFRH, 4 * (TX_PIN - 8), 8, 0x77);   // TX, and RX next to it: AF7
    set_field(GPIO_PUPDR, 2 * (TX_PIN + 1), 2, 1);     // pull-up on RX
    set_field(GPIO_MODER, 2 * TX_PIN, 4, 0xA);         // alternate function
    usart::start((clocks::apb_hz(core_hz) + HIL_BAUD / 2) / HIL_BAUD);  // 868 of 100 MHz: 115207 Bd; 556 of 64 MHz: 115108 Bd
}

}  // namespace

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<USART_IRQ>(uart_interrupt);

void hal::init() {
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    core_hz = clocks::start();
    enable_instruction_cache();
    enable_data_cache();
    enable_regions();
    start_uart();
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(USART_IRQ);
}

uint32_t hal::clock_hz() { return core_hz; }

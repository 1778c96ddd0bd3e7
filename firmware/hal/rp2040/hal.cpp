// RP2040 (Raspberry Pi Pico) at 125 MHz; the wire is UART0 on GPIO0 and GPIO1. Core 1 stays asleep in the ROM.
#include <stdint.h>

namespace rp {

constexpr uint32_t CLOCKS = 0x40008000, RESETS = 0x4000C000, IO_BANK0 = 0x40014000, PADS_BANK0 = 0x4001C000, XOSC = 0x40024000;
constexpr uint32_t PLL_SYS = 0x40028000, UART0 = 0x40034000, WATCHDOG_TICK = 0x4005802C;
constexpr uint32_t SIO_SET = 0xD0000014, SIO_CLEAR = 0xD0000018, SIO_OE_SET = 0xD0000024;
constexpr uint32_t RESET_IO_BANK0 = 1u << 5, RESET_PADS_BANK0 = 1u << 8, RESET_PLL_SYS = 1u << 12, RESET_TIMER = 1u << 21;
constexpr uint32_t RESET_UART0 = 1u << 22, PAD_ISO = 0;
constexpr uint32_t PLL_TIMES = 125, PLL_BY_1 = 6, PLL_BY_2 = 2, UART0_IRQ = 20;

}  // namespace rp

#include "firmware/hal/rp/chip.hpp"

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<rp::UART0_IRQ>(uart_interrupt);

void hal::init() {
    using namespace rp;
    constexpr uint32_t enable_tick = 1u << 9;
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_clocks();
    start_uart();
    reg(WATCHDOG_TICK) = enable_tick | CRYSTAL_HZ / 1000000;  // the timer's microseconds
    leave_reset(RESET_TIMER);
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(UART0_IRQ);
}

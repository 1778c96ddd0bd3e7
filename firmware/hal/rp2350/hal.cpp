// RP2350 (Raspberry Pi Pico 2) at 150 MHz, core 0 of its Cortex-M33s, secure; the wire is UART0 on GPIO0 and GPIO1. The flash stays as
// the ROM has set it up.
#include <stdint.h>

namespace rp {

constexpr uint32_t CLOCKS = 0x40010000, RESETS = 0x40020000, IO_BANK0 = 0x40028000, PADS_BANK0 = 0x40038000, XOSC = 0x40048000;
constexpr uint32_t PLL_SYS = 0x40050000, UART0 = 0x40070000;
constexpr uint32_t SIO_SET = 0xD0000018, SIO_CLEAR = 0xD0000020, SIO_OE_SET = 0xD0000038;
constexpr uint32_t RESET_IO_BANK0 = 1u << 6, RESET_PADS_BANK0 = 1u << 9, RESET_PLL_SYS = 1u << 14, RESET_UART0 = 1u << 26;
constexpr uint32_t PAD_ISO = 1u << 8;
constexpr uint32_t PLL_TIMES = 125, PLL_BY_1 = 5, PLL_BY_2 = 2, UART0_IRQ = 33;

}  // namespace rp

#include "firmware/hal/rp/chip.hpp"

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<rp::UART0_IRQ>(uart_interrupt);

// What the ROM looks for in the flash's first 4 KiB (datasheet 5.9): an executable for Arm, secure, of an RP2350; the vector table comes first.
extern "C"
    __attribute__((section(".image_def"), used)) constexpr uint32_t image_def[] = {0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579};

void hal::init() {
    using namespace rp;
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    reg(CLK_SYS_CTRL) = 0;  // wherever the ROM has left it: a source must not be in use while it is changed
    wait_for(CLK_SYS_SELECTED, 1, 1);
    start_clocks();
    start_uart();
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(UART0_IRQ);
}

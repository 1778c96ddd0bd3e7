// What the RP2040 and the RP2350 share: clocks from the crystal of 12 MHz, UART0 (a PL011) on GPIO0 and GPIO1, pins.
// A chip's hal.cpp includes it once and says where things are: namespace `rp`, its constants as they are used here.
// Registers: RP2040 datasheet, chapters 2.14 (resets), 2.15 to 2.18 (clocks), 2.19 (GPIO), 4.2 (UART); RP2350's, chapters 7 to 9 and 12.1.
#pragma once
#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"
#include "firmware/hal/hal.hpp"

namespace rp {

using cortexm::reg;
using cortexm::wait_for;

constexpr uint32_t CRYSTAL_HZ = 12000000, BAUD = HIL_BAUD;
constexpr uint32_t SET_BITS = 0x2000, CLEAR_BITS = 0x3000;  // aliases of every register
constexpr uint32_t RESET_DONE = RESETS + 0x08, XOSC_STATUS = XOSC + 0x04, XOSC_STARTUP = XOSC + 0x0C;
constexpr uint32_t PLL_PWR = PLL_SYS + 0x04, PLL_FBDIV = PLL_SYS + 0x08, PLL_PRIM = PLL_SYS + 0x0C;
constexpr uint32_t CLK_REF_CTRL = CLOCKS + 0x30, CLK_REF_SELECTED = CLOCKS + 0x38, CLK_SYS_CTRL = CLOCKS + 0x3C;
constexpr uint32_t CLK_SYS_SELECTED = CLOCKS + 0x44, CLK_PERI_CTRL = CLOCKS + 0x48;
constexpr uint32_t DR = UART0, RSR = UART0 + 0x04, FR = UART0 + 0x18, IBRD = UART0 + 0x24, FBRD = UART0 + 0x28;
constexpr uint32_t LCR_H = UART0 + 0x2C, CR = UART0 + 0x30, IMSC = UART0 + 0x38, ICR = UART0 + 0x44;
constexpr uint32_t DR_OVERRUN = 1u << 11, FR_RX_EMPTY = 1u << 4, FR_TX_FULL = 1u << 5, INT_RX = 1u << 4;

volatile uint16_t overruns;

void leave_reset(uint32_t bits) {
    reg(RESETS + CLEAR_BITS) = bits;
    wait_for(RESET_DONE, bits, bits);
}

// clk_ref is the crystal, clk_sys and with it clk_peri the PLL's output: 12 MHz * 125 / 6 / 2 on an RP2040.
void start_clocks() {
    constexpr uint32_t range_1_to_15_mhz = 0xAA0, enable = 0xFAB << 12, stable = 1u << 31, one_ms = CRYSTAL_HZ / 256000;
    constexpr uint32_t power_down = 1u << 0, post_power_down = 1u << 3, vco_power_down = 1u << 5, lock = 1u << 31;
    constexpr uint32_t crystal = 2, auxiliary = 1, enable_peri = 1u << 11;
    static_assert(CRYSTAL_HZ / 1000 * PLL_TIMES / (PLL_BY_1 * PLL_BY_2) == F_CPU / 1000, "the PLL's factors are those of F_CPU");
    reg(XOSC_STARTUP) = one_ms;
    reg(XOSC) = range_1_to_15_mhz | enable;
    wait_for(XOSC_STATUS, stable, stable);
    reg(CLK_REF_CTRL) = crystal;
    wait_for(CLK_REF_SELECTED, 1u << crystal, 1u << crystal);
    leave_reset(RESET_PLL_SYS);
    reg(PLL_SYS) = 1;  // REFDIV
    reg(PLL_FBDIV) = PLL_TIMES;
    reg(PLL_PWR + CLEAR_BITS) = power_down | vco_power_down;
    wait_for(PLL_SYS, lock, lock);
    reg(PLL_PRIM) = PLL_BY_1 << 16 | PLL_BY_2 << 12;
    reg(PLL_PWR + CLEAR_BITS) = post_power_down;
    reg(CLK_SYS_CTRL) = auxiliary;
    wait_for(CLK_SYS_SELECTED, 1u << auxiliary, 1u << auxiliary);
    reg(CLK_PERI_CTRL) = enable_peri;
}

// What a pin does: 2 UART, 5 SIO. Behind a reset an RP2350 isolates its pads (PAD_ISO; 0 on an RP2040).
void connect(uint32_t pin, uint32_t function, uint32_t pad_set) {
    reg(PADS_BANK0 + 4 + 4 * pin + SET_BITS) = pad_set;
    reg(IO_BANK0 + 4 + 8 * pin) = function;
    reg(PADS_BANK0 + 4 + 4 * pin + CLEAR_BITS) = PAD_ISO;
}

// One byte at a time: the FIFOs stay off, so that every byte interrupts.
void start_uart() {
    constexpr uint32_t uart = 2, pull_up = 1u << 3, input = 1u << 6, eight_bits = 3u << 5, on = 1u << 0, tx = 1u << 8, rx = 1u << 9;
    constexpr uint32_t divider_64ths = (8 * (F_CPU / BAUD) + 1) / 2;
    leave_reset(RESET_IO_BANK0 | RESET_PADS_BANK0 | RESET_UART0);
    reg(IBRD) = divider_64ths >> 6;
    reg(FBRD) = divider_64ths & 63;
    reg(LCR_H) = eight_bits;  // takes the divider over, too
    reg(CR) = on | tx | rx;
    connect(0, uart, 0);
    connect(1, uart, pull_up | input);
}

}  // namespace rp

namespace pins {

// GPIO0 to GPIO29 are PA0 to PA29 in boards.yaml.
inline void set(uint32_t, uint32_t pin, bool high) { cortexm::reg(high ? rp::SIO_SET : rp::SIO_CLEAR) = 1u << pin; }

inline void make_output(uint32_t port, uint32_t pin, bool high) {
    constexpr uint32_t sio = 5;
    set(port, pin, high);
    cortexm::reg(rp::SIO_OE_SET) = 1u << pin;
    rp::connect(pin, sio, 0);
}

}  // namespace pins

#include "firmware/hal/cortexm/pins.hpp"

extern "C" void uart_interrupt() {
    using namespace rp;
    while (!(reg(FR) & FR_RX_EMPTY)) {
        const uint32_t byte = reg(DR);
        if (byte & DR_OVERRUN) {
            reg(RSR) = 0;
            if (overruns != UINT16_MAX) overruns = overruns + 1;
        }
        hil_on_byte(static_cast<uint8_t>(byte));
    }
}

void hal::put(uint8_t byte) {
    while (cortexm::reg(rp::FR) & rp::FR_TX_FULL) {}
    cortexm::reg(rp::DR) = byte;
}

// Off leaves the receiver running, so that what is lost shows as an overrun.
void hal::rx_enable(bool on) { cortexm::reg(rp::IMSC) = on ? rp::INT_RX : 0; }

uint16_t hal::rx_overruns() { return rp::overruns; }

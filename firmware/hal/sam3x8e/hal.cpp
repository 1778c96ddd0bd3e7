// ATSAM3X8E (Arduino Due) at 84 MHz: clocks, and the UART behind the programming port.
// Register addresses and bits: SAM3X/SAM3A series datasheet (11057C), chapters EEFC, PMC, PIO and UART.
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"

using cortexm::reg;

namespace {

constexpr uint32_t CLOCK_HZ = 84000000, BAUD = HIL_BAUD, UART_IRQ = 8;

constexpr uint32_t WDT_MR = 0x400E1A54, EEFC0_FMR = 0x400E0A00, EEFC1_FMR = 0x400E0C00;
constexpr uint32_t PMC_PCER0 = 0x400E0610, CKGR_MOR = 0x400E0620, CKGR_PLLAR = 0x400E0628;
constexpr uint32_t PMC_MCKR = 0x400E0630, PMC_SR = 0x400E0668;
constexpr uint32_t PIOA_PDR = 0x400E0E04, PIOA_PUER = 0x400E0E64, PIOA_ABSR = 0x400E0E70;
constexpr uint32_t UART_CR = 0x400E0800, UART_MR = 0x400E0804, UART_IER = 0x400E0808, UART_IDR = 0x400E080C;
constexpr uint32_t UART_SR = 0x400E0814, UART_RHR = 0x400E0818, UART_THR = 0x400E081C, UART_BRGR = 0x400E0820;

constexpr uint32_t RXRDY = 1u << 0, TXRDY = 1u << 1, OVRE = 1u << 5;
constexpr uint32_t CR_RSTRX = 1u << 2, CR_RSTTX = 1u << 3, CR_RXEN = 1u << 4, CR_TXEN = 1u << 6, CR_RSTSTA = 1u << 8;
constexpr uint32_t PA8_URXD = 1u << 8, PA9_UTXD = 1u << 9;

volatile uint16_t overruns;

void wait_for(uint32_t pmc_flag) {
    while (!(reg(PMC_SR) & pmc_flag)) {}
}

// 12 MHz crystal * 14 / 2 = 84 MHz. The flash gets its 4 wait states before the clock rises.
void start_clocks() {
    constexpr uint32_t key = 0x37u << 16, start_up = 0x3Fu << 8, rc_on = 1u << 3, crystal_on = 1u << 0;
    constexpr uint32_t main_is_crystal = 1u << 24, half = 1u << 4, main_clock = 1, plla_clock = 2;
    reg(EEFC0_FMR) = 4u << 8;
    reg(EEFC1_FMR) = 4u << 8;
    reg(CKGR_MOR) = key | start_up | rc_on | crystal_on;
    wait_for(1u << 0);  // MOSCXTS
    reg(CKGR_MOR) = main_is_crystal | key | start_up | rc_on | crystal_on;
    wait_for(1u << 16);  // MOSCSELS
    reg(CKGR_PLLAR) = (1u << 29) | (13u << 16) | start_up | 1u;
    wait_for(1u << 1);  // LOCKA
    reg(PMC_MCKR) = half | main_clock;
    wait_for(1u << 3);  // MCKRDY
    reg(PMC_MCKR) = half | plla_clock;
    wait_for(1u << 3);
}

void start_uart() {
    reg(PMC_PCER0) = (1u << UART_IRQ) | (1u << 11);  // UART and PIOA
    reg(PIOA_ABSR) = reg(PIOA_ABSR) & ~(PA8_URXD | PA9_UTXD);
    reg(PIOA_PUER) = PA8_URXD;
    reg(PIOA_PDR) = PA8_URXD | PA9_UTXD;
    reg(UART_CR) = CR_RSTRX | CR_RSTTX | CR_RSTSTA;
    reg(UART_IDR) = ~0u;
    reg(UART_MR) = 4u << 9;                                // no parity
    reg(UART_BRGR) = CLOCK_HZ / (16 * BAUD);               // 45: 116667 Bd; the 16U2 beside it runs at 117647 Bd
    reg(UART_CR) = CR_TXEN;
}

}  // namespace

namespace pins {

// PIOA to PIOD follow each other (chapter PIO): set and clear, output enable and enable have registers of their own.
inline void set(uint32_t port, uint32_t pin, bool high) { reg(0x400E0E00 + 0x200 * port + (high ? 0x30 : 0x34)) = 1u << pin; }

inline void make_output(uint32_t port, uint32_t pin, bool high) {
    set(port, pin, high);
    reg(0x400E0E10 + 0x200 * port) = 1u << pin;
    reg(0x400E0E00 + 0x200 * port) = 1u << pin;
}

}  // namespace pins

#include "firmware/hal/cortexm/pins.hpp"

extern "C" void uart_interrupt() {
    const uint32_t status = reg(UART_SR);
    if (status & OVRE) {
        reg(UART_CR) = CR_RSTSTA;
        if (overruns != UINT16_MAX) overruns = overruns + 1;
    }
    if (status & RXRDY) hil_on_byte(static_cast<uint8_t>(reg(UART_RHR)));
}

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<UART_IRQ>(uart_interrupt);

void hal::init() {
    reg(WDT_MR) = 1u << 15;  // off; the register takes one write per reset
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_clocks();
    start_uart();
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(UART_IRQ);
}

void hal::put(uint8_t byte) {
    while (!(reg(UART_SR) & TXRDY)) {}
    reg(UART_THR) = byte;
}

// Off leaves the receiver running, so that what is lost shows as an overrun.
void hal::rx_enable(bool on) {
    if (on) {
        reg(UART_CR) = CR_RXEN;
        reg(UART_IER) = RXRDY;
    } else {
        reg(UART_IDR) = RXRDY;
    }
}

uint16_t hal::rx_overruns() { return overruns; }

// nRF52840 at 64 MHz, as a boot loader has started it; the wire is UART0 on the pins that a board calls TX and RX.
// Registers: nRF52840 Product Specification, chapters CLOCK, NVMC, GPIO and UART (the one without DMA).
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/sections.hpp"
#include "firmware/hal/cortexm/startup.hpp"

using cortexm::reg;
using cortexm::wait_for;

namespace {

#ifdef HIL_UART_P103P110  // Nano 33 BLE: D1, D0
constexpr uint32_t TX_PORT = 1, TX_PIN = 3, RX_PORT = 1, RX_PIN = 10;
#else                     // XIAO nRF52840: D6, D7
constexpr uint32_t TX_PORT = 1, TX_PIN = 11, RX_PORT = 1, RX_PIN = 12;
#endif

constexpr uint32_t UART_IRQ = 2, HFCLKSTART = 0x40000000, HFCLKSTARTED = 0x40000100, ICACHECNF = 0x4001E540, NVIC_ICER = 0xE000E180;
constexpr uint32_t STARTRX = 0x40002000, STARTTX = 0x40002008, RXDRDY = 0x40002108, TXDRDY = 0x4000211C, INTENSET = 0x40002304;
constexpr uint32_t INTENCLR = 0x40002308, ERRORSRC = 0x40002480, ENABLE = 0x40002500, PSELTXD = 0x4000250C, PSELRXD = 0x40002514;
constexpr uint32_t RXD = 0x40002518, TXD = 0x4000251C, BAUDRATE = 0x40002524, CONFIG = 0x4000256C, ON_RXDRDY = 1u << 2;

volatile uint16_t overruns;

// The crystal of 32 MHz: the oscillator that runs after a reset is too far off for a wire. Then the cache of the flash's code.
void start_clock() {
    reg(HFCLKSTARTED) = 0;
    reg(HFCLKSTART) = 1;
    wait_for(HFCLKSTARTED, 1, 1);
    reg(ICACHECNF) = 1;
}

}  // namespace

namespace pins {

constexpr uint32_t PORT_BYTES = 0x300, OUTSET = 0x50000508, OUTCLR = 0x5000050C, CONFIGURE = 0x50000700;
constexpr uint32_t OUTPUT = 3, INPUT_PULLED_UP = 0xC;

// P0.00 is PA0 in boards.yaml, P1.00 PB0.
inline void set(uint32_t port, uint32_t pin, bool high) { reg((high ? OUTSET : OUTCLR) + port * PORT_BYTES) = 1u << pin; }

inline void configure(uint32_t port, uint32_t pin, uint32_t what) { reg(CONFIGURE + port * PORT_BYTES + 4 * pin) = what; }

inline void make_output(uint32_t port, uint32_t pin, bool high) {
    set(port, pin, high);
    configure(port, pin, OUTPUT);
}

}  // namespace pins

#include "firmware/hal/cortexm/pins.hpp"

namespace {

// The first byte needs no room to be made for it: TXDRDY says that the one before has left.
void start_uart() {
    reg(ENABLE) = 0;
    pins::make_output(TX_PORT, TX_PIN, true);
    pins::configure(RX_PORT, RX_PIN, pins::INPUT_PULLED_UP);
    reg(PSELTXD) = TX_PORT << 5 | TX_PIN;
    reg(PSELRXD) = RX_PORT << 5 | RX_PIN;
    reg(BAUDRATE) = (static_cast<uint32_t>((static_cast<uint64_t>(HIL_BAUD) << 32) / 16000000) + 0x800) & 0xFFFFF000;
    reg(CONFIG) = 0;
    reg(INTENCLR) = ~0u;
    reg(ENABLE) = 4;
    reg(STARTTX) = 1;
    reg(STARTRX) = 1;
}

bool sending;

}  // namespace

extern "C" void uart_interrupt() {
    if (!reg(RXDRDY)) return;
    reg(RXDRDY) = 0;
    const uint32_t read_back = reg(RXDRDY);  // the request is gone when the handler ends
    (void)read_back;
    const uint32_t errors = reg(ERRORSRC);
    if (errors & 1u) {
        reg(ERRORSRC) = errors;
        if (overruns != UINT16_MAX) overruns = overruns + 1;
    }
    hil_on_byte(static_cast<uint8_t>(reg(RXD)));
}

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<UART_IRQ>(uart_interrupt);

void hal::init() {
    reg(NVIC_ICER) = reg(NVIC_ICER + 4) = ~0u;  // of a boot loader, which may have masked them all, too
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_clock();
    start_uart();
    pins::start();
    cortexm::init_sections();
    cortexm::enable_irq(UART_IRQ);
    __asm__ volatile("cpsie i" ::: "memory");
}

void hal::put(uint8_t byte) {
    while (sending && !reg(TXDRDY)) {}
    reg(TXDRDY) = 0;
    reg(TXD) = byte;
    sending = true;
}

// Off leaves the receiver running, so that what is lost shows as an overrun.
void hal::rx_enable(bool on) { reg(on ? INTENSET : INTENCLR) = ON_RXDRDY; }

uint16_t hal::rx_overruns() { return overruns; }

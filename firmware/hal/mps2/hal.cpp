// MPS2 board as QEMU has it (AN385: Cortex-M3, AN500: Cortex-M7, AN505: Cortex-M33): UART0, and sections measured in instructions.
//
// QEMU has no cycle counter. With -icount shift=7 every instruction takes 128 ns of virtual time, and TIMER0 counts
// virtual time at 25 MHz: 3.2 ticks per instruction, so a difference of two readings gives the instructions exactly. AN505: 20 MHz.
#include "firmware/hal/hal.hpp"

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/cortexm/startup.hpp"
#include "firmware/hal/mps2/registers.hpp"

using cortexm::reg;
using namespace mps2;

namespace {

constexpr uint32_t BAUD = 115200, NVIC_ISPR = 0xE000E200;
// 16 ticks of 40 ns are 5 instructions of 128 ns, 64 of 50 ns are 25.
constexpr uint32_t TICKS = CLOCK_HZ == 25000000 ? 16 : 64, INSTRUCTIONS = CLOCK_HZ == 25000000 ? 5 : 25;

uint32_t started_ticks, empty_section_instructions;
volatile uint16_t overruns;
volatile uint32_t received_bytes;

// Counts down. A call of its own, so that every reading stands at the same distance from what it measures.
__attribute__((noinline)) uint32_t ticks_left() { return reg(TIMER0_VALUE); }

uint32_t instructions(uint32_t ticks) {  // at most 2^32 ticks: 1.3e9 instructions
    return static_cast<uint32_t>((static_cast<uint64_t>(ticks) * INSTRUCTIONS + TICKS / 2) / TICKS);
}

void start_timer() {
    reg(TIMER0_RELOAD) = UINT32_MAX;
    reg(TIMER0_VALUE) = UINT32_MAX;
    reg(TIMER0_CTRL) = 1u << 0;
    hal::section_begin(0);
    empty_section_instructions = hal::section_end();
}

void start_uart() {
    reg(UART0_BAUDDIV) = (CLOCK_HZ + BAUD / 2) / BAUD;  // 217: 115207 Bd
    reg(UART0_CTRL) = CTRL_TX_ENABLE;
}

}  // namespace

// The request is cleared first: a byte that comes after the register was read raises it again.
extern "C" void uart_interrupt() {
    reg(UART0_INTCLEAR) = INT_RX;
    const uint32_t state = reg(UART0_STATE);
    if (state & STATE_RX_OVERRUN) {
        reg(UART0_STATE) = STATE_RX_OVERRUN;
        if (overruns != UINT16_MAX) overruns = overruns + 1;
    }
    if (state & STATE_RX_FULL) {
        received_bytes = received_bytes + 1;
        hil_on_byte(static_cast<uint8_t>(reg(UART0_DATA)));
    }
}

extern "C" __attribute__((section(".isr_vector"), used)) constexpr auto vectors = cortexm::vector_table<UART0_RX_IRQ>(uart_interrupt);

void hal::init() {
    reg(cortexm::SCB_VTOR) = reinterpret_cast<uint32_t>(&vectors);
    start_uart();
    start_timer();
    cortexm::enable_irq(UART0_RX_IRQ);
}

// Sleeping halves what a byte costs the emulator. No byte is slept over: one that came after the caller had looked for
// work makes this call return at once, and a pending interrupt ends the sleep although it is locked.
void hal::idle(bool wait) {
    static uint32_t seen_bytes;
    const Lock lock;
    if (wait && received_bytes == seen_bytes) __asm__ volatile("wfi" ::: "memory");
    seen_bytes = received_bytes;
}

void hal::put(uint8_t byte) {
    while (reg(UART0_STATE) & STATE_TX_FULL) {}
    reg(UART0_DATA) = byte;
}

// QEMU looks for bytes again only after its data register was read, not when the receiver is switched on.
static void start_receiver() {
    reg(UART0_CTRL) = CTRL_TX_ENABLE | CTRL_RX_ENABLE;
    if (!(reg(UART0_STATE) & STATE_RX_FULL)) {
        const uint32_t nothing = reg(UART0_DATA);
        (void)nothing;
    }
}

// Off leaves the receiver running. A byte that came meanwhile raised no interrupt: its handler is called for it.
void hal::rx_enable(bool on) {
    if (on && !(reg(UART0_CTRL) & CTRL_RX_ENABLE)) start_receiver();
    const uint32_t control = reg(UART0_CTRL) & ~CTRL_RX_INTERRUPT;
    reg(UART0_CTRL) = on ? control | CTRL_RX_INTERRUPT : control;
    if (on && reg(UART0_STATE) & STATE_RX_FULL) reg(NVIC_ISPR + UART0_RX_IRQ / 32 * 4) = 1u << UART0_RX_IRQ % 32;
}

uint16_t hal::rx_overruns() { return overruns; }

__attribute__((noinline)) void hal::section_begin(uint32_t) { started_ticks = ticks_left(); }

__attribute__((noinline)) uint32_t hal::section_end() { return instructions(started_ticks - ticks_left()) - empty_section_instructions; }

#include "firmware/hal/cortexm/lock.cpp"
#include "firmware/hal/cortexm/startup.cpp"

// What a chip offers the firmware. One folder per chip implements it; the wire and the kernels see nothing else.
#pragma once
#include <stdint.h>

// Called by the chip for every byte received, from the receive interrupt. Defined by firmware/wire/session.cpp.
extern "C" void hil_on_byte(uint8_t byte);

namespace hal {

// Registers at a processor fault. `cause` is CFSR on a Cortex-M, `address` what could not be accessed, or 0.
struct Fault { uint32_t pc, lr, sp, cause, address; };

}  // namespace hal

// Called by a chip whose processor notices faults, with interrupts off and a stack of its own. Does not return.
extern "C" void hil_on_fault(const hal::Fault &fault);

#ifndef HIL_BAUD
#define HIL_BAUD 115200
#endif

namespace hal {

// Clocks, UART at HIL_BAUD 8N1, cycle counter, pins. Receiving is off until rx_enable(true).
void init();

// Hertz of the cycles that are counted, as init() found them.
#ifdef HIL_CHIP_STM32H747
uint32_t clock_hz();
#else
constexpr uint32_t clock_hz() { return F_CPU; }
#endif

// Queue one byte for sending; waits for a free transmit register, never for the whole byte to leave.
void put(uint8_t byte);

// Called between messages; `wait`: there is nothing else to do. Chips receive by interrupt and need nothing here.
#if defined(HIL_CHIP_HOST) || defined(HIL_CHIP_RERAM) || defined(HIL_CHIP_MPS2)
void idle(bool wait);
#else
inline void idle(bool) {}
#endif

// Receive interrupt on or off. While off, bytes that arrive beyond the hardware FIFO are lost (and counted).
void rx_enable(bool on);

// Bytes the UART reported as overrun since init().
uint16_t rx_overruns();

// A timed section: cycles spent between the two calls, the cost of an empty section already subtracted.
// Sections do not nest. `tag` is published to a tracer where the chip has one (ITM stimulus port on Cortex-M).
void section_begin(uint32_t tag);
uint32_t section_end();

// A clock that never stands still, in ticks of the chip; it turns over after 2^32. Not on chips whose counters run in
// sections alone (ATmega328P) or count no cycles (MPS2).
uint32_t ticks();

// Pins that the board's entry names (boards.yaml; HIL_GATE_PORT and so on). The gate is high while an inference is computed,
// for whoever triggers a power meter; a pulse is a low microsecond on the other pin, which is high otherwise.
#ifdef HIL_GATE_PORT
void gate(bool high);
#else
inline void gate(bool) {}
#endif
#ifdef HIL_PULSE_PORT
void pulse();
#else
inline void pulse() {}
#endif

// Bytes of stack and heap at their peak since reset. The stack is painted before any C code runs.
uint32_t stack_peak_bytes();
uint32_t heap_peak_bytes();

// Interrupt lock around data shared with hil_on_byte().
class Lock {
public:
    Lock();
    ~Lock();
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    uint32_t saved_;
};

}  // namespace hal

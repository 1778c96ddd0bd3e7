// Runs into the stack's guard and tells what the fault handler learns: CFSR, pc (0: unknown), address.
#include "report.hpp"

extern "C" uint32_t _heap_start[];  // the end of the guard

namespace {

volatile int command = -1;

}  // namespace

extern "C" void hil_on_byte(uint8_t byte) { command = byte; }

extern "C" void hil_on_fault(const hal::Fault &fault) {
    put_u32(fault.cause);
    put_u32(fault.pc);
    put_u32(fault.address);
}

int main() {
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    while (command < 0) {
    }
    if (command == 's')  // small steps: SP is so near that the processor's own frame does not fit either
        __asm__ volatile("1: push {r0-r3}\n\tb 1b");
#if defined(__ARM_ARCH_6M__)
    // One large step of 36 bytes from 32 above: the push fails and leaves SP, and the frame of 32 bytes fits.
    __asm__ volatile(
        "mov sp, %0\n\t"
        "b large_step_here\n"
        ".global large_step_here\n"
        "large_step_here: push {r0-r7, lr}" ::"r"(_heap_start + 8));
#else
    // One large step from 44 bytes above: the push fails and leaves SP, and the frame of 32 bytes fits.
    __asm__ volatile(
        "mov sp, %0\n\t"
        "b large_step_here\n"
        ".global large_step_here\n"
        "large_step_here: stmdb sp!, {r0-r12}" ::"r"(_heap_start + 11));
#endif
    for (;;) {
    }
}

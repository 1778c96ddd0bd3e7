// From reset to main() on a Cortex-M, and the watermarks that the start-up code makes measurable.
#include "firmware/hal/cortexm/startup.hpp"

#include <stddef.h>

#include "firmware/hal/cortexm/reg.hpp"
#include "firmware/hal/hal.hpp"

extern "C" {
extern const uint32_t _sidata;
extern uint32_t _sdata, _edata, _sbss, _ebss, _guard, _heap_start;
extern const cortexm::Handler __init_array_start[], __init_array_end[];
int main();
void start();
}

namespace {

constexpr uint32_t PAINT = 0xC5C5C5C5;
constexpr size_t HEAP_STACK_GAP_BYTES = 256;

uint8_t *heap_end;
uint8_t *heap_peak;

uint8_t *heap_start() { return reinterpret_cast<uint8_t *>(&_heap_start); }

// No access to the 32 bytes below the stack's room: an overflow faults instead of overwriting .bss.
// ENABLE and PRIVDEFENA keep the default memory map everywhere else.
void guard_stack() {
    using namespace cortexm;
    constexpr uint32_t execute_never = 1u << 28, size_32_bytes = 4u << 1, enable = 1u;
    reg(MPU_RNR) = 0;
    reg(MPU_RBAR) = reinterpret_cast<uint32_t>(&_guard);
    reg(MPU_RASR) = execute_never | size_32_bytes | enable;
    reg(MPU_CTRL) = (1u << 2) | 1u;
    barrier();
}

}  // namespace

// What the linker script has placed elsewhere than in flash, 64 bits at a time: the unit of a TCM's error correction.
#ifdef HIL_COPIES
#define HIL_COPY(what) \
    "ldr r0, =_copied_" what "_from\n\t" \
    "ldr r1, =_copied_" what "\n\t" \
    "ldr r2, =_copied_" what "_end\n\t" \
    "cmp r0, r1\n\t" \
    "beq 3f\n" \
    "2:\n\t" \
    "cmp r1, r2\n\t" \
    "beq 3f\n\t" \
    "ldrd r3, r4, [r0], #8\n\t" \
    "strd r3, r4, [r1], #8\n\t" \
    "b 2b\n" \
    "3:\n\t"
#else
#define HIL_COPIES
#endif

// Before any C code: everything between the guard and the stack pointer is painted.
extern "C" __attribute__((naked, noreturn)) void reset_handler() {
    __asm__ volatile("ldr r0, =_heap_start\n\t"
                     "mov r1, sp\n\t"
                     "ldr r2, =%c0\n"
                     "1:\n\t"
                     "cmp r0, r1\n\t"
                     "itt lo\n\t"
                     "strlo r2, [r0], #4\n\t"
                     "blo 1b\n\t" HIL_COPIES "b start\n\t"
                     ".ltorg" ::"i"(PAINT));
}

extern "C" __attribute__((noreturn, used)) void start() {
    using namespace cortexm;
#if defined(__ARM_FP)
    reg(SCB_CPACR) |= 0xFu << 20;  // coprocessors 10 and 11: the FPU
    barrier();
#endif
    const uint32_t *source = &_sidata;
    for (uint32_t *to = &_sdata; to < &_edata; ++to) *to = *source++;
    for (uint32_t *to = &_sbss; to < &_ebss; ++to) *to = 0;
    guard_stack();
    for (const Handler *init = __init_array_start; init < __init_array_end; ++init) (*init)();
    main();
    for (;;) {}
}

// A program without a wire goes silent.
extern "C" __attribute__((weak)) void hil_on_fault(const hal::Fault &) {}

// Every exception that nobody serves. The stack may be what has failed: start a new one at its top. The MPU's guard is off
// in here, because HFNMIENA is 0.
extern "C" __attribute__((naked)) void fault_handler() {
    __asm__ volatile("mov r0, sp\n\t"
                     "ldr r1, =_estack\n\t"
                     "mov sp, r1\n\t"
                     "b report_fault\n\t"
                     ".ltorg");
}

// `frame` is what the processor has pushed: r0 to r3, r12, lr, pc, xpsr.
extern "C" __attribute__((noreturn, used)) void report_fault(const uint32_t *frame) {
    using namespace cortexm;
    constexpr uint32_t memory_address_valid = 1u << 7, bus_address_valid = 1u << 15;
    constexpr uint32_t frame_not_written = 1u << 4 | 1u << 12;  // MSTKERR, STKERR: the guard has stopped that as well
    const uint32_t at = reinterpret_cast<uint32_t>(frame), end = reinterpret_cast<uint32_t>(&_estack);
    const bool readable = at < end && end - at >= 32 && at >= reinterpret_cast<uint32_t>(&_sdata);
    hal::Fault fault{};
    fault.cause = reg(SCB_CFSR);
    if (readable && !(fault.cause & frame_not_written)) {
        fault.lr = frame[5];
        fault.pc = frame[6];
    }
    fault.sp = at;
    if (fault.cause & memory_address_valid) fault.address = reg(SCB_MMFAR);
    if (fault.cause & bus_address_valid) fault.address = reg(SCB_BFAR);
    hil_on_fault(fault);
    for (;;) {}
}

// newlib's heap, with a high-water mark. The firmware itself never allocates.
extern "C" void *_sbrk(ptrdiff_t increment) {
    if (heap_end == nullptr) heap_end = heap_start();
    uint8_t *stack = static_cast<uint8_t *>(__builtin_frame_address(0));
    const ptrdiff_t room_bytes = stack - heap_end - static_cast<ptrdiff_t>(HEAP_STACK_GAP_BYTES);
    if (increment > room_bytes) return reinterpret_cast<void *>(-1);
    uint8_t *block = heap_end;
    heap_end += increment;
    if (heap_end > heap_peak) heap_peak = heap_end;
    return block;
}

uint32_t hal::heap_peak_bytes() { return heap_peak == nullptr ? 0 : static_cast<uint32_t>(heap_peak - heap_start()); }

uint32_t hal::stack_peak_bytes() {
    const uint32_t *word = &_heap_start + (heap_peak_bytes() + 3) / 4;
    while (word < &_estack && *word == PAINT) ++word;
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&_estack) - reinterpret_cast<uintptr_t>(word));
}

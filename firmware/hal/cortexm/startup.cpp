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

// No store to the 32 bytes below the stack's room: an overflow faults instead of overwriting .bss.
// ENABLE and PRIVDEFENA keep the default memory map everywhere else.
void guard_stack() {
    using namespace cortexm;
    const uint32_t guard = reinterpret_cast<uint32_t>(&_guard);
    constexpr uint32_t enable = 1u;
    reg(MPU_RNR) = 0;
#if __ARM_ARCH >= 8
    constexpr uint32_t execute_never = 1u, read_only = 2u << 1;  // there is no region without any access
    reg(MPU_RBAR) = guard | read_only | execute_never;
    reg(MPU_RLAR) = guard | enable;
#elif __ARM_ARCH == 6
    // The smallest region has 256 bytes, in eight parts that are switched off one by one.
    constexpr uint32_t execute_never = 1u << 28, size_256_bytes = 7u << 1;
    const uint32_t other_parts = 0xFFu & ~(1u << (guard / 32 & 7));
    reg(MPU_RBAR) = guard & ~0xFFu;
    reg(MPU_RASR) = execute_never | other_parts << 8 | size_256_bytes | enable;
#else
    constexpr uint32_t execute_never = 1u << 28, size_32_bytes = 4u << 1;
    reg(MPU_RBAR) = guard;
    reg(MPU_RASR) = execute_never | size_32_bytes | enable;
#endif
    reg(MPU_CTRL) = (1u << 2) | 1u;
    barrier();
}

}  // namespace

// What ARMv6-M has no instructions for: long branches, moving pairs, conditions.
#if __ARM_ARCH == 6
#define HIL_GO(where) "ldr r2, =" where "\n\tbx r2\n\t"
#define HIL_COPY_PAIR "ldmia r0!, {r3, r4}\n\tstmia r1!, {r3, r4}\n\t"
#define HIL_PAINT_WORD "bhs 4f\n\tstmia r0!, {r2}\n\tb 1b\n4:\n\t"
#else
#define HIL_GO(where) "b " where "\n\t"
#define HIL_COPY_PAIR "ldrd r3, r4, [r0], #8\n\tstrd r3, r4, [r1], #8\n\t"
#define HIL_PAINT_WORD "itt lo\n\tstrlo r2, [r0], #4\n\tblo 1b\n\t"
#endif

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
    "beq 3f\n\t" HIL_COPY_PAIR "b 2b\n" \
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
                     "cmp r0, r1\n\t" HIL_PAINT_WORD HIL_COPIES HIL_GO("start") ".ltorg" ::"i"(PAINT));
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
                     "mov sp, r1\n\t" HIL_GO("report_fault") ".ltorg");
}

// `frame` is what the processor has pushed: r0 to r3, r12, lr, pc, xpsr.
extern "C" __attribute__((noreturn, used)) void report_fault(const uint32_t *frame) {
    using namespace cortexm;
    const uint32_t at = reinterpret_cast<uint32_t>(frame), end = reinterpret_cast<uint32_t>(&_estack);
    const bool readable = at < end && end - at >= 32 && at >= reinterpret_cast<uint32_t>(&_sdata);
    hal::Fault fault{};
#if __ARM_ARCH == 6
    const bool written = at >= reinterpret_cast<uint32_t>(&_heap_start);  // there is no register that says why
#else
    constexpr uint32_t memory_address_valid = 1u << 7, bus_address_valid = 1u << 15;
    constexpr uint32_t frame_not_written = 1u << 4 | 1u << 12;  // MSTKERR, STKERR: the guard has stopped that as well
    fault.cause = reg(SCB_CFSR);
    const bool written = !(fault.cause & frame_not_written);
#endif
    if (readable && written) {
        fault.lr = frame[5];
        fault.pc = frame[6];
    }
    fault.sp = at;
#if __ARM_ARCH != 6
    if (fault.cause & memory_address_valid) fault.address = reg(SCB_MMFAR);
    if (fault.cause & bus_address_valid) fault.address = reg(SCB_BFAR);
#endif
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

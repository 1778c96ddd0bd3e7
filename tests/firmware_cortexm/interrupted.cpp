// A long computation while bytes stream in: nothing of it may be lost, repeated or miscounted.
#include "report.hpp"

namespace {
volatile uint32_t bytes, sum;
volatile double scaled;
}  // namespace

extern "C" void hil_on_byte(uint8_t byte) {
    bytes = bytes + 1;
    sum = sum + byte;
    scaled = scaled + byte * 0.5;  // a handler may use the FPU
}

// The IT block straddles a page, where the emulator's basic blocks end. r0 turns; returns the sum of 1 or 3 per turn.
extern "C" uint32_t paged_loop(uint32_t turns);
#if __ARM_ARCH == 6  // no IT blocks; the loop crosses a page
__asm__(R"(
    .syntax unified
    .thumb_func
    .global paged_loop
    .balign 4096
    .space 3072
paged_loop:
    push {r4}
    movs r4, #0
1:
    .rept 1000
    nop
    .endr
    movs r1, #1
    tst r0, r1
    bne 3f
    adds r4, #2
3:  adds r4, #1
    subs r0, #1
    beq 2f
    b 1b
2:  mov r0, r4
    pop {r4}
    bx lr
)");
#else
__asm__(R"(
    .thumb_func
    .global paged_loop
    .balign 4096
paged_loop:
    push {r4}
    movs r4, #0
1:  
    .rept 2042
    nop
    .endr
    tst r0, #1
    ittt eq
    addeq r4, #1
    addeq r4, #1
    addeq r4, #1
    it ne
    addne r4, #1
    subs r0, #1
    bne.w 1b
    mov r0, r4
    pop {r4}
    bx lr
)");
#endif

int main() {
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    while (bytes == 0) {
    }
    hal::section_begin(1);
    double series = 0;
    for (int i = 1; i < 60000; ++i) series = series + 1.0 / i;
    const uint32_t turns = paged_loop(2000);
    hal::section_end();
    hal::rx_enable(false);
    put_u32(turns);
    put_u32(static_cast<uint32_t>(series * 1e8));
    put_u32(bytes);
    put_u32(sum);
    put_u32(static_cast<uint32_t>(scaled * 2));
    for (;;) {
    }
}

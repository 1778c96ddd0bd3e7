// Loops whose instructions can be counted by hand, each in a section of its own; reports the cycles of every section.
#include "report.hpp"

extern "C" void hil_on_byte(uint8_t) {}

extern "C" {
void plain_loop();
void it_loop();
void call_loop();
void table_loop();
}

#if __ARM_ARCH == 6  // as many instructions, without what ARMv6-M lacks
__asm__(R"(
    .syntax unified
    .thumb_func
    .global plain_loop
    .balign 16
plain_loop:
    ldr r0, =1000
1:  subs r0, #1
    bne 1b
    bx lr

    .thumb_func
    .global it_loop
    .balign 16
it_loop:
    ldr r0, =500
    movs r1, #0
1:  movs r2, #1
    tst r0, r2
    adds r1, #1
    adds r1, #2
    subs r0, #1
    bne 1b
    bx lr

    .thumb_func
    .global call_loop
    .balign 16
call_loop:
    push {r4, lr}
    ldr r4, =300
1:  bl 2f
    subs r4, #1
    bne 1b
    pop {r4, pc}
2:  push {r4, lr}
    muls r0, r4, r0
    pop {r4, pc}

    .thumb_func
    .global table_loop
    .balign 16
table_loop:
    movs r0, #100
1:  movs r1, #1
    ands r1, r0
    subs r0, #1
    bne 1b
    bx lr
    .ltorg
)");
#else
// 1 + 1000 * 2 + 1
__asm__(R"(
    .thumb_func
    .global plain_loop
    .balign 16
plain_loop:
    mov.w r0, #1000
1:  subs r0, #1
    bne 1b
    bx lr

@ 2 + 500 * 6 + 1: conditional instructions count whether or not they take effect
    .thumb_func
    .global it_loop
    .balign 16
it_loop:
    mov.w r0, #500
    movs r1, #0
1:  tst r0, #1
    ite eq
    addeq r1, #1
    addne r1, #2
    subs r0, #1
    bne 1b
    bx lr

@ 2 + 300 * (3 + 3) + 1
    .thumb_func
    .global call_loop
    .balign 16
call_loop:
    push {r4, lr}
    mov.w r4, #300
1:  bl 2f
    subs r4, #1
    bne 1b
    pop {r4, pc}
2:  push {r4, lr}
    mul r0, r4, r4
    pop {r4, pc}

@ 1 + 100 * 4 + 1
    .thumb_func
    .global table_loop
    .balign 16
table_loop:
    movs r0, #100
1:  and r1, r0, #1
    tbb [pc, r1]
2:  .byte (3f - 2b) / 2, (3f - 2b) / 2
3:  subs r0, #1
    bne 1b
    bx lr
)");
#endif

template <typename Body>
void timed(uint32_t tag, Body body) {
    hal::section_begin(tag);
    body();
    put_u32(hal::section_end());
}

int main() {
    hal::init();
    timed(1, plain_loop);
    timed(2, it_loop);
    timed(3, call_loop);
    timed(4, table_loop);
    hal::section_begin(5);
    __asm__ volatile(".syntax unified\n\t.rept 64\n\tadds r0, r0, r1\n\t.endr" ::: "r0", "cc");
    put_u32(hal::section_end());
    for (;;) {
    }
}

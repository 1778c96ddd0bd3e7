// What runs before avr-libc's own start-up copies .data: every function here is spliced into it, without a frame or a return.
#include <avr/io.h>
#include <avr/wdt.h>

#include "firmware/hal/atmega328p/paint.hpp"

// .init1: the stack pointer is that of a reset and nothing has been pushed yet.
extern "C" __attribute__((naked, used, section(".init1"))) void hal_paint_stack() {
    asm volatile("ldi r30, lo8(_end)\n"
                 "ldi r31, hi8(_end)\n"
                 "ldi r24, %[paint]\n"
                 "ldi r25, hi8(%[stop])\n"
                 "1: st Z+, r24\n"
                 "cpi r30, lo8(%[stop])\n"
                 "cpc r31, r25\n"
                 "brne 1b\n" ::[paint] "i"(hal::kStackPaint),
                 [stop] "i"(HIL_RAM_END + 1));
}

// .init3: a watchdog left on by a boot loader, or by the reset it has just caused, would soon reset the chip again.
extern "C" __attribute__((naked, used, section(".init3"))) void hal_stop_watchdog() {
    MCUSR = 0;  // WDRF holds WDE set (datasheet 10.9.2)
    wdt_disable();
}

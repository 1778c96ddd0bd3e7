// The part of the chip that every Cortex-M shares.
#define HIL_COPIES HIL_COPY("rodata")
// Behind a cache the second empty section must be the code of the first.
#define HIL_KEEP_LOOP(runs) __asm__("" : "+r"(runs))
#include "firmware/hal/cortexm/sections.cpp"
#include "firmware/hal/cortexm/startup.cpp"

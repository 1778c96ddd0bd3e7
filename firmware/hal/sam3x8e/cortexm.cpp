// The part of the chip that every Cortex-M shares.
#define HIL_COPIES HIL_COPY("rodata")
#include "firmware/hal/cortexm/sections.cpp"
#include "firmware/hal/cortexm/startup.cpp"

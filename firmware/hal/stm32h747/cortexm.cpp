// The part of the chip that every Cortex-M shares.
#define HIL_COPIES
#include "firmware/hal/cortexm/sections.cpp"
#include "firmware/hal/cortexm/startup.cpp"

// The part of the chip that every Cortex-M shares.
#define HIL_COPIES HIL_COPY("kernels") HIL_COPY("rodata")
#define HIL_COUNTER "firmware/hal/stm32/timer2.hpp"
#include "firmware/hal/cortexm/sections.cpp"
#include "firmware/hal/cortexm/startup.cpp"

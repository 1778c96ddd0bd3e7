// The part of the chip that every Cortex-M shares.
#define HIL_COPIES HIL_COPY("code") HIL_COPY("hot") HIL_COPY("rodata")
#include "firmware/hal/cortexm/sections.cpp"
#include "firmware/hal/cortexm/startup.cpp"

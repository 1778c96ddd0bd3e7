// The part of the chip that every Cortex-M shares.
#include "firmware/hal/stm32h747/cortexm.cpp"

// The same chip without a display controller; its board uses another USART.
#include "firmware/hal/stm32h747/hal.cpp"

// The interrupt lock of every Cortex-M.
#include "firmware/hal/hal.hpp"

hal::Lock::Lock() { __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(saved_)::"memory"); }

hal::Lock::~Lock() { __asm__ volatile("msr primask, %0" ::"r"(saved_) : "memory"); }

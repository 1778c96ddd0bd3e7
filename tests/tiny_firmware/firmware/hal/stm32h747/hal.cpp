#include "firmware/hal/cortexm/start.cpp"

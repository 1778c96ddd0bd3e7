// A simulated accelerator: its wire is that of this computer as a board, its clock that of its crossbars alone.
#define HIL_CLOCK_OF_CROSSBARS
#include "firmware/kernels/common/crossbar.hpp"

#include "firmware/hal/host/hal.cpp"

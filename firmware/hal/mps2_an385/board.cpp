// What both images of the MPS2 board share.
#include "firmware/hal/mps2/hal.cpp"

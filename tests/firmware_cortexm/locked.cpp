// Holds the interrupt lock while bytes arrive; reports how many were taken before, during and after.
#include "report.hpp"

namespace {
volatile uint32_t bytes;

void pause(uint32_t turns) {
    for (volatile uint32_t i = 0; i < turns; i = i + 1) {
    }
}
}  // namespace

extern "C" void hil_on_byte(uint8_t) { bytes = bytes + 1; }

int main() {
    uint32_t before, during;
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    while (bytes == 0) {
    }
    {
        hal::Lock outer;
        before = bytes;
        {
            hal::Lock inner;
            pause(1000);
        }
        pause(100000);
        during = bytes;
    }
    pause(1000);
    put_u32(before);
    put_u32(during);
    put_u32(bytes);
    for (;;) {
    }
}

// The heap's and the stack's watermark with malloc() in use.
#include "firmware/hal/hal.hpp"

#include <stdlib.h>

#include "print.hpp"

extern "C" void hil_on_byte(uint8_t) {}

int main() {
    hal::init();
    print_init();
    wait_for_host();
    auto *block = static_cast<volatile uint8_t *>(malloc(100));
    for (uint8_t i = 0; i < 100; ++i) block[i] = i;
    print_number(hal::heap_peak_bytes());
    print_number(hal::stack_peak_bytes());
    print_char('\n');
    print_end();
}

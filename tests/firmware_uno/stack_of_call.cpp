// How deep the stack gets in one call of an exported library: LIBRARY_run, LIBRARY_input, LIBRARY_output.
#include "print.hpp"

static LIBRARY(input) input[INPUTS];
static LIBRARY(output) output[OUTPUTS];

__attribute__((noinline)) static uint16_t touched() {
    constexpr uint16_t free = 500;
    volatile uint8_t *const top = reinterpret_cast<uint8_t *>(SP);
    for (uint16_t below = 0; below < free; ++below) top[-below] = 0xA5;
    LIBRARY(run)(input, output);
    uint16_t below = free;
    while (top[1 - below] == 0xA5) --below;
    return below;
}

int main() {
    print_init();
    wait_for_host();
    print_number(touched());
    print_char('\n');
    print_end();
}

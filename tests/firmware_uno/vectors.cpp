// Prints the numbers of the framing vectors that fail, then how many there are.
#include "tests/firmware_wire/vectors.hpp"

#include "print.hpp"

int main() {
    print_init();
    wait_for_host();
    const uint16_t count = run_vectors([](uint16_t number) { print_number(number); });
    print_number(count);
    print_char('\n');
    print_end();
}

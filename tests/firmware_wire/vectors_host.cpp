// Prints how many framing vectors there are, then the numbers of those that fail.
#include "tests/firmware_wire/vectors.hpp"

#include <stdio.h>

int main() {
    static uint16_t failed[1000];
    unsigned count = 0;
    printf("%u", run_vectors([&count](uint16_t number) { failed[count++] = number; }));
    for (unsigned i = 0; i < count; ++i) printf(" %u", failed[i]);
    printf("\n");
}

// The same messages from standard input, of up to 255 pairs.
#include <stdio.h>

#include "model/vectors.hpp"

namespace hil {
uint32_t saturations;
const void *next_step() { return nullptr; }
}

void vectors::answer(uint32_t result, uint8_t saturations) {
    fwrite(&result, 4, 1, stdout);
    putchar(saturations);
}

int main() {
    vectors::Pair pairs[255];
    for (int index = getchar(), count; index >= 0; index = getchar()) {
        count = getchar();
        if (fread(pairs, sizeof(vectors::Pair), static_cast<size_t>(count), stdin) != static_cast<size_t>(count)) return 1;
        vectors::respond(static_cast<uint8_t>(index), pairs, static_cast<uint8_t>(count));
    }
}

// Runs the cases on the desktop: everything they report goes to standard output.
#include <stdio.h>

#include "model/cases.hpp"

namespace hil {
uint32_t saturations;
const void *next_step() { return nullptr; }
}

void report(uint8_t byte) { putchar(byte); }
void section(uint32_t) {}

int main() { run_cases(); }

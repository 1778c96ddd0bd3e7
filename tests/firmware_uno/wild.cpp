// An access beyond RAMEND, by a pointer the compiler cannot see through.
#include "print.hpp"

int main() {
    print_init();
    wait_for_host();
    print_flash(PSTR("before\n"));
    volatile uint16_t address = RAMEND + 1;
    auto *wild = reinterpret_cast<volatile uint8_t *>(address);
#if WILD_WRITE
    *wild = 1;
#else
    print_number(*wild);
#endif
    print_flash(PSTR("after\n"));
    print_end();
}

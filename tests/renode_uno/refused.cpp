// Asks for something that the ATmega328P of emulators/renode does not have.
#include "tests/firmware_uno/print.hpp"

int main() {
    print_init();
    wait_for_host();
    print_flash(PSTR("before\n"));
    REQUEST;
    print_flash(PSTR("after\n"));
    print_end();
}

#include <stdint.h>

extern "C" {
extern uint32_t _sidata, _sdata, _edata, _sbss, _ebss, _estack;
int main();
void reset_handler();
}

void reset_handler() {
    for (uint32_t *from = &_sidata, *to = &_sdata; to < &_edata;) *to++ = *from++;
    for (uint32_t *to = &_sbss; to < &_ebss;) *to++ = 0;
    main();
}

extern "C" __attribute__((section(".vectors"), used)) const void *const vectors[2] = {
    &_estack, reinterpret_cast<const void *>(&reset_handler)};

// Does what the received letter says, all of it forbidden.
#include "report.hpp"

namespace {

volatile int command = -1;
volatile uint32_t depth_limit = 1000000;

void poke(uint32_t address) { *reinterpret_cast<volatile uint32_t *>(address) = 1; }

__attribute__((noinline)) uint32_t overflow(uint32_t depth) {
    volatile uint32_t frame[64];
    frame[depth & 63] = depth;
    return depth == depth_limit ? 0 : overflow(depth + 1) + frame[depth & 63];
}

}  // namespace

extern "C" void hil_on_byte(uint8_t byte) { command = byte; }

extern "C" uint32_t vectors[];

int main() {
    hal::init();
    hal::rx_enable(true);
    hal::put('R');
    while (command < 0) {
    }
    switch (command) {
        case 'f':
            __asm__ volatile(".global write_flash_here\nwrite_flash_here: str %1, [%0]" ::"r"(vectors + 256), "r"(1));
            break;
        case 'u':
            __asm__ volatile(".global read_unmapped_here\nread_unmapped_here: ldr %0, [%1]" ::"r"(0), "r"(0x90000000));
            break;
        case 'i':
            __asm__ volatile(".global undefined_here\nundefined_here: udf #0");
            break;
        case 's':
            put_u32(overflow(0));
            break;
        case 'p':
            poke(0x5802480C);
            break;
        case 'r':
            *reinterpret_cast<volatile uint32_t *>(0xE000ED0C) = 0x05FA0004;
            break;
    }
    hal::put('?');
    for (;;) {
    }
}

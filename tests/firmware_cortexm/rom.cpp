// What firmware of others asks an RP2040 for: functions of the boot ROM by their names, SIO's divider and spin locks, a PLL; words of it.
#include "report.hpp"

namespace {
template <class F>
F *rom(char a, char b) {
    uintptr_t start = 0;
    __asm__("" : "+r"(start)); // that an object may lie there is nothing that the compiler believes
    const auto half = [start](uint32_t at) { return static_cast<uint32_t>(*reinterpret_cast<const volatile uint16_t *>(start + at)); };
    const auto lookup = reinterpret_cast<uint32_t (*)(uint32_t, uint32_t)>(half(0x18));
    return reinterpret_cast<F *>(lookup(half(0x14), uint32_t(a) | uint32_t(b) << 8));
}

volatile uint32_t &sio(uint32_t offset) { return *reinterpret_cast<volatile uint32_t *>(0xD0000000 + offset); }

void divide(uint32_t first, uint32_t a, uint32_t b) {
    sio(first) = a;
    sio(first + 4) = b;
    put_u32(sio(0x78) & 1 ? sio(0x74) : 0xBAD);
    put_u32(sio(0x70));
}
}  // namespace

extern "C" void hil_on_byte(uint8_t) {}

int main() {
    using Bits = uint32_t(uint32_t);
    hal::init();
    hal::rx_enable(true);
    uint8_t bytes[12] = {};
    rom<void *(void *, int, uint32_t)>('M', 'S')(bytes + 1, 0xA5, 3);
    rom<void *(void *, const void *, uint32_t)>('M', 'C')(bytes + 6, bytes + 2, 3);
    for (int i = 0; i < 3; ++i) {
        uint32_t word = 0;
        for (int j = 3; j >= 0; --j) word = word << 8 | bytes[4 * i + j];
        put_u32(word);
    }
    static const char names[] = {'P', 'L', 'T', 'R'};
    for (const char name : names) put_u32(rom<Bits>(name, '3')(0x00012340));
    put_u32(rom<Bits>('L', '3')(0));
    put_u32(rom<Bits>('T', '3')(0));
    put_u32(reinterpret_cast<uintptr_t>(rom<Bits>('?', '?')));
    divide(0x60, 0xFFFFFFFF, 7);
    divide(0x68, uint32_t(-100), 7);
    divide(0x68, 0x80000000, uint32_t(-1));
    divide(0x60, 5, 0);
    divide(0x68, uint32_t(-5), 0);
    put_u32(sio(0x100 + 4 * 9));
    put_u32(sio(0x100 + 4 * 9));
    sio(0x100 + 4 * 9) = 1;
    put_u32(sio(0x100 + 4 * 9));
    put_u32(*reinterpret_cast<volatile uint32_t *>(0x4002C000) >> 31);
    put_u32(*reinterpret_cast<volatile uint32_t *>(0x50110000));
    for (;;) {
    }
}

// Reports PWR_CR3 as it is after hal::init(); a received letter asks for the LDO, which is too late by then.
#include "report.hpp"

namespace {

volatile int command = -1;

volatile uint32_t &pwr_cr3() { return *reinterpret_cast<volatile uint32_t *>(0x5802480C); }

}  // namespace

extern "C" void hil_on_byte(uint8_t byte) { command = byte; }

int main() {
    hal::init();
    hal::rx_enable(true);
    put_u32(pwr_cr3());
    while (command < 0) {
    }
    pwr_cr3() = 2;
    put_u32(pwr_cr3());
    for (;;) {
    }
}

// Runs the cases on a board each time it receives a byte: everything they report goes to the wire.
#include "firmware/hal/hal.hpp"
#include "firmware/kernels/common/numeric.hpp"
#include "model/cases.hpp"

namespace hil {
uint32_t saturations;
const void *next_step() { return nullptr; }
}

extern "C" {
extern const volatile uint8_t hil_image_hash[8] HIL_FLASH;
const volatile uint8_t hil_image_hash[8] HIL_FLASH = {0};

static volatile bool asked;
void hil_on_byte(uint8_t) { asked = true; }
}

void report(uint8_t byte) { hal::put(byte); }
void section(uint32_t tag) {
    if (tag > 0) hal::section_begin(tag);
    else hal::section_end();
}

int main() {
    hal::init();
    hal::rx_enable(true);
    for (;;) {
        while (!asked) hal::idle(true);
        asked = false;
        run_cases();
        // keep the image hash: the linker drops what nobody reads
        if (hil::flash(const_cast<const uint8_t *>(hil_image_hash))[0] == 0 && asked) report(0);
    }
}

// Dense layers with constants in flash, one per format; for each: the results' bytes, then the ticks of the layer (u32).
// model/layers.hpp, made by the test, has the constants and run_layers().
#include "firmware/hal/hal.hpp"
#include "firmware/kernels/kernels.hpp"
#include "firmware/kernels/common/quire.hpp"

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

static void report(uint32_t word, uint8_t bytes) {
    for (; bytes > 0; --bytes, word >>= 8) hal::put(static_cast<uint8_t>(word));
}

template <class Acc, class T>
__attribute__((noinline)) void layer(uint32_t tag, T *out, const T *weights, const T *x, hil::Size outputs, hil::Size inner) {
    hal::section_begin(tag);
    hil::dense<Acc>(out, hil::flash(weights), hil::ram(x), hil::Size(1), outputs, inner, hil::Const<0>());
    const uint32_t ticks = hal::section_end();
    for (hil::Size i = 0; i < outputs * sizeof(T); ++i) report(reinterpret_cast<const uint8_t *>(out)[i], 1);
    report(ticks, 4);
}

alignas(4) static uint8_t operand[1024], result[64];

template <class T>
T *in_ram(const uint8_t *from, hil::Size bytes) {
    for (hil::Size i = 0; i < bytes; ++i) operand[i] = hil::flash(from)[i];
    return reinterpret_cast<T *>(operand);
}

#include "model/layers.hpp"

int main() {
    hal::init();
    hal::rx_enable(true);
    while (!asked) hal::idle(true);
    run_layers();
    report(0, 1);  // the desktop sends at a zero
    // keep the image hash: the linker drops what nobody reads
    if (hil::flash(const_cast<const uint8_t *>(hil_image_hash))[0] == 0 && !asked) report(0, 1);
    for (;;) hal::idle(true);
}

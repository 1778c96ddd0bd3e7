// Loops in place of a model, whose cycles show what the model of a Cortex-M3 must take from documents: how flash and RAM
// are waited for. A sample is the number of a loop; its timed section is TURNS turns of it. `hil calibrate-cycles` compares.
#include "model/model.hpp"

#include <string.h>

namespace model {
namespace {

constexpr uint32_t TURNS = 2000, CODE_BYTES = 32;

alignas(16) const uint32_t in_flash[64] = {1, 2, 3};  // 16 lines of 16 bytes
alignas(16) uint32_t in_ram[64];
alignas(16) uint8_t code_in_ram[CODE_BYTES];
uint8_t sample[4];

}  // namespace

// clang-format off
#define HIL_LOOP(name, before, body) \
    ".balign 16\n.rept " before "\nnop\n.endr\n" \
    ".global " name "\n.type " name ", %function\n.thumb_func\n" name ":\n" \
    body "\nsubs r0, #1\nbne " name "\nbx lr\n"
#define HIL_SUMS "adds r2, #1\nadds r2, #1\nadds r2, #1\nadds r2, #1"
// r0: turns, r1: data; r2, r3 and r12 are free
__asm__(
    ".syntax unified\n.thumb\n.section .text.hil_loops,\"ax\",%progbits\n"
    HIL_LOOP("hil_loop_aligned", "0", HIL_SUMS)
    HIL_LOOP("hil_loop_crossing", "6", HIL_SUMS)
    HIL_LOOP("hil_loop_straight", "0", ".rept 32\nadd.w r2, r2, #1\n.endr")
    HIL_LOOP("hil_loop_products", "0", ".rept 4\nldrsb.w r2, [r1]\nldrsb.w r3, [r1, #1]\nmla r12, r2, r3, r12\n.endr")
    HIL_LOOP("hil_loop_data", "0", "ldr r2, [r1]\nldr r2, [r1, #16]\nldr r2, [r1, #32]\nldr r2, [r1, #48]")
    ".text\n");
// clang-format on

extern "C" {
void hil_loop_aligned(uint32_t turns, const void *data);
void hil_loop_crossing(uint32_t turns, const void *data);
void hil_loop_straight(uint32_t turns, const void *data);
void hil_loop_products(uint32_t turns, const void *data);
void hil_loop_data(uint32_t turns, const void *data);
}

uint8_t *sample_in_arena() { return sample; }

void run(const uint8_t *input, uint8_t *output) {
    using Loop = void (*)(uint32_t, const void *);
    switch (input[0]) {
    case 0: hil_loop_aligned(TURNS, in_ram); break;
    case 1: hil_loop_crossing(TURNS, in_ram); break;
    case 2: hil_loop_straight(TURNS, in_ram); break;
    case 3: hil_loop_products(TURNS, in_ram); break;
    case 4: hil_loop_data(TURNS, in_flash); break;
    case 5: {
        const uintptr_t code = reinterpret_cast<uintptr_t>(&hil_loop_aligned) & ~uintptr_t{1};
        memcpy(code_in_ram, reinterpret_cast<const void *>(code), CODE_BYTES);
        __asm__ volatile("dsb\n\tisb" ::: "memory");
        reinterpret_cast<Loop>(reinterpret_cast<uintptr_t>(code_in_ram) | 1)(TURNS, in_ram);
        break;
    }
    default: break;
    }
    memcpy(output, &TURNS, sizeof TURNS);
}

}  // namespace model

// What the kernels of chips with 32-bit registers make of sums that an activation limits, against the plain saturation: the ends of
// each activation lie within a byte, at one of its ends, or beyond. Fails with the number of differences.
#include "firmware/kernels/kernels.hpp"

namespace hil {
uint32_t saturations;
const void *next_step() { return nullptr; }
}  // namespace hil

namespace {

int differences = 0;

template <int32_t Low, int32_t High>
void try_ends() {
    using namespace hil;
    using Out = Within<int8_t, Low, High>;
    using Rounded = Together<Out, RightRounding>;
    for (int32_t value = -1000; value <= 1000; ++value) {
        saturations = 0;
        const Out wanted = saturate<Out>(value);
        const uint32_t count = saturations;
        saturations = 0;
        differences += limited<Out>(value).element != wanted.element || saturations != count;
        saturations = 0;
        const RightRounding whole = {0, 0};
        int32_t seen = 0;
        Out found = Rounded::of(value, whole, seen);
        if (Rounded::any(seen)) found = Rounded::again(value, whole);
        differences += found.element != wanted.element || saturations != count;
    }
}
template <int32_t Low>
void try_low() {
    try_ends<Low, 100>();
    try_ends<Low, 126>();
    try_ends<Low, 127>();
    try_ends<Low, 128>();
    try_ends<Low, 2000>();
}

}  // namespace

int main() {
    try_low<-2000>();
    try_low<-129>();
    try_low<-128>();
    try_low<-127>();
    try_low<-106>();
    try_low<0>();
    try_low<99>();
    return differences != 0;
}

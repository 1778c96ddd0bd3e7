// Objects and code that must lie at multiples of 16 to 64: wherever they are, they are used; then echo.cpp.
#include "tests/firmware_cortexm/echo.cpp"

#define HELD __attribute__((noinline, used, aligned(64)))
static const int8_t odd[5] = {1, 2, 3, 4, 5};
alignas(32) static const int32_t wide[3] = {11, 22, 33};
alignas(16) static const int8_t bytes[20] = {7, 0, 9};
alignas(32) static int32_t given[3] = {44, 55, 66};
alignas(16) static int8_t empty[20];
HELD static int32_t added(int32_t a) { return a + 1; }
template <class T>
static T *hidden(T *x) {
    __asm__ volatile("" : "+r"(x));
    return x;
}
static bool is_at(const void *x, uintptr_t unit) { return reinterpret_cast<uintptr_t>(x) % unit == 0; }
__attribute__((constructor)) static void look() {
    const int32_t sum = hidden(wide)[2] + hidden(bytes)[2] + hidden(given)[1] + hidden(empty)[19] + hidden(odd)[4];
    const bool right = is_at(hidden(wide), 32) && is_at(hidden(bytes), 16) && is_at(hidden(given), 32) && is_at(hidden(empty), 16);
    const uintptr_t code = reinterpret_cast<uintptr_t>(hidden(&added)) & ~uintptr_t(1);
    while (!right || code % 64 != 0 || added(sum) != 103) {}
}

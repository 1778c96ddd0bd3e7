/* Samples that lie in the program through a library: a line for each, its class and output codes in decimal. Where
   there is no operating system it starts itself, and prints by what the emulator offers. */
#include "app_model.h"
#include "samples.h"

static MODEL(_output) result[MODEL_OUTPUTS];

#if defined(__arm__) && !defined(__ZEPHYR__)
static long semihosting(long operation, const void *argument) {
    register long r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory", "lr");
    return r0;
}
static void put(const char *text) { semihosting(4, text); }
static void end(void) { semihosting(0x18, (const void *)0x20026); }
#elif defined(__riscv)
static long call(long number, long a, const void *b, long c) {
    register long a0 __asm__("a0") = a;
    register const void *a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}
static void put(const char *text) {
    long length = 0;
    while (text[length]) ++length;
    call(64, 1, text, length);
}
static void end(void) { call(93, 0, 0, 0); }
void *memcpy(void *to, const void *from, unsigned long bytes) {
    while (bytes--) ((volatile uint8_t *)to)[bytes] = ((const uint8_t *)from)[bytes];
    return to;
}
void *memset(void *to, int value, unsigned long bytes) {
    while (bytes--) ((volatile uint8_t *)to)[bytes] = (uint8_t)value;
    return to;
}
#else
#include <stdio.h>
static void put(const char *text) { fputs(text, stdout); }
#endif

static void number(long value) {
    char text[24], *at = text + sizeof text;
    unsigned long rest = value < 0 ? 0ul - (unsigned long)value : (unsigned long)value;
    *--at = 0;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0) *--at = '-';
    put(at);
}

static void judge(void) {
    unsigned long n, m;
    for (n = 0; n < sizeof samples / sizeof samples[0]; ++n) {
        number(MODEL(_run)(samples[n], result));
        for (m = 0; m < MODEL_OUTPUTS; ++m) {
            put(" ");
            number((long)result[m]);
        }
        put("\n");
    }
}

#if defined(__arm__) && !defined(__ZEPHYR__)
extern uint32_t _estack, _sidata, _sdata, _edata, _sbss, _ebss;
void reset_handler(void) {
    uint32_t *from = &_sidata, *to = &_sdata;
    while (to < &_edata) *to++ = *from++;
    for (to = &_sbss; to < &_ebss;) *to++ = 0;
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* FPU on */
    __asm__ volatile("dsb\nisb");
#endif
    judge();
    end();
    for (;;) {
    }
}
__attribute__((section(".isr_vector"), used)) static void *const vectors[2] = {&_estack, (void *)reset_handler};
#elif defined(__riscv)
__attribute__((used)) void started(void) {
    judge();
    end();
}
__asm__(".globl _start\n_start:\n.option push\n.option norelax\nla gp, __global_pointer$\n.option pop\nj started\n");
#else
int main(void) {
    judge();
    return 0;
}
#endif

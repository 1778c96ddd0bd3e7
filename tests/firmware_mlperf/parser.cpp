// The protocol's parser alone: characters from standard input, answers to standard output. The device is a made-up one.
#include <stdio.h>
#include <stdlib.h>

#include "firmware/mlperf/protocol.hpp"

#ifndef HEARS
#define HEARS false
#endif

struct Device {
    static constexpr uint32_t input_bytes = 40;
    static constexpr bool hears = HEARS;
    static uint8_t bytes[input_bytes];
    static uint32_t inferences;

    static const char *id() { return "kws01"; }
    static uint8_t image(uint8_t i) { return i; }
    static void put(char c) { putchar(c); }
    static void load(uint32_t position, uint8_t byte) {
        if (position >= input_bytes) abort();
        bytes[position] = byte;
    }
    static uint8_t byte_at(uint32_t position) {
        if (position >= input_bytes) abort();
        return bytes[position];
    }
    static void infer() { ++inferences; }
    static void frame() { printf("m-features-[%d]\r\n", bytes[0] + 256 * bytes[1]); }
    static bool interrupted() { return inferences >= 5000; }
    static void timestamp() { printf("m-lap-us-%u\r\n", inferences); }
    static void results() { printf("m-results-[0.5]\r\n"); }
};

uint8_t Device::bytes[Device::input_bytes];
uint32_t Device::inferences;

int main() {
    mlperf::Protocol<Device> protocol;
    for (int c = getchar(); c != EOF; c = getchar()) {
        Device::inferences = 0;
        protocol.feed(static_cast<char>(c));
    }
}

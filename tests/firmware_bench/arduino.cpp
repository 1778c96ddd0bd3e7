/* The engine by hand as an Arduino sketch: the two files of firmware/bench/ and engine.c beside it, at 115200 Bd of Serial. */
#include <Arduino.h>

#include "firmware/bench/hil_bench.h"

HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")

static int get() { return Serial.read(); }
static void put(uint8_t byte) { Serial.write(byte); }
static uint32_t ticks() { return micros(); }

void setup() {
    static hil_bench bench;
    bench.clock_hz = 1000000;
    bench.sample_bytes = 8;
    bench.output_bytes = 6;
    bench.get = get;
    bench.put = put;
    bench.ticks = ticks;
    Serial.begin(115200);
    hil_bench_serve(&bench);
}

void loop() {}

/* The engine by hand in Zephyr, on the port that a board's device tree chooses for its console, which prj.conf turns off:
 *     find_package(Zephyr REQUIRED)
 *     target_sources(app PRIVATE zephyr.c engine.c .../firmware/bench/hil_bench.c) */
#include "firmware/bench/hil_bench.h"
#include <device.h>
#include <drivers/uart.h>
#include <zephyr.h>

HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")

static const struct device *port;

static int get(void) {
    unsigned char byte;
    return uart_poll_in(port, &byte) == 0 ? byte : -1;
}
static void put(uint8_t byte) { uart_poll_out(port, byte); }
static uint32_t ticks(void) { return k_cycle_get_32(); }

void main(void) {
    const struct hil_bench bench = {
        .clock_hz = sys_clock_hw_cycles_per_sec(), .sample_bytes = 8, .output_bytes = 6, .get = get, .put = put, .ticks = ticks};
    port = device_get_binding(DT_LABEL(DT_CHOSEN(zephyr_console)));
    hil_bench_serve(&bench);
}

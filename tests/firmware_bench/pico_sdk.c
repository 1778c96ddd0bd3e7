/* The engine by hand with pico-sdk, on a Pico's UART0:
 *     add_executable(engine pico_sdk.c engine.c .../firmware/bench/hil_bench.c)
 *     target_link_libraries(engine pico_stdlib) */
#include "firmware/bench/hil_bench.h"
#include "hardware/timer.h"
#include "hardware/uart.h"
#include "pico/stdlib.h"

HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")

static int get(void) { return uart_is_readable(uart0) ? uart_getc(uart0) : -1; }
static void put(uint8_t byte) { uart_putc_raw(uart0, (char)byte); }

int main(void) {
    const struct hil_bench bench = {
        .clock_hz = 1000000, .sample_bytes = 8, .output_bytes = 6, .get = get, .put = put, .ticks = time_us_32};
    uart_init(uart0, 115200);
    gpio_set_function(0, GPIO_FUNC_UART);
    gpio_set_function(1, GPIO_FUNC_UART);
    hil_bench_serve(&bench);
}

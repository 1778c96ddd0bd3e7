// A board that answers MLPerf Tiny's runner. Included by main.cpp alone, in place of firmware/wire/session.cpp.
// What is known of the benchmark is generated (model/benchmark.hpp): who it is, what its bytes mean to the model.
#pragma once
#include "firmware/hal/hal.hpp"
#include "firmware/mlperf/protocol.hpp"
#include "firmware/wire/identity.hpp"
#include "model/benchmark.hpp"
#include "model/model.hpp"

namespace mlperf {
namespace {

alignas(4) uint8_t input_memory[(model::sample_bytes + 3) / 4 * 4];
alignas(4) uint8_t output_memory[(model::output_bytes + 3) / 4 * 4];
// As they came, where they are real numbers or samples
alignas(4) uint8_t received[benchmark::reals || benchmark::hears ? benchmark::input_bytes : 4];

// What the receive interrupt has taken and the main loop has not yet. A byte that is no text becomes '?', line ends and
// other control characters are left out. If a byte is lost the command it belonged to is not one any more: '?' as well.
struct {
    volatile uint8_t bytes[256];
    volatile uint8_t head, tail;
    volatile bool lost;
} ring;

struct Device {
    static constexpr uint32_t input_bytes = benchmark::input_bytes;
    static constexpr bool hears = benchmark::hears;

    static const char *id() { return benchmark::id; }
    static uint8_t image(uint8_t i) { return hil::Flash<uint8_t>{const_cast<const uint8_t *>(hil_image_hash)}[i]; }
    static void put(char c) { hal::put(static_cast<uint8_t>(c)); }

    static void load(uint32_t position, uint8_t byte) {
        if (benchmark::hears) {
            received[position] = byte;
        } else if (benchmark::reals) {
            received[position] = byte;
            if (position % 4 == 3) benchmark::store(input_memory, position / 4, real_at(position / 4));
        } else {
            codes_of_input()[benchmark::place(position)] = hil::flash(benchmark::codes)[byte];
        }
    }

    // Of bytes that mean the same to the model: the first.
    static uint8_t byte_at(uint32_t position) {
        if (benchmark::reals || benchmark::hears) return received[position];
        const benchmark::Code code = codes_of_input()[benchmark::place(position)];
        uint8_t byte = 0;
        while (byte < 255 && hil::flash(benchmark::codes)[byte] != code) ++byte;
        return byte;
    }

    static void infer() {
        hal::gate(true);
        model::run(input_memory, output_memory);
        hal::gate(false);
        advance();
    }

    static bool interrupted() { return ring.head != ring.tail; }

    // In energy mode an edge for the meter, else microseconds (the clock is read at least once per inference: it never
    // turns over unseen).
    static void timestamp() {
        if (benchmark::energy) return hal::pulse();
        advance();
        Printer<Device>::text("m-lap-us-");
        Printer<Device>::number(static_cast<uint32_t>(elapsed / (hal::clock_hz() / 1000000)));
        Printer<Device>::end_line();
    }

    static void results() {
        Printer<Device>::text("m-results-[");
        if (benchmark::reals) {
            Printer<Device>::real(mean_squared_error());
        } else {
            for (uint16_t i = benchmark::bands; i < benchmark::outputs; ++i) {
                if (i > benchmark::bands) put(',');
                Printer<Device>::real(benchmark::real(output_memory, i));
            }
        }
        Printer<Device>::line("]");
    }

    // Nothing was heard yet: rows of codes 0, as the reference firmware begins.
    static void silence() {
        for (uint16_t i = 0; i < benchmark::window; ++i) benchmark::store(input_memory, i, 0);
        const float row = static_cast<float>(-benchmark::zero) * benchmark::scale;
        for (uint32_t i = 0; i < rows_of_input; ++i) benchmark::store(input_memory, benchmark::window + i, row);
    }

    // The samples become the end of the window, what is computed of it the newest row.
    static void frame() {
        benchmark::Code *const window = codes_of_input(), *const row = window + benchmark::window;
        const uint16_t old = static_cast<uint16_t>(benchmark::window - benchmark::hop);
        for (uint16_t i = 0; i < old; ++i) window[i] = window[i + benchmark::hop];
        for (uint16_t i = 0; i < benchmark::hop; ++i) {
            const int16_t sample = static_cast<int16_t>(static_cast<uint16_t>(received[2 * i] | received[2 * i + 1] << 8));
            benchmark::store(input_memory, static_cast<uint32_t>(old + i), static_cast<float>(sample) * (1.0f / 32768));
        }
        timestamp();
        infer();
        timestamp();
        tell("m-features-[", 0, benchmark::bands, benchmark::scale, benchmark::zero);
        tell("m-activations-[", benchmark::bands, benchmark::outputs, 1.0f / 256, -128);
        for (uint32_t i = 0; i + benchmark::bands < rows_of_input; ++i) row[i] = row[i + benchmark::bands];
        for (uint16_t i = 0; i < benchmark::bands; ++i) {
            const uint32_t place = benchmark::window + rows_of_input - benchmark::bands + i;
            benchmark::store(input_memory, place, benchmark::real(output_memory, i));
        }
    }

private:
    static constexpr uint32_t rows_of_input = static_cast<uint32_t>(benchmark::rows) * benchmark::bands;
    static uint64_t elapsed;
    static uint32_t last;

    // Results as codes of a scale
    static void tell(const char *name, uint16_t first, uint16_t end, float scale, int zero) {
        Printer<Device>::text(name);
        for (uint16_t i = first; i < end; ++i) {
            if (i > first) Printer<Device>::text(", ");
            const float units = benchmark::real(output_memory, i) / scale;
            const int32_t code = static_cast<int32_t>(units < 0 ? units - 0.5f : units + 0.5f) + zero;
            Printer<Device>::whole(code < -128 ? -128 : code > 127 ? 127 : code);
        }
        Printer<Device>::line("]");
    }

    static benchmark::Code *codes_of_input() { return reinterpret_cast<benchmark::Code *>(input_memory); }

    static void advance() {
        const uint32_t now = hal::ticks();
        elapsed += static_cast<uint32_t>(now - last);
        last = now;
    }

    static float real_at(uint32_t index) {
        float value;
        __builtin_memcpy(&value, received + 4 * index, 4);
        return value;
    }

    // Of an autoencoder: between what it was given and what it makes of it.
    static float mean_squared_error() {
        float sum = 0;
        for (uint16_t i = 0; i < benchmark::outputs; ++i) {
            const float difference = real_at(i) - benchmark::real(output_memory, i);
            sum += difference * difference;
        }
        return sum / static_cast<float>(benchmark::outputs);
    }
};

uint64_t Device::elapsed;
uint32_t Device::last;

Protocol<Device> protocol;

}  // namespace

// A board that is reset by whoever opens its port says nothing at first: its runner takes the next "m-ready" for the answer
// to its first command.
inline void serve() {
    hal::init();
    hal::rx_enable(true);
    if (benchmark::hears) Device::silence();
    if (benchmark::greets) {
        Printer<Device>::line(benchmark::energy ? "m-timestamp-mode-energy" : "m-timestamp-mode-performance");
        Printer<Device>::line("m-init-done");
        Printer<Device>::line("m-ready");
    }
    for (;;) {
        hal::idle(ring.head == ring.tail);
        if (ring.head == ring.tail) continue;
        const uint8_t byte = ring.bytes[ring.tail];
        ring.tail = static_cast<uint8_t>(ring.tail + 1);
        if (ring.lost) {
            ring.lost = false;
            protocol.feed('?');
        }
        protocol.feed(static_cast<char>(byte));
    }
}

}  // namespace mlperf

namespace hil {
const void *next_step() { return nullptr; }  // nothing is streamed here
}  // namespace hil

extern "C" void hil_on_byte(uint8_t byte) {
    using mlperf::ring;
    if (byte < ' ') return;
    const uint8_t next = static_cast<uint8_t>(ring.head + 1);
    if (next == ring.tail) {
        ring.lost = true;
        return;
    }
    ring.bytes[ring.head] = byte < 0x7F ? byte : '?';
    ring.head = next;
}

// Told once: the runner's own deadline does the rest.
extern "C" void hil_on_fault(const hal::Fault &fault) {
    using Out = mlperf::Printer<mlperf::Device>;
    Out::text("e-[Processor fault at pc ");
    Out::number(fault.pc);
    Out::line("]");
    for (;;) {}
}

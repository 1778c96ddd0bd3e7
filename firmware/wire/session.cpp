// One session with the host: inputs arrive in chunks with explicit (sample, chunk) ids and credits, are computed in
// order, and each result is kept until the host has moved on. docs/protocol.md tells the whole story.
#include "firmware/wire/session.hpp"

#include "firmware/hal/hal.hpp"
#include "firmware/kernels/common/numeric.hpp"
#include "firmware/wire/framer.hpp"
#include "firmware/wire/identity.hpp"
#include "firmware/wire/input.hpp"
#include "firmware/wire/messages.hpp"

namespace wire {
namespace {

using namespace model;  // sample_bytes, chunk_bytes, slots, streamed, input_in_arena, output_bytes: generated

constexpr uint16_t chunks_per_sample = (sample_bytes + chunk_bytes - 1) / chunk_bytes;
constexpr uint32_t slot_bytes = streamed ? chunk_bytes : sample_bytes;
constexpr uint8_t last_chunk_bytes = sample_bytes - static_cast<uint32_t>(chunks_per_sample - 1) * chunk_bytes;
constexpr uint8_t data_header = 5;  // type, sample, chunk

// Results that are kept. The host sends nothing of sample s + result_slots before it has the result of s.
constexpr uint8_t result_slots = slots == 1 && !streamed ? 1 : 2;

alignas(4) uint8_t slot_memory[slots][(slot_bytes + 3) / 4 * 4];
alignas(4) uint8_t output_memory[result_slots][(output_bytes + 3) / 4 * 4];

// A sample in the arena is written over while it is computed. No other is received meanwhile: its slot is the only one.
inline uint8_t *slot(uint8_t number) { return input_in_arena ? sample_in_arena() : slot_memory[number]; }
static_assert(!input_in_arena || (slots == 1 && !streamed), "a sample in the arena has no second slot");

enum Event : uint8_t { damaged = 1, gap = 2, repeated = 4 };

// What the receive interrupt writes. The main loop reads it under a Lock, except single volatile bytes.
struct Inbox {
    Decoder decoder;
    uint8_t type;                     // 0: no room when the frame began, none of it is kept
    uint8_t header[4];
    uint8_t control[4];               // payload of a message other than data
    volatile uint8_t control_type;    // 0: free
    volatile uint8_t events;
    volatile uint8_t filled;          // complete slots not yet computed
    uint8_t fill_slot;                // the slot being filled
    uint16_t sample, chunk;           // what is expected next
    uint8_t *write;
    uint8_t room;                     // payload bytes of the expected chunk
    uint16_t damaged_frames;

    void expect() { room = chunk + 1 == chunks_per_sample ? last_chunk_bytes : chunk_bytes; }

    void restart() {
        events = filled = fill_slot = 0;
        sample = chunk = 0;
        write = slot(0);
        expect();
    }

    void byte(uint8_t index, uint8_t value) {
        if (index == 0) {
            const bool has_room = value == data ? filled < slots : control_type == 0;
            type = has_room ? value : 0;
        } else if (type == data) {
            if (index < data_header) header[index - 1] = value;
            else if (index - data_header < room) write[index - data_header] = value;
        } else if (type != 0 && index <= sizeof control) {
            control[index - 1] = value;
        }
    }

    void end(bool valid, uint8_t length) {
        if (!valid) {
            if (length == 0) return;  // delimiters in a row
            events |= damaged;
            ++damaged_frames;
        } else if (type != data) {
            if (type != 0) control_type = type;
        } else if (length == data_header + room + 2 && read_u16(header) == sample && read_u16(header + 2) == chunk) {
            accept();
        } else {
            const int16_t ahead = static_cast<int16_t>(read_u16(header) - sample);
            events |= ahead > 0 || (ahead == 0 && read_u16(header + 2) >= chunk) ? gap : repeated;
        }
    }

    void accept() {
        ++chunk;
        write += room;
        const bool sample_complete = chunk == chunks_per_sample;
        if (sample_complete) {
            chunk = 0;
            ++sample;
        }
        if (streamed || sample_complete) {
            fill_slot = static_cast<uint8_t>(fill_slot + 1 == slots ? 0 : fill_slot + 1);
            write = slot(fill_slot);
            ++filled;
        }
        expect();
    }
};

Inbox inbox;

// What the main loop alone touches.
struct {
    uint8_t mode;
    uint8_t session;          // number the host gave this session, 0 before the first
    uint8_t read_slot;
    bool computing, aborted, resend_asked;
    uint16_t computed;        // samples computed since the session started
    uint16_t resend_sample, resend_chunk;  // the position last complained about
    uint16_t steps_left;      // of the current slot, while streaming
    const uint8_t *step_at;
    uint32_t ticks;
    uint32_t results_crc32;
    uint32_t saturations_total;
    struct { uint32_t ticks, saturations; } newest[result_slots];  // of the results kept
} state;

void put(uint8_t byte) { hal::put(byte); }

void transmit(const uint8_t *head, const Writer &end, const uint8_t *tail = nullptr, uint16_t tail_length = 0) {
    send_frame(head, static_cast<uint8_t>(end.at - head), tail, tail_length, put);
}

// Chunks the host may send. In quiet mode one slot at a time, so that the wire is idle while the board computes.
uint16_t credit() {
    const uint8_t usable = state.mode == quiet ? 1 : slots;
    if (inbox.filled >= usable) return 0;
    const uint8_t free_slots = static_cast<uint8_t>(usable - inbox.filled);
    return streamed ? free_slots : static_cast<uint16_t>(free_slots * chunks_per_sample - inbox.chunk);
}

void write_position(Writer &w) {
    hal::Lock lock;
    w.u16(inbox.sample);
    w.u16(inbox.chunk);
    w.u16(credit());
}

void send_ack(uint8_t flags) {
    uint8_t head[8];
    Writer w{head};
    w.u8(ack);
    write_position(w);
    w.u8(flags);
    transmit(head, w);
}

void send_hello() {
    uint8_t head[33 + sizeof description];
    Writer w{head};
    w.u8(hello);
    w.u8(protocol_version);
    for (uint8_t i = 0; i < 8; ++i) w.u8(hil::Flash<uint8_t>{const_cast<const uint8_t *>(hil_image_hash)}[i]);
    w.u32(hal::clock_hz());
    w.u32(sample_bytes);
    w.u16(chunk_bytes);
    w.u16(chunks_per_sample);
    w.u16(output_bytes);
    w.u8(slots);
    w.u8(streamed);
    for (uint8_t i = 0; i < sizeof description; ++i) w.u8(hil::flash(description)[i]);
    transmit(head, w);
}

void send_result(uint16_t sample) {
    uint8_t head[17];
    const uint8_t place = sample % result_slots;
    Writer w{head};
    w.u8(result);
    w.u16(sample);
    w.u32(state.newest[place].ticks);
    w.u32(state.newest[place].saturations);
    write_position(w);
    transmit(head, w, output_memory[place], output_bytes);
}

void send_stats() {
    uint8_t head[25];
    Writer w{head};
    w.u8(stats);
    w.u16(state.computed);
    w.u32(hal::stack_peak_bytes());
    w.u32(hal::heap_peak_bytes());
    w.u32(state.saturations_total);
    w.u32(state.results_crc32);
    w.u16(inbox.damaged_frames);
    w.u16(hal::rx_overruns());
    transmit(head, w);
}

void send_refused(uint8_t type) {
    uint8_t head[2];
    Writer w{head};
    w.u8(refused);
    w.u8(type);
    transmit(head, w);
}

bool is_running(const uint8_t *start_payload) { return start_payload[0] == state.mode && start_payload[1] == state.session; }

void restart(uint8_t mode, uint8_t session) {
    {
        hal::Lock lock;
        inbox.restart();
    }
    state.mode = mode;
    state.session = session;
    state.read_slot = 0;
    state.computed = 0;
    state.aborted = state.resend_asked = false;
    state.results_crc32 = state.saturations_total = 0;
}

void serve_control(uint8_t type) {
    switch (type) {
    case hello_request: send_hello(); break;
    case start:  // the host repeats it until it has heard the answer
        if (!is_running(inbox.control)) restart(inbox.control[0], inbox.control[1]);
        send_ack(started);
        break;
    case ping: send_ack(asked); break;
    case get_result: {
        const uint16_t back = static_cast<uint16_t>(state.computed - read_u16(inbox.control));
        if (back >= 1 && back <= result_slots) send_result(read_u16(inbox.control));
        else send_refused(type);
        break;
    }
    case finish: send_stats(); break;
    default: send_refused(type);
    }
}

// Every damaged frame is complained about, a gap once per position: the frames behind a lost one all are gaps.
void serve_events(uint8_t events) {
    if ((events & (damaged | gap)) == 0) {
        send_ack(0);
        return;
    }
    uint16_t sample, chunk;
    {
        hal::Lock lock;
        sample = inbox.sample;
        chunk = inbox.chunk;
    }
    if (state.resend_asked && state.resend_sample == sample && state.resend_chunk == chunk && !(events & damaged)) return;
    state.resend_asked = true;
    state.resend_sample = sample;
    state.resend_chunk = chunk;
    send_ack(resend);
}

void poll() {
    hal::idle(inbox.filled == 0);
    if (const uint8_t type = inbox.control_type) {
        if (type == start && state.computing && !is_running(inbox.control)) {  // first let the running inference come to its end
            state.aborted = true;
            return;
        }
        serve_control(type);
        inbox.control_type = 0;
    }
    if (inbox.events) {
        uint8_t events;
        {
            hal::Lock lock;
            events = inbox.events;
            inbox.events = 0;
        }
        serve_events(events);
    }
}

void begin_section() {
    if (state.mode == quiet) hal::rx_enable(false);
    hal::gate(true);
    hal::section_begin(state.computed);
}

void end_section() {
    state.ticks += hal::section_end();
    hal::gate(false);
    if (state.mode == quiet) hal::rx_enable(true);
}

void release_slot() {
    state.read_slot = static_cast<uint8_t>(state.read_slot + 1 == slots ? 0 : state.read_slot + 1);
    hal::Lock lock;
    --inbox.filled;
}

__attribute__((noinline)) void update_crc32(uint8_t byte) {
    uint32_t crc = ~state.results_crc32 ^ byte;
    for (uint8_t bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320UL : 0);
    state.results_crc32 = ~crc;
}

void infer() {
    const uint8_t place = state.computed % result_slots;
    state.computing = true;
    state.ticks = 0;
    state.steps_left = streamed ? steps_per_chunk : 0;
    state.step_at = slot(state.read_slot);
    hil::saturations = 0;
    begin_section();
    model::run(slot(state.read_slot), output_memory[place]);
    end_section();
    state.computing = false;
    if (state.aborted) return;
    release_slot();
    state.newest[place] = {state.ticks, hil::saturations};
    state.saturations_total += hil::saturations;
    for (uint8_t i = 0; i < 4; ++i) update_crc32(static_cast<uint8_t>(state.ticks >> 8 * i));
    for (uint16_t i = 0; i < output_bytes; ++i) update_crc32(output_memory[place][i]);
    send_result(state.computed++);
}

}  // namespace

void serve() {
    hal::init();
    inbox.restart();
    hal::rx_enable(true);
    send_hello();
    for (;;) {
        poll();
        if (inbox.filled > 0) infer();
    }
}

}  // namespace wire

namespace hil {

const void *next_step() {
    using namespace wire;
    if (state.steps_left == 0 && !state.aborted) {
        end_section();
        release_slot();
        send_ack(0);
        while (inbox.filled == 0 && !state.aborted) poll();
        state.steps_left = model::steps_per_chunk;
        state.step_at = slot(state.read_slot);
        begin_section();
    }
    if (state.aborted) return state.step_at;  // the result is thrown away: run to the end without waiting
    --state.steps_left;
    const uint8_t *const at = state.step_at;
    state.step_at += model::step_bytes;
    return at;
}

#ifdef HIL_LOG_VALUES
void log_values(uint16_t tensor, const void *values, uint32_t bytes) {
    using namespace wire;
    constexpr uint16_t most = 0x8000;  // of one frame, whose length is counted in 16 bits
    for (uint32_t offset = 0; offset < bytes; offset += most) {
        uint8_t head[7];
        Writer w{head};
        w.u8(wire::values);
        w.u16(tensor);
        w.u32(offset);
        const uint32_t left = bytes - offset;
        transmit(head, w, static_cast<const uint8_t *>(values) + offset, static_cast<uint16_t>(left < most ? left : most));
    }
}
#endif

#ifdef HIL_PROFILE
constexpr uint32_t operation_tag = 0x10000;  // for tracers: above the numbers of samples

void begin_operation(uint16_t operation) {
    wire::state.ticks += hal::section_end();
    hal::section_begin(operation_tag | operation);
}

void end_operation(uint16_t operation) {
    using namespace wire;
    const uint32_t ticks = hal::section_end();
    uint8_t head[11];
    Writer w{head};
    w.u8(wire::operation);
    w.u16(operation);
    w.u32(ticks);
    w.u32(state.ticks);
    transmit(head, w);
    hal::section_begin(state.computed);
}
#endif

}  // namespace hil

// The end: told again and again, because a frame may be lost, and whoever opens the port later wants to know as well.
extern "C" void hil_on_fault(const hal::Fault &fault) {
    using namespace wire;
    constexpr uint32_t pause = 3000000;
    uint8_t head[21];
    Writer w{head};
    w.u8(crashed);
    w.u32(fault.pc);
    w.u32(fault.lr);
    w.u32(fault.sp);
    w.u32(fault.cause);
    w.u32(fault.address);
    for (;;) {
        put(0);  // ends the frame that the fault has cut off
        transmit(head, w);
        for (volatile uint32_t turn = 0; turn < pause;) turn = turn + 1;
    }
}

extern "C" void hil_on_byte(uint8_t byte) { wire::inbox.decoder.feed(byte, wire::inbox); }

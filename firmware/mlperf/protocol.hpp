// The serial protocol of MLPerf Tiny's runner, on the device's side: commands in text that end in '%', answers in lines,
// the last of which is "m-ready". docs/mlperf.md says what is answered to what.
//
// `Device` gives, as static members: put(char), input_bytes, capacity, load(position, byte), byte_at(position), infer(),
// results() (prints through `Printer`), timestamp() (the same), interrupted(), id(), a text, and image(i), the 8 bytes of its hash.
// `hears`: its input are samples, one stride of a window; then frame() takes them and prints what it makes of them.
#pragma once
#include <stdint.h>

namespace mlperf {

enum : uint8_t { PRINTED_TOGETHER = 8 };
enum : uint16_t { COMMAND_CHARACTERS = 80, LONG_COMMAND_CHARACTERS = 1028 };  // of samples, 512 bytes come in one
constexpr uint32_t MOST_INFERENCES = 999999;  // six digits

template <class Device>
struct Printer {
    static void text(const char *at) {
        while (*at) Device::put(*at++);
    }
    static void number(uint32_t value) {
        char digits[10];
        uint8_t count = 0;
        do digits[count++] = static_cast<char>('0' + value % 10);
        while (value /= 10);
        while (count) Device::put(digits[--count]);
    }
    static void whole(int32_t value) {
        if (value < 0) Device::put('-');
        number(static_cast<uint32_t>(value < 0 ? -value : value));
    }
    static void hex(uint8_t byte) {
        const char *const digits = "0123456789abcdef";
        Device::put(digits[byte >> 4]);
        Device::put(digits[byte & 15]);
    }
    // Three decimals. What is no number is 0, what is larger than 2e6 is 2e6.
    static void real(float value) {
        constexpr float most = 2e6f;
        if (value != value) value = 0;
        if (value < 0) Device::put('-');
        const float size = value < 0 ? -value : value;
        const uint32_t thousandths = static_cast<uint32_t>((size < most ? size : most) * 1000.0f + 0.5f);
        number(thousandths / 1000);
        Device::put('.');
        for (uint16_t place = 100; place; place = static_cast<uint16_t>(place / 10))
            Device::put(static_cast<char>('0' + thousandths / place % 10));
    }
    static void end_line() { text("\r\n"); }
    static void line(const char *at) {
        text(at);
        end_line();
    }
};

// Of characters of a command
template <bool IsLong>
struct Counter {
    typedef uint8_t type;
};
template <>
struct Counter<true> {
    typedef uint16_t type;
};

// How many bytes of samples follow: at the end of a sound fewer than a stride has
template <bool Hears>
struct Announced {
    void announce(uint32_t) {}
    uint32_t announced() const { return 0; }
};
template <>
struct Announced<true> {
    void announce(uint32_t bytes) { bytes_ = bytes; }
    uint32_t announced() const { return bytes_; }

private:
    uint32_t bytes_ = 0;
};

template <class Device>
class Protocol : private Announced<Device::hears> {
public:
    // One character as it was received; a whole command is executed at once.
    void feed(char character) {
        if (character == '%') {
            command_[length_] = 0;
            if (Device::hears) echo();
            if (too_long_) error(Device::hears ? "Command is longer than 1028 characters" : "Command is longer than 80 characters");
            else execute();
            length_ = 0;
            too_long_ = false;
            Out::line("m-ready");
        } else if (length_ < MOST) {
            command_[length_++] = character;
        } else {
            too_long_ = true;
        }
    }

private:
    using Out = Printer<Device>;
    static constexpr uint16_t MOST = Device::hears ? LONG_COMMAND_CHARACTERS : COMMAND_CHARACTERS;

    uint32_t wanted() const { return Device::hears ? this->announced() : Device::input_bytes; }

    void echo() const {
        Out::text("Received command: ");
        Out::line(command_);
    }

    static void error(const char *why, const char *what = "", const char *after = "") {
        Out::text("e-[");
        Out::text(why);
        Out::text(what);
        Out::text(after);
        Out::line("]");
    }

    // The next word of the command; empty at its end.
    char *word() {
        while (*at_ == ' ') ++at_;
        char *const start = at_;
        while (*at_ && *at_ != ' ') ++at_;
        if (*at_) *at_++ = 0;
        return start;
    }

    static bool equal(const char *a, const char *b) {
        while (*a && *a == *b) ++a, ++b;
        return *a == *b;
    }

    // False if it is no number of one to six digits.
    static bool read(const char *digits, uint32_t &value) {
        uint8_t count = 0;
        for (value = 0; *digits >= '0' && *digits <= '9' && count < 7; ++count) value = value * 10 + static_cast<uint32_t>(*digits++ - '0');
        return count > 0 && *digits == 0 && value <= MOST_INFERENCES;
    }

    static int8_t hex_digit(char c) {
        if (c >= '0' && c <= '9') return static_cast<int8_t>(c - '0');
        if (c >= 'a' && c <= 'f') return static_cast<int8_t>(c - 'a' + 10);
        if (c >= 'A' && c <= 'F') return static_cast<int8_t>(c - 'A' + 10);
        return -1;
    }

    void execute() {
        at_ = command_;
        const char *const name = word();
        if (equal(name, "name")) tell_name();
        else if (equal(name, "profile")) tell_profile();
        else if (equal(name, "timestamp")) Device::timestamp();
        else if (equal(name, "db")) buffer();
        else if (equal(name, "infer")) infer();
        else if (equal(name, "results")) results();
        else if (equal(name, "help")) help();
        else if (Device::hears && equal(name, "extract_uart_stream")) frame();
        else if (Device::hears && (equal(name, "start") || equal(name, "stop"))) error("No I2S input here: ", name);
        else error("Unknown command: ", name);
    }

    static void tell_name() { Out::line("m-name-dut-[tinyhil]"); }

    static void tell_profile() {
        Out::line("m-profile-[ULPMark for tinyML Firmware V0.0.1]");
        Out::text("m-model-[");
        Out::text(Device::id());
        Out::line("]");
        Out::text("m-image-[");  // a line of ours: which image this is
        for (uint8_t i = 0; i < 8; ++i) Out::hex(Device::image(i));
        Out::line("]");
    }

    static void help() {
        Out::line("name, profile, timestamp, help");
        Out::line("db load N, db HH[HH]*, db print");
        Out::line("infer N [W=10], results");
        if (Device::hears) Out::line("db setptr N, db getptr, extract_uart_stream");
    }

    void buffer() {
        const char *const what = word();
        if (!*what) error("Command 'db' requires a subcommand");
        else if (equal(what, "load")) begin_load();
        else if (equal(what, "print")) print();
        else if (Device::hears && equal(what, "setptr")) set_place();
        else if (Device::hears && equal(what, "getptr")) tell_place();
        else load(what);
    }

    // Where a command that was damaged is sent again from
    void set_place() {
        uint32_t place;
        if (!read(word(), place) || place >= wanted()) return error("Not a place in the input");
        loaded_ = place;
        expecting_ = true;
    }

    void tell_place() const {
        Out::text("m-buff-ptr-");
        Out::number(loaded_);
        Out::end_line();
    }

    void frame() {
        if (loaded_ == 0 || loaded_ != wanted()) return error("No input: 'db load' it first");
        Device::frame();
        computed_ = true;
    }

    // Another number of bytes than the model's input is another benchmark's.
    void begin_load() {
        const char *const digits = word();
        uint32_t bytes;
        expecting_ = false;
        loaded_ = 0;
        if (!*digits) return error("Command 'db load' requires the # of bytes");
        if (!read(digits, bytes)) return error("Not a number of bytes: ", digits);
        if (bytes == 0) return error("Command 'db load' must be >0 bytes");
        if (Device::hears ? bytes > Device::input_bytes : bytes != Device::input_bytes) {
            Out::text("e-[Supplied buffer size ");
            Out::number(bytes);
            Out::text(", the input of ");
            Out::text(Device::id());
            Out::text(" has ");
            Out::number(Device::input_bytes);
            return Out::line("]");
        }
        expecting_ = true;
        this->announce(bytes);
        Out::text("m-[Expecting ");
        Out::number(bytes);
        Out::line(" bytes]");
    }

    // Two digits per byte; those beyond the last byte are not looked at.
    void load(const char *digits) {
        if (!expecting_) return error("No 'db load' before data");
        for (const char *at = digits; *at; at += 2) {
            if (!at[1]) return error("Insufficent number of hex digits");
            const int8_t high = hex_digit(at[0]), low = hex_digit(at[1]);
            if (high < 0 || low < 0) {
                const char pair[3] = {at[0], at[1], 0};
                return error("Invalid hex digit '", pair, "'");
            }
            Device::load(loaded_++, static_cast<uint8_t>(high << 4 | low));
            if (loaded_ == wanted()) {
                expecting_ = false;
                return Out::line("m-load-done");
            }
        }
        if (Device::hears) {
            Out::number(loaded_);
            Out::line(" bytes received");
        }
    }

    void print() {
        for (uint32_t i = 0; i < loaded_; ++i) {
            if (i % PRINTED_TOGETHER == 0) Out::text("m-buffer-");
            Out::hex(Device::byte_at(i));
            if (i % PRINTED_TOGETHER == PRINTED_TOGETHER - 1 || i + 1 == loaded_) Out::end_line();
            else Device::put('-');
        }
    }

    void infer() {
        uint32_t count = 1, warm_up = 10;
        const char *digits = word();
        if (*digits && (!read(digits, count) || count == 0)) return error("Inference iterations must be >0");
        digits = word();
        if (*digits && !read(digits, warm_up)) return error("Inference warmup must be >=0");
        if (loaded_ != Device::input_bytes) return error("No input: 'db load' it first");
        computed_ = false;
        Out::text("m-warmup-start-");
        Out::number(warm_up);
        Out::end_line();
        if (!repeat(warm_up)) return;
        Out::line("m-warmup-done");
        Out::text("m-infer-start-");
        Out::number(count);
        Out::end_line();
        Device::timestamp();
        if (!repeat(count)) return;
        Device::timestamp();
        Out::line("m-infer-done");
        computed_ = true;
        Device::results();
    }

    // Whoever sends something meanwhile wants the board back.
    static bool repeat(uint32_t count) {
        while (count--) {
            if (Device::interrupted()) {
                error("Interrupted");
                return false;
            }
            Device::infer();
        }
        return true;
    }

    void results() {
        if (computed_) Device::results();
        else error("No results: 'infer' first");
    }

    char command_[MOST + 1] = {};
    char *at_ = command_;
    typename Counter<(MOST > 255)>::type length_ = 0;
    bool too_long_ = false, expecting_ = false, computed_ = false;
    uint32_t loaded_ = 0;
};

}  // namespace mlperf

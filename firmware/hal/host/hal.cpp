// The desktop as a board: the same kernels and the same wire on a pty, so that every test of the harness can run
// without a chip. Its ticks are nanoseconds. Memory watermarks are not measured (all bits set).
#include "firmware/hal/hal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

namespace {

int port = -1;
bool receiving = false;
uint64_t section_start_ns;
uint8_t sending[4096];
size_t sending_count = 0;

#ifdef HIL_CLOCK_OF_CROSSBARS
uint64_t spent_ns;
uint64_t now_ns() { return spent_ns; }
#else
uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}
#endif

void flush() {
    for (size_t done = 0; done < sending_count;) {
        const ssize_t written = write(port, sending + done, sending_count - done);
        if (written > 0) done += static_cast<size_t>(written);
        else break;  // nobody is listening: a wire loses such bytes too
    }
    sending_count = 0;
}

}  // namespace

namespace hal {

void init() {
    port = posix_openpt(O_RDWR | O_NOCTTY);
    if (port < 0 || grantpt(port) != 0 || unlockpt(port) != 0) {
        perror("pty");
        exit(2);
    }
    termios settings;
    tcgetattr(port, &settings);
    cfmakeraw(&settings);
    tcsetattr(port, TCSANOW, &settings);
    printf("{\"event\":\"ready\",\"pty\":\"%s\"}\n", ptsname(port));
    fflush(stdout);
}

void put(uint8_t byte) {
    if (sending_count == sizeof sending) flush();
    sending[sending_count++] = byte;
    if (byte == 0 || byte == '\n') flush();  // the end of a frame, or of a line of text
}

void rx_enable(bool on) { receiving = on; }

void idle(bool wait) {
    pollfd waiting[2] = {{port, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (!receiving || poll(waiting, 2, wait ? 100 : 0) <= 0) return;
    uint8_t bytes[4096];
    if ((waiting[1].revents & (POLLIN | POLLHUP)) && read(STDIN_FILENO, bytes, sizeof bytes) <= 0) exit(0);
    if (waiting[0].revents & POLLHUP) usleep(1000);  // nobody has the port open
    if (!(waiting[0].revents & POLLIN)) return;
    const ssize_t count = read(port, bytes, sizeof bytes);
    for (ssize_t i = 0; i < count; ++i) hil_on_byte(bytes[i]);
}

#ifdef HIL_CLOCK_OF_CROSSBARS
void spend(uint32_t ns) { spent_ns += ns; }
#endif

uint16_t rx_overruns() { return 0; }
void section_begin(uint32_t) { section_start_ns = now_ns(); }
// At most what fits: 4.3 s.
uint32_t section_end() {
    const uint64_t ns = now_ns() - section_start_ns;
    return ns < UINT32_MAX ? static_cast<uint32_t>(ns) : UINT32_MAX;
}
uint32_t ticks() { return static_cast<uint32_t>(now_ns()); }
uint32_t stack_peak_bytes() { return UINT32_MAX; }
uint32_t heap_peak_bytes() { return UINT32_MAX; }

Lock::Lock() : saved_(0) {}
Lock::~Lock() {}

}  // namespace hal

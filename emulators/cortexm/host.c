/* The host's side: a pty that stands for the board's serial port, signals, standard input, wall time. */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 4096, RESET_MS = 10, OPENING_MS = 100 };
static const double PACE_SLACK_SECONDS = 0.0005, LONGEST_NAP_SECONDS = 0.01;

static struct {
    int master, notify;
    char name[64];
    const char *link_path;
    bool autoreset, open, stdin_closed;
    double pace_wall;
    uint64_t pace_cycles;
} host = {.master = -1, .notify = -1};

static volatile sig_atomic_t asked_to_end;

static void on_signal(int signal) {
    (void)signal;
    asked_to_end = 1;
}

double wall_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *host_pty_name(void) { return host.name; }

static _Noreturn void die(const char *what, const char *where, int status) {
    fprintf(stderr, "armsim: %s %s: %s\n", what, where, strerror(errno));
    exit(status);
}

/* Raw before anybody can open it, and closed again: only the host's own open counts as one. */
static void open_pty(void) {
    int slave;
    struct termios raw;
    if (openpty(&host.master, &slave, host.name, NULL, NULL)) die("cannot make", "a pty", 1);
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    cfsetspeed(&raw, B115200);
    tcsetattr(slave, TCSANOW, &raw);
    close(slave);
    fcntl(host.master, F_SETFL, O_NONBLOCK);
    host.notify = inotify_init1(IN_NONBLOCK);
    if (host.notify < 0 || inotify_add_watch(host.notify, host.name, IN_OPEN | IN_CLOSE) < 0)
        die("cannot watch", host.name, 1);
}

void host_open(const char *link_path, bool autoreset) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    host.autoreset = autoreset;
    open_pty();
    struct stat old;
    if (!lstat(link_path, &old) && S_ISLNK(old.st_mode)) unlink(link_path); /* left by one that was killed */
    if (symlink(host.name, link_path)) die("cannot make the link", link_path, 2);
    host.link_path = link_path;
}

void host_close(void) {
    char target[64] = "";
    if (readlink(host.link_path, target, sizeof target - 1) > 0 && !strcmp(target, host.name)) unlink(host.link_path);
}

static void forget_bytes(struct uart *u) {
    u->rx_tail = u->rx_head;
    u->tx_tail = u->tx_head;
}

static void port_opened(struct machine *m) {
    forget_bytes(&m->uart);
    host.open = true;
    if (host.autoreset) stop_machine(m, STOP_RESET, "port opened");
}

static void receive_bytes(struct machine *m) {
    uint8_t bytes[READ_BYTES];
    const uint32_t room = uart_rx_room(&m->uart);
    const ssize_t count = read(host.master, bytes, room < READ_BYTES ? room : READ_BYTES);
    if (count > 0) uart_feed(m, bytes, (uint32_t)count);
}

/* The next client meets nothing of this one's. A boot ROM still gets what he sent before he left: bossac ends so. */
static void port_closed(struct machine *m) {
    if (m->in_rom) receive_bytes(m);
    host.open = false;
    m->uart.tx_tail = m->uart.tx_head;
    if (!m->in_rom) m->uart.rx_tail = m->uart.rx_head;
    tcflush(host.master, TCIOFLUSH);
}

/* How some boards are asked for their boot loader: the port is opened at 1200 baud and closed. */
static void check_touch(struct machine *m) {
    struct termios settings;
    if (!m->chip->on_1200_baud || tcgetattr(host.master, &settings) || cfgetospeed(&settings) != B1200) return;
    cfsetspeed(&settings, B115200);
    tcsetattr(host.master, TCSANOW, &settings); /* the next client's speed is his own */
    m->chip->on_1200_baud(m);
}

static void read_openings(struct machine *m) {
    _Alignas(struct inotify_event) char events[4096];
    const ssize_t bytes = read(host.notify, events, sizeof events);
    for (ssize_t at = 0; at < bytes;) {
        const struct inotify_event *e = (const struct inotify_event *)(events + at);
        if (e->mask & IN_OPEN && !host.open) port_opened(m);
        if (e->mask & IN_CLOSE) host.open = false;
        at += (ssize_t)sizeof *e + e->len;
    }
}

static bool hung_up(void) {
    struct pollfd p = {.fd = host.master};
    poll(&p, 1, 0);
    return p.revents & POLLHUP;
}

/* Every open and close in order, so that a port closed and opened again at once resets the board as well. When one has
 * left and the port is still in use, either the next has just come, whose event follows, or a second client stays. */
static void watch_port(struct machine *m) {
    struct pollfd follows = {.fd = host.notify, .events = POLLIN};
    do read_openings(m);
    while (!host.open && !hung_up() && poll(&follows, 1, OPENING_MS) > 0);
    host.open = !hung_up();
    if (host.open) return;
    port_closed(m);
    check_touch(m); /* not while somebody else has the port: the speed may be his */
}

static void send_bytes(struct machine *m) {
    struct uart *u = &m->uart;
    if (m->trace) fflush(m->trace); /* the host finds the trace of what it is told */
    while (host.open && u->tx_head != u->tx_tail) {
        const uint32_t at = u->tx_tail % TX_QUEUE_BYTES, waiting = u->tx_head - u->tx_tail;
        const uint32_t count = waiting < TX_QUEUE_BYTES - at ? waiting : TX_QUEUE_BYTES - at;
        const ssize_t sent = write(host.master, u->tx_queue + at, count);
        if (sent <= 0) return;
        u->tx_tail += sent;
    }
    if (!host.open) u->tx_tail = u->tx_head;
}

static void watch_stdin(struct machine *m) {
    char ignored[256];
    if (read(STDIN_FILENO, ignored, sizeof ignored) > 0) return;
    host.stdin_closed = true;
    stop_machine(m, STOP_QUIT, "stdin closed");
}

enum { NOTIFY, INPUT, PORT, SOURCES };

static void poll_sources(const struct uart *u, struct pollfd *fds, int wait_ms) {
    const short sending = u->tx_head != u->tx_tail ? POLLOUT : 0;
    const short receiving = uart_rx_room(u) ? POLLIN : 0;
    fds[NOTIFY] = (struct pollfd){.fd = host.notify, .events = POLLIN};
    fds[INPUT] = (struct pollfd){.fd = host.stdin_closed ? -1 : STDIN_FILENO, .events = POLLIN};
    fds[PORT] = (struct pollfd){.fd = host.open ? host.master : -1, .events = sending | receiving};
    poll(fds, SOURCES, asked_to_end ? 0 : wait_ms);
}

/* Sleeps until something comes or the time is over; leaves it to host_service. */
void host_wait(struct machine *m, int wait_ms) {
    struct pollfd fds[SOURCES];
    poll_sources(&m->uart, fds, wait_ms);
}

void host_service(struct machine *m) {
    struct uart *u = &m->uart;
    struct pollfd fds[SOURCES];
    if (u->tx_head != u->tx_tail) send_bytes(m);
    poll_sources(u, fds, 0);
    if (asked_to_end) stop_machine(m, STOP_QUIT, "signal");
    if (fds[INPUT].revents) watch_stdin(m);
    if (fds[NOTIFY].revents) watch_port(m);
    if (host.open && fds[PORT].revents & POLLIN) receive_bytes(m);
}

/* The DTR pulse holds a board in reset for a while. Hosts rely on it: they open and flush the port, then listen. */
void host_hold_reset(void) {
    if (host.open && host.autoreset) poll(NULL, 0, RESET_MS);
}

void host_restart_pace(struct machine *m) {
    host.pace_wall = wall_seconds();
    host.pace_cycles = m->cycles.typical;
}

/* With --realtime: sleep off what emulated time is ahead. Time slept while idle has passed on the chip as well; time by
 * which the emulation is merely too slow has not, or a computation would seem to take longer than it does. */
void host_pace(struct machine *m, bool idle) {
    if (!m->realtime) return;
    const double hz = m->chip->clock_hz();
    const double ahead = (double)(m->cycles.typical - host.pace_cycles) / hz - (wall_seconds() - host.pace_wall);
    if (ahead > PACE_SLACK_SECONDS) {
        struct timespec nap = {.tv_nsec = (long)(1e9 * (ahead < LONGEST_NAP_SECONDS ? ahead : LONGEST_NAP_SECONDS))};
        nanosleep(&nap, NULL);
    } else if (idle && ahead < 0) {
        add_cycles(m, (uint64_t)(-ahead * hz));
    } else if (ahead < -LONGEST_NAP_SECONDS) {
        host_restart_pace(m);
    }
}

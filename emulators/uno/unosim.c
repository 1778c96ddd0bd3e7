// unosim: an Arduino Uno made of software. Runs a firmware image on libsimavr and offers its USART0 as a pseudo terminal.
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "board.h"
#include "pins.h"
#include "pty.h"

// At about 200 emulated MHz the host is polled every 40 us. An idle board waits for it; its time then passes in real time.
enum { SLICE_CYCLES = 8000, IDLE_WAIT_MS = 1, IDLE_SLICE_CYCLES = CLOCK_HZ / 1000 * IDLE_WAIT_MS, FAULT_WAIT_MS = 100 };
// A client still sets up and flushes the port just after opening it; the reset of a real board lasts longer than that.
enum { RESET_HOLD_MS = 20 };

static const char usage[] =
    "usage: unosim --image FILE.hex --link PATH [--uart true|lifted] [--realtime] [--no-autoreset] [--ram-static BYTES] "
    "[--boot FILE.hex] [--flash-file PATH] [--worn ADDRESS] [--pins FILE] [--stacks FILE]";

struct options {
    const char *link, *pins, *stacks;
    struct flash_setup flash;
    bool lifted, realtime, autoreset;
    uint32_t ram_static_bytes;
};

static volatile sig_atomic_t stop_requested;

static void on_signal(int signal) {
    (void)signal;
    stop_requested = 1;
}

static void refuse(const char *what, const char *value) {
    fprintf(stderr, "unosim: %s %s; %s\n", what, value, usage);
    exit(2);
}

static uint32_t parse_number(const char *text, uint32_t most, const char *wrong) {
    char *end;
    unsigned long number = strtoul(text, &end, 0);
    if (*text == 0 || *end != 0 || number > most) refuse(wrong, text);
    return number;
}

static void check_options(const struct options *options) {
    if (!options->link) refuse("missing option", "--link");
    const struct flash_setup *flash = &options->flash;
    if (!flash->image && !flash->boot && !flash->file) refuse("missing option", "--image, --boot or --flash-file");
}

static struct options parse_options(int count, char **arguments) {
    static const struct option known[] = {
        {"image", required_argument, NULL, 'i'},     {"link", required_argument, NULL, 'l'},
        {"uart", required_argument, NULL, 'u'},      {"realtime", no_argument, NULL, 'r'},
        {"no-autoreset", no_argument, NULL, 'n'},    {"ram-static", required_argument, NULL, 's'},
        {"boot", required_argument, NULL, 'b'},      {"flash-file", required_argument, NULL, 'f'},
        {"worn", required_argument, NULL, 'w'},      {"pins", required_argument, NULL, 'p'},
        {"stacks", required_argument, NULL, 'k'},
        {0},
    };
    struct options options = {.lifted = true, .autoreset = true, .flash.worn = -1};
    int option;
    opterr = 0;
    while ((option = getopt_long(count, arguments, ":", known, NULL)) != -1) {
        if (option == 'i') options.flash.image = optarg;
        if (option == 'b') options.flash.boot = optarg;
        if (option == 'f') options.flash.file = optarg;
        if (option == 'w') options.flash.worn = parse_number(optarg, FLASH_BYTES - 1, "--worn must be 0 to 32767, not");
        if (option == 'p') options.pins = optarg;
        if (option == 'k') options.stacks = optarg;
        if (option == 'l') options.link = optarg;
        if (option == 'r') options.realtime = true;
        if (option == 'n') options.autoreset = false;
        if (option == 's') options.ram_static_bytes = parse_number(optarg, 2048, "--ram-static must be 0 to 2048, not");
        if (option == 'u') {
            options.lifted = strcmp(optarg, "lifted") == 0;
            if (!options.lifted && strcmp(optarg, "true") != 0) refuse("--uart must be true or lifted, not", optarg);
        }
        if (option == ':') refuse("a value is missing after", arguments[optind - 1]);
        if (option == '?') refuse("unknown option", arguments[optind - 1]);
    }
    if (optind < count) refuse("unexpected argument", arguments[optind]);
    check_options(&options);
    return options;
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void report_reset(const char *why) {
    printf("{\"event\":\"reset\",\"why\":\"%s\"}\n", why);
    fflush(stdout);
}

static void report_fault(const struct board *board) {
    printf("{\"event\":\"fault\",\"pc\":\"0x%04x\",\"why\":\"%s\"}\n", board->fault_pc, board->fault_why);
    fflush(stdout);
}

static void report_exit(const struct board *board, unsigned resets, double wall_seconds) {
    const struct usart *usart = &board->usart;
    printf("{\"event\":\"exit\",\"cycles\":%llu,\"rx_bytes\":%llu,\"tx_bytes\":%llu,\"overruns\":%llu,",
           (unsigned long long)board->avr->cycle, (unsigned long long)usart->rx_bytes, (unsigned long long)usart->tx_bytes,
           (unsigned long long)usart->overruns);
    printf("\"resets\":%u,\"min_sp\":%u,\"wall_seconds\":%.3f}\n", resets, board->min_sp, wall_seconds);
    fflush(stdout);
}

struct session {
    struct board *board;
    struct pty *pty;
    const struct options *options;
    double released_s;                  // wall time at which the board leaves, or left, its reset
    avr_cycle_count_t released_cycles;  // its cycle counter then
    unsigned resets;
    bool idle;
};

// How long the host may be waited for before the board runs on.
static int wait_ms(const struct session *session) {
    const struct board *board = session->board;
    double running_s = now_seconds() - session->released_s;
    if (board->faulted) return FAULT_WAIT_MS;
    if (running_s < 0) return 1 - (int)(running_s * 1000);
    if (!session->options->realtime) return session->idle ? IDLE_WAIT_MS : 0;
    double ahead_s = (double)(board->avr->cycle - session->released_cycles) / CLOCK_HZ - running_s;
    return ahead_s > 0.001 ? (int)(ahead_s * 1000) : 0;
}

static void reset_by_opening(struct session *session) {
    board_reset(session->board);
    session->released_s = now_seconds() + RESET_HOLD_MS / 1000.0;
    session->released_cycles = session->board->avr->cycle;
    session->resets++;
    report_reset("port opened");
}

static void run_board(struct session *session) {
    struct board *board = session->board;
    bool was_idle = session->idle && usart_is_quiet(&board->usart);
    session->idle = board_run(board, board->avr->cycle + (was_idle ? IDLE_SLICE_CYCLES : SLICE_CYCLES));
    if (board->watchdog_reset) {
        board->watchdog_reset = false;
        session->resets++;
        report_reset("watchdog");
    }
    if (board->faulted) report_fault(board);
}

static void run(struct session *session) {
    struct usart *usart = &session->board->usart;
    while (!stop_requested && !pty_parent_is_gone()) {
        bool opened = pty_exchange(session->pty, &usart->to_board, &usart->to_host, wait_ms(session));
        if (opened && session->options->autoreset) reset_by_opening(session);
        if (session->board->faulted || now_seconds() < session->released_s) continue;
        usart_kick(usart);
        run_board(session);
    }
}

int main(int count, char **arguments) {
    static struct board board;
    static struct pty pty;
    struct options options = parse_options(count, arguments);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);

    board_open(&board, &options.flash, options.ram_static_bytes, options.lifted);
    if (options.pins && !pins_watch(board.avr, options.pins)) refuse("cannot write", options.pins);
    if (options.stacks) board.stacks = stacks_new(RAMEND);
    pty_open(&pty, options.link);
    printf("{\"event\":\"ready\",\"pty\":\"%s\"}\n", pty.name);
    fflush(stdout);
    double started_s = now_seconds();
    struct session session = {.board = &board, .pty = &pty, .options = &options, .released_s = started_s};
    run(&session);
    pty_close(&pty);
    flash_save(board.avr);
    if (options.stacks && !stacks_write(board.stacks, options.stacks)) refuse("cannot write", options.stacks);
    report_exit(&board, session.resets, now_seconds() - started_s);
    return 0;
}

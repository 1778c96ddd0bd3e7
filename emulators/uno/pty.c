#define _GNU_SOURCE
#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

static bool parent_is_gone;

static void die(const char *what, const char *where) {
    fprintf(stderr, "unosim: %s %s: %s\n", what, where, strerror(errno));
    exit(2);
}

void pty_open(struct pty *pty, const char *link) {
    int slave;
    struct termios raw;
    memset(&raw, 0, sizeof raw);
    cfmakeraw(&raw);
    raw.c_cflag |= CS8 | CREAD | CLOCAL;
    cfsetspeed(&raw, B115200);
    if (openpty(&pty->master, &slave, pty->name, &raw, NULL)) die("cannot make a pseudo terminal for", link);
    close(slave);
    fcntl(pty->master, F_SETFL, O_NONBLOCK);
    pty->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (pty->watch < 0 || inotify_add_watch(pty->watch, pty->name, IN_OPEN | IN_CLOSE) < 0) die("cannot watch", pty->name);
    pty->openers = 0;
    pty->link = link;
    struct stat old;
    if (lstat(link, &old) == 0 && S_ISLNK(old.st_mode)) unlink(link);  // left by an emulator that was killed
    if (symlink(pty->name, link)) die("cannot make the link", link);
}

void pty_close(struct pty *pty) {
    unlink(pty->link);
    close(pty->watch);
    close(pty->master);
}

bool pty_parent_is_gone(void) { return parent_is_gone; }

static void read_parent(void) {
    char ignored[64];
    ssize_t got = read(STDIN_FILENO, ignored, sizeof ignored);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) parent_is_gone = true;
}

static void drop_host_input(struct pty *pty) {
    char ignored[4096];
    while (read(pty->master, ignored, sizeof ignored) > 0) {
    }
}

// Counts openers; the last one to leave takes his bytes with him, so that the next meets none of them. If the next has
// come already, what the terminal still holds may be his and is kept.
static bool read_openings(struct pty *pty, struct byte_queue *to_board, struct byte_queue *to_host) {
    char events[4096] __attribute__((aligned(8)));
    bool opened = false, closed = false;
    ssize_t got;
    while ((got = read(pty->watch, events, sizeof events)) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + at);
            if (event->mask & IN_OPEN) opened |= pty->openers++ == 0;
            if (event->mask & IN_CLOSE) closed |= --pty->openers == 0;
            at += sizeof *event + event->len;
        }
    }
    if (closed) {
        if (pty->openers == 0) drop_host_input(pty);
        ioctl(pty->master, TCFLSH, TCOFLUSH);
        to_board->tail = to_board->head;
        to_host->tail = to_host->head;
    }
    return opened;
}

static void read_host(struct pty *pty, struct byte_queue *to_board) {
    uint8_t bytes[4096];
    size_t room = queue_free(to_board);
    ssize_t got = read(pty->master, bytes, room < sizeof bytes ? room : sizeof bytes);
    for (ssize_t i = 0; i < got; i++) queue_push(to_board, bytes[i]);
}

static void write_host(struct pty *pty, struct byte_queue *to_host) {
    while (queue_used(to_host)) {
        uint32_t start = to_host->tail % QUEUE_BYTES, run = QUEUE_BYTES - start;
        ssize_t sent = write(pty->master, to_host->data + start, run < queue_used(to_host) ? run : queue_used(to_host));
        if (sent <= 0) return;
        to_host->tail += sent;
    }
}

bool pty_exchange(struct pty *pty, struct byte_queue *to_board, struct byte_queue *to_host, int timeout_ms) {
    if (pty->openers > 0) write_host(pty, to_host);
    short wanted = (queue_free(to_board) ? POLLIN : 0) | (queue_used(to_host) ? POLLOUT : 0);
    struct pollfd files[3] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = pty->watch, .events = POLLIN},
        {.fd = pty->openers > 0 ? pty->master : -1, .events = wanted},
    };
    if (poll(files, 3, timeout_ms) <= 0) return false;
    if (files[0].revents) read_parent();
    bool opened = files[1].revents && read_openings(pty, to_board, to_host);
    if (pty->openers == 0 || opened) to_host->tail = to_host->head;  // sent before anybody listened
    if (pty->openers > 0 && (files[2].revents & POLLIN)) read_host(pty, to_board);
    return opened;
}

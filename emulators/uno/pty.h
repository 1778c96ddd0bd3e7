// The serial port: a pseudo terminal in raw mode behind a symbolic link.
#pragma once
#include <stdbool.h>

#include "usart.h"

struct pty {
    int master, watch;  // `watch`: inotify descriptor that sees every open and close of the slave side
    int openers;
    char name[64];
    const char *link;
};

// Ends the program with exit code 2 and one line if the port cannot be made.
void pty_open(struct pty *pty, const char *link);
void pty_close(struct pty *pty);

// Waits up to `timeout_ms` for the host and moves bytes both ways. Returns true if the port has just been opened.
bool pty_exchange(struct pty *pty, struct byte_queue *to_board, struct byte_queue *to_host, int timeout_ms);

// True once standard input has ended: the parent has gone.
bool pty_parent_is_gone(void);

// Preloaded: below a folder, the Nth call that changes the disk fails, or ends the process as a power cut would.
// A full disk takes half of what is written. A cut loses what was written and not synced: files are cut to what fsync has
// seen, and new names of files are the old ones where their folder was not synced after. A torn cut keeps all, and half
// of what was being written.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 1024 };
static char folder[4096];
static int at, count, failure;  // failure: errno, or 0 for a power cut, or TORN
enum { TORN = -1 };
static struct {
    int used;
    char path[4096];
    off_t synced;
} files[MOST];
static struct {
    char from[4096], to[4096], before[4096];  // `before`: what had the name `to`, or nothing
} renamed[MOST];
static int renames;

static int below(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = folder[0] ? readlink(link, path, 4095) : -1;
    if (length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, folder, strlen(folder));
}

void disk_cut(void) {
    int (*shorten)(const char *, off_t) = (int (*)(const char *, off_t))dlsym(RTLD_NEXT, "truncate");
    int (*name)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    if (failure == TORN) _exit(99);
    for (int i = 0; i < MOST; ++i)
        if (files[i].used) shorten(files[i].path, files[i].synced);
    while (renames-- > 0) {
        name(renamed[renames].to, renamed[renames].from);
        if (renamed[renames].before[0]) name(renamed[renames].before, renamed[renames].to);
    }
    _exit(99);
}

// 1: this call is to fail
static int struck(void) {
    if (!folder[0] || ++count != at) return 0;
    if (failure <= 0) disk_cut();
    errno = failure;
    return 1;
}

// This call is to fail, and it writes
static int is_next(void) { return folder[0] && count + 1 == at; }

static off_t *synced_of(const char *path, int make) {
    for (int i = 0; i < MOST; ++i)
        if (files[i].used && !strcmp(files[i].path, path)) return &files[i].synced;
    for (int i = 0; make && i < MOST; ++i)
        if (!files[i].used) {
            struct stat found;
            files[i].used = 1;
            snprintf(files[i].path, sizeof files[i].path, "%s", path);
            files[i].synced = stat(path, &found) ? 0 : found.st_size;
            return &files[i].synced;
        }
    return NULL;
}

void disk_fails(const char *where, int when, int how) {
    memset(files, 0, sizeof files);
    count = renames = 0, at = when, failure = how;
    snprintf(folder, sizeof folder, "%s", where);
}

int disk_calls(void) { return count; }

#define REAL(name) (name##_type) dlsym(RTLD_NEXT, #name)
typedef ssize_t (*write_type)(int, const void *, size_t);
typedef int (*fsync_type)(int);
typedef int (*rename_type)(const char *, const char *);
typedef int (*unlink_type)(const char *);
typedef int (*ftruncate64_type)(int, off_t);
typedef int (*open64_type)(const char *, int, ...);
typedef int (*mkdir_type)(const char *, mode_t);

ssize_t write(int fd, const void *data, size_t size) {
    char path[4096];
    if (below(fd, path)) {
        synced_of(path, 1);
        if (is_next() && (failure == ENOSPC || failure == TORN)) (void)!(REAL(write))(fd, data, size / 2);
        if (struck()) return -1;
    }
    return (REAL(write))(fd, data, size);
}

// Renames within a folder that is synced outlive a cut.
static void keep_names(const char *within) {
    int stayed = 0;
    size_t length = strlen(within);
    for (int i = 0; i < renames; ++i)
        if (strncmp(renamed[i].to, within, length) || strchr(renamed[i].to + length + 1, '/')) renamed[stayed++] = renamed[i];
    renames = stayed;
}

// Before `to` is another file: what it was stays under a name outside of the folder.
static void note_rename(const char *from, const char *to) {
    if (renames == MOST) return;
    snprintf(renamed[renames].from, sizeof renamed[0].from, "%s", from);
    snprintf(renamed[renames].to, sizeof renamed[0].to, "%s", to);
    snprintf(renamed[renames].before, sizeof renamed[0].before, "%.4000s.before%d", folder, renames);
    remove(renamed[renames].before);
    if (link(to, renamed[renames].before)) renamed[renames].before[0] = 0;
    ++renames;
}

int fsync(int fd) {
    char path[4096];
    int ours = below(fd, path);
    if (ours && struck()) return -1;
    off_t *synced = ours ? synced_of(path, 0) : NULL;
    struct stat found;
    if (synced && !fstat(fd, &found)) *synced = found.st_size;
    if (ours && !fstat(fd, &found) && S_ISDIR(found.st_mode)) keep_names(path);
    return (REAL(fsync))(fd);
}

int rename(const char *from, const char *to) {
    if (folder[0] && !strncmp(to, folder, strlen(folder))) {
        if (struck()) return -1;
        note_rename(from, to);
        int done = (REAL(rename))(from, to);
        off_t *synced = synced_of(from, 0);
        for (int i = 0; !done && i < MOST; ++i)
            if (files[i].used && !strcmp(files[i].path, to)) files[i].used = 0;
        for (int i = 0; !done && synced && i < MOST; ++i)
            if (&files[i].synced == synced) snprintf(files[i].path, sizeof files[i].path, "%s", to);
        return done;
    }
    return (REAL(rename))(from, to);
}

int unlink(const char *path) {
    if (folder[0] && !strncmp(path, folder, strlen(folder))) {
        if (struck()) return -1;
        for (int i = 0; i < MOST; ++i)
            if (files[i].used && !strcmp(files[i].path, path)) files[i].used = 0;
    }
    return (REAL(unlink))(path);
}

int mkdir(const char *path, mode_t mode) {
    if (folder[0] && !strncmp(path, folder, strlen(folder)) && struck()) return -1;
    return (REAL(mkdir))(path, mode);
}

int ftruncate64(int fd, off_t size) {
    char path[4096];
    if (below(fd, path) && struck()) return -1;
    return (REAL(ftruncate64))(fd, size);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    int ours = folder[0] && (flags & O_CREAT) && !strncmp(path, folder, strlen(folder));
    if (ours && struck()) return -1;
    int fd = (REAL(open64))(path, flags, mode);
    if (ours && fd >= 0) synced_of(path, 1);
    return fd;
}

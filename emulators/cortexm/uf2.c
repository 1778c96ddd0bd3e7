/* The drive is a folder (--drive). A file in it is taken when it has all its blocks, written, and removed; then the board restarts. */
#include "uf2.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 512, DATA_OFFSET = 32, PAGE_BYTES = 256, IDLE_MS = 20, MAX_BLOCKS = 1 << 16,
    NOT_FOR_FLASH = 1, HAS_FAMILY = 0x2000
};

static const uint32_t FIRST_MAGIC = 0x0A324655, SECOND_MAGIC = 0x9E5D5157, LAST_MAGIC = 0x0AB16F30;

enum field { MAGIC_0, MAGIC_1, FLAGS, ADDRESS, PAYLOAD, NUMBER, BLOCKS, FAMILY };

static uint32_t field(const uint8_t *block, enum field which) {
    uint32_t value;
    memcpy(&value, block + 4 * which, sizeof value);
    return value;
}

/* One that is for this board's flash. */
static bool is_ours(const uint8_t *block, const struct uf2 *kind) {
    uint32_t end_magic;
    memcpy(&end_magic, block + BLOCK_BYTES - 4, sizeof end_magic);
    if (field(block, MAGIC_0) != FIRST_MAGIC || field(block, MAGIC_1) != SECOND_MAGIC || end_magic != LAST_MAGIC) return false;
    const uint32_t flags = field(block, FLAGS), at = field(block, ADDRESS), bytes = field(block, PAYLOAD);
    if (flags & NOT_FOR_FLASH || !(flags & HAS_FAMILY) || field(block, FAMILY) != kind->family) return false;
    return bytes == PAGE_BYTES && at % PAGE_BYTES == 0 && at >= kind->first && at < kind->end;
}

bool is_uf2(const uint8_t *file, size_t bytes) { return bytes >= BLOCK_BYTES && field(file, MAGIC_0) == FIRST_MAGIC; }

bool uf2_take(struct machine *m, const uint8_t *file, size_t bytes, bool write) {
    static uint8_t seen[MAX_BLOCKS];
    uint32_t found = 0, wanted = 0;
    memset(seen, 0, sizeof seen);
    for (const uint8_t *b = file; b + BLOCK_BYTES <= file + bytes; b += BLOCK_BYTES) {
        const uint32_t number = field(b, NUMBER), offset = field(b, ADDRESS) - m->chip->flash_base;
        if (!is_ours(b, m->chip->uf2) || number >= MAX_BLOCKS) continue;
        wanted = field(b, BLOCKS);
        found += !seen[number];
        seen[number] = 1;
        if (!write) continue;
        if (offset % m->chip->sector_bytes == 0) flash_erase(m, offset, m->chip->sector_bytes);
        flash_program(m, offset, b + DATA_OFFSET, PAGE_BYTES);
    }
    return wanted && found == wanted;
}

static bool take_file(struct machine *m, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    const size_t room = MAX_BLOCKS * (size_t)BLOCK_BYTES;
    uint8_t *content = malloc(room);
    const size_t bytes = content ? fread(content, 1, room, file) : 0;
    fclose(file);
    const bool whole = bytes % BLOCK_BYTES == 0 && uf2_take(m, content, bytes, false);
    if (whole) uf2_take(m, content, bytes, true);
    free(content);
    return whole;
}

static bool take_any(struct machine *m) {
    char path[4096];
    bool taken = false;
    DIR *folder = opendir(m->drive);
    for (struct dirent *entry; folder && !taken && (entry = readdir(folder));) {
        const size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".uf2")) continue;
        snprintf(path, sizeof path, "%s/%s", m->drive, entry->d_name);
        taken = take_file(m, path);
        if (taken) remove(path);
    }
    if (folder) closedir(folder);
    return taken;
}

uint32_t uf2_loader(struct machine *m) {
    char path[4096];
    if (!m->chip->uf2) m->drive = NULL;
    snprintf(path, sizeof path, "%s/INFO_UF2.TXT", m->drive ? m->drive : "");
    FILE *info = m->drive ? fopen(path, "w") : NULL;
    if (info) {
        fputs(m->chip->uf2->info, info);
        fclose(info);
    }
    while (m->stop == RUN) {
        const struct dfu *const serial = m->chip->uf2 ? m->chip->uf2->serial : NULL;
        const int byte = rom_get(m, IDLE_MS);
        const bool by_serial = byte >= 0 && serial && dfu_take(m, serial, byte);
        if (!by_serial && (byte >= 0 || !info || !take_any(m))) continue;
        if (by_serial) host_service(m); /* the last acknowledgement leaves before the reset */
        m->boot0 = false;
        stop_machine(m, STOP_RESET, by_serial ? "an image came by serial DFU" : "a UF2 file was written");
    }
    if (info) remove(path);
    return 0;
}

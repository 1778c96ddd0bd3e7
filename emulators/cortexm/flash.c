/* Flash as a board has it: contents that outlive the power, pages that are erased and programmed, worn cells. */
#include "uf2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void refuse(const char *what, const char *path, const char *why) {
    fprintf(stderr, "armsim: %s %s: %s\n", what, path, why);
    exit(2);
}

/* The blocks of a UF2 file, as a boot loader would place them. */
static void unpack(struct machine *m, const char *path, FILE *file) {
    const size_t room = 4 * (size_t)m->chip->flash_size_bytes;
    uint8_t *content = malloc(room);
    rewind(file);
    const size_t bytes = content ? fread(content, 1, room, file) : 0;
    memset(m->flash, 0xFF, m->chip->flash_size_bytes);
    if (!uf2_take(m, content, bytes, true)) refuse("the image", path, "lacks blocks, or is for another chip");
    free(content);
}

void flash_load_image(struct machine *m, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) refuse("cannot read the image", path, strerror(errno));
    uint8_t *place = m->flash + m->chip->image_offset;
    const size_t bytes = fread(place, 1, m->chip->flash_size_bytes - m->chip->image_offset, file);
    if (bytes < 8) refuse("the image", path, "has no vector table");
    if (m->chip->uf2 && is_uf2(place, bytes)) unpack(m, path, file);
    else if (fgetc(file) != EOF) refuse("the image", path, "is larger than the flash");
    fclose(file);
    m->fuses |= FUSE_BOOT_FLASH;
    flash_wear(m);
}

/* Contents, then one byte of fuses. */
void flash_load_file(struct machine *m, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file && errno == ENOENT) return;
    if (!file) refuse("cannot read the flash file", path, strerror(errno));
    const size_t bytes = fread(m->flash, 1, m->chip->flash_size_bytes, file);
    const int fuses = fgetc(file);
    if (bytes != m->chip->flash_size_bytes || fuses == EOF || fgetc(file) != EOF)
        refuse("the flash file", path, "is of another size than this chip's");
    fclose(file);
    m->fuses = fuses;
    flash_wear(m);
}

/* By way of a second file, so that no half-written one is ever found. */
void flash_save_file(const struct machine *m, const char *path) {
    char other[4096];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "wb");
    bool done = file && fwrite(m->flash, 1, m->chip->flash_size_bytes, file) == m->chip->flash_size_bytes;
    done = done && fputc(m->fuses, file) != EOF;
    if (file) done = !fclose(file) && done;
    if (!done || rename(other, path)) refuse("cannot write the flash file", path, strerror(errno));
}

void flash_wear(struct machine *m) {
    if (m->worn_offset >= 0 && m->worn_offset < (int64_t)m->chip->flash_size_bytes) m->flash[m->worn_offset] = 0;
}

static bool inside(const struct machine *m, uint32_t offset, uint32_t bytes) {
    return offset < m->chip->flash_size_bytes && bytes <= m->chip->flash_size_bytes - offset;
}

bool flash_erase(struct machine *m, uint32_t offset, uint32_t bytes) {
    if (!inside(m, offset, bytes)) return false;
    memset(m->flash + offset, 0xFF, bytes);
    flash_wear(m);
    return true;
}

/* Programming turns ones into zeros, never back. */
bool flash_program(struct machine *m, uint32_t offset, const uint8_t *data, uint32_t bytes) {
    if (!inside(m, offset, bytes)) return false;
    for (uint32_t i = 0; i < bytes; ++i) m->flash[offset + i] &= data[i];
    flash_wear(m);
    return true;
}

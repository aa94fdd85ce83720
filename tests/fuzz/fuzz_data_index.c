/*
 * Indexes of files. The first byte says what is put right before the index is read, or
 * nearly no input would get past its head: 1 the mark, 2 the number of entries, 4 the
 * checksums. The second byte is the length of the file.
 *
 * Check: what is found lies around the place that was asked for.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "common/error.h"
#include "data/index.h"
#include "tests/fuzz/fuzz.h"

enum { ENTRIES_MAX = 64 };

/* A file of zeros, or its index. */
struct memory {
    uint8_t *data;
    size_t len;
    const struct memory *index; /* NULL: it is one */
};

static int memory_read(void *self, uint64_t offset, void *to, size_t len,
                       size_t *ret_len)
{
    const struct memory *memory = self;
    size_t left = offset < memory->len ? memory->len - (size_t)offset : 0;
    *ret_len = len < left ? len : left;
    if (*ret_len > 0) {
        memcpy(to, memory->data + offset, *ret_len);
    }
    return 0;
}

static int memory_stat(void *self, struct coxi_file_mark *ret)
{
    const struct memory *memory = self;
    ret->bytes = memory->len;
    return 0;
}

static void memory_close(void *self)
{
    (void)self;
}

static int memory_beside(void *self, const char *end, struct coxi_source *ret);

static const struct coxi_source_kind kind = {.read = memory_read,
                                             .stat = memory_stat,
                                             .close = memory_close,
                                             .beside = memory_beside};

static int memory_beside(void *self, const char *end, struct coxi_source *ret)
{
    const struct memory *memory = self;
    (void)end;
    return coxi_source_init(&kind, (void *)(uintptr_t)memory->index, "index", ret);
}

static void put_right(uint8_t what, const struct memory *file, struct memory *index)
{
    static const uint8_t magic[] = COXI_INDEX_MAGIC_BYTES;
    struct coxi_file_index_head head;
    if (index->len < sizeof(head)) {
        return;
    }
    memcpy(&head, index->data, sizeof(head));
    if ((what & 1) != 0) {
        memcpy(head.magic, magic, sizeof(magic));
        head.bytes = file->len;
        head.changed_ns = 0;
        head.head_crc = coxi_crc32(0, file->data, file->len);
    }
    if ((what & 2) != 0) {
        head.entries =
            (index->len - sizeof(head)) / sizeof(struct coxi_file_index_entry);
    }
    if ((what & 4) != 0) {
        head.crc = coxi_crc32(0, &head, offsetof(struct coxi_file_index_head, crc));
    }
    memcpy(index->data, &head, sizeof(head));
    for (size_t at = sizeof(head); (what & 4) != 0 && at + 24 <= index->len; at += 24) {
        uint32_t crc = coxi_crc32(0, index->data + at, 20);
        memcpy(index->data + at + 20, &crc, sizeof(crc));
    }
}

static void look(const struct coxi_source *file, uint64_t len)
{
    struct coxi_file_index *index = NULL;
    struct coxi_file_index_entry entry;
    if (coxi_file_index_open(file, &index, NULL) != 0 || index == NULL) {
        return;
    }
    for (uint64_t i = 0; i < ENTRIES_MAX; i++) {
        if (coxi_file_index_entry_at(index, i, &entry) == 0 && entry.offset >= len) {
            fuzz_fail("an entry behind the end of the file");
        }
    }
    for (uint64_t at = 0; at <= len; at++) {
        uint64_t from = 0;
        uint64_t next = 0;
        if (coxi_file_index_find(index, at, &from, &next) == 0 &&
            (from > at || next > len || (next <= at && next != len))) {
            fuzz_fail("another entry was found");
        }
    }
    coxi_file_index_close(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t zeros[256];
    struct coxi_source source;
    if (size < 2) {
        return 0;
    }
    struct memory index = {.data = malloc(size), .len = size - 2};
    struct memory file = {zeros, data[1], &index};
    if (index.data == NULL || coxi_source_init(&kind, &file, "file", &source) != 0) {
        fuzz_fail("no memory");
    }
    memcpy(index.data, data + 2, index.len);
    put_right(data[0], &file, &index);
    look(&source, file.len);
    coxi_source_close(&source);
    free(index.data);
    return 0;
}

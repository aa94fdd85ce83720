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
#include "data/index.h"
#include "tests/data/memory.h"
#include "tests/fuzz/fuzz.h"

enum { ENTRIES_MAX = 64 };

/* `bytes` are those of the index. */
static void put_right(uint8_t what, const struct memory_file *file, uint8_t *bytes)
{
    static const uint8_t magic[] = COXI_INDEX_MAGIC_BYTES;
    struct coxi_file_index_head head;
    uint64_t len = file->index->len;
    if (len < sizeof(head)) {
        return;
    }
    memcpy(&head, bytes, sizeof(head));
    if ((what & 1) != 0) {
        memcpy(head.magic, magic, sizeof(magic));
        head.bytes = file->len;
        head.changed_ns = 0;
        head.head_crc = coxi_crc32(0, file->data, (size_t)file->len);
    }
    if ((what & 2) != 0) {
        head.entries = (len - sizeof(head)) / sizeof(struct coxi_file_index_entry);
    }
    if ((what & 4) != 0) {
        head.crc = coxi_crc32(0, &head, offsetof(struct coxi_file_index_head, crc));
    }
    memcpy(bytes, &head, sizeof(head));
    for (size_t at = sizeof(head); (what & 4) != 0 && at + 24 <= len; at += 24) {
        uint32_t crc = coxi_crc32(0, bytes + at, 20);
        memcpy(bytes + at + 20, &crc, sizeof(crc));
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
    static const uint8_t zeros[256];
    struct coxi_source source;
    if (size < 2) {
        return 0;
    }
    uint8_t *bytes = malloc(size);
    struct memory_file index = {.data = bytes, .len = size - 2};
    struct memory_file file = {.data = zeros, .len = data[1], .index = &index};
    if (bytes == NULL || memory_source(&file, "file", &source) != 0) {
        fuzz_fail("no memory");
    }
    memcpy(bytes, data + 2, (size_t)index.len);
    put_right(data[0], &file, bytes);
    look(&source, file.len);
    coxi_source_close(&source);
    free(bytes);
    return 0;
}

/* See index.h. An index is not loaded: a task looks at a few entries only. */
#include "data/index.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "common/error.h"

static const uint8_t magic[] = COXI_INDEX_MAGIC_BYTES;

struct coxi_file_index {
    struct coxi_source source;
    struct coxi_file_index_head head;
};

static uint32_t head_crc(const struct coxi_file_index_head *head)
{
    return coxi_crc32(0, head, offsetof(struct coxi_file_index_head, crc));
}

static uint32_t entry_crc(const struct coxi_file_index_entry *entry)
{
    return coxi_crc32(0, entry, offsetof(struct coxi_file_index_entry, crc));
}

static int damaged(const struct coxi_file_index *index, uint64_t offset)
{
    return coxi_error(COX_EFORMAT,
                      "%s:%" PRIu64 ": the index is damaged; make it again (coxswain "
                      "data index)",
                      index->source.name, offset);
}

static int read_at(const struct coxi_file_index *index, uint64_t offset, void *to,
                   size_t len)
{
    size_t got = 0;
    int r = coxi_source_read(&index->source, offset, to, len, &got);
    return r != 0 || got == len ? r : damaged(index, offset);
}

static bool belongs(const struct coxi_file_index_head *head,
                    const struct coxi_file_mark *mark)
{
    return head->bytes == mark->bytes && head->head_crc == mark->head_crc &&
           (head->changed_ns == mark->changed_ns || head->changed_ns == 0 ||
            mark->changed_ns == 0);
}

/* Reads the head. *ret: whether the index is of this file. */
static int read_head(struct coxi_file_index *index, const struct coxi_source *file,
                     bool *ret)
{
    struct coxi_file_mark mark;
    struct coxi_file_index_head *head = &index->head;
    int r = read_at(index, 0, head, sizeof(*head));
    if (r == 0 && (memcmp(head->magic, magic, sizeof(magic)) != 0 ||
                   head->crc != head_crc(head) || head->entries == 0)) {
        r = damaged(index, 0);
    }
    r = r == 0 ? coxi_source_mark(file, &mark) : r;
    if (r == 0) {
        *ret = belongs(head, &mark);
    }
    return r;
}

int coxi_file_index_open(const struct coxi_source *file, struct coxi_file_index **ret,
                         bool *ret_stale)
{
    struct coxi_source source = {0};
    bool is_its = false;
    int r = file->kind->beside != NULL
                ? file->kind->beside(file->self, COXI_INDEX_END, &source)
                : COX_ENOENT;
    if (ret_stale != NULL) {
        *ret_stale = false;
    }
    if (r != 0) {
        *ret = NULL;
        return r == COX_ENOENT ? 0 : r;
    }
    struct coxi_file_index *index = calloc(1, sizeof(*index));
    if (index == NULL) {
        coxi_source_close(&source);
        return coxi_error_memory("an index");
    }
    index->source = source;
    r = read_head(index, file, &is_its);
    if (r == 0 && ret_stale != NULL) {
        *ret_stale = !is_its;
    }
    if (r != 0 || !is_its) {
        coxi_file_index_close(index);
        index = NULL;
    }
    *ret = index;
    return r;
}

void coxi_file_index_close(struct coxi_file_index *index)
{
    if (index != NULL) {
        coxi_source_close(&index->source);
        free(index);
    }
}

const struct coxi_file_index_head *
coxi_file_index_head_of(const struct coxi_file_index *index)
{
    return &index->head;
}

int coxi_file_index_entry_at(const struct coxi_file_index *index, uint64_t i,
                             struct coxi_file_index_entry *ret)
{
    struct coxi_file_index_entry entry;
    uint64_t offset = sizeof(index->head) + i * sizeof(entry);
    int r = read_at(index, offset, &entry, sizeof(entry));
    if (r != 0) {
        return r;
    }
    if (entry.crc != entry_crc(&entry) || entry.offset >= index->head.bytes) {
        return damaged(index, offset);
    }
    *ret = entry;
    return 0;
}

int coxi_file_index_find(const struct coxi_file_index *index, uint64_t at,
                         uint64_t *ret, uint64_t *ret_next)
{
    uint64_t from = 0;
    uint64_t to = index->head.entries;
    uint64_t found = 0;
    uint64_t next = index->head.bytes;
    while (to - from > 1) {
        uint64_t middle = from + (to - from) / 2;
        struct coxi_file_index_entry entry;
        int r = coxi_file_index_entry_at(index, middle, &entry);
        if (r != 0) {
            return r;
        }
        if (entry.offset <= at) {
            from = middle;
            found = entry.offset;
        } else {
            to = middle;
            next = entry.offset;
        }
    }
    *ret = found;
    *ret_next = next;
    return 0;
}

int coxi_file_index_pack(struct coxi_file_index_head *head,
                         struct coxi_file_index_entry *entries, struct coxi_buffer *to)
{
    head->crc = head_crc(head);
    for (uint64_t i = 0; i < head->entries; i++) {
        entries[i].crc = entry_crc(&entries[i]);
    }
    int r = coxi_buffer_append_raw(to, head, sizeof(*head));
    return r == 0 ? coxi_buffer_append_raw(to, entries,
                                           (size_t)head->entries * sizeof(*entries))
                  : r;
}

/* See memory.h. */
#include "tests/data/memory.h"

#include <string.h>

#include "common/error.h"

static int memory_read(void *self, uint64_t offset, void *to, size_t len,
                       size_t *ret_len)
{
    struct memory_file *file = self;
    uint64_t left = offset < file->len ? file->len - offset : 0;
    size_t n = left < len ? (size_t)left : len;
    if (n > 0 && file->data != NULL) {
        memcpy(to, file->data + offset, n);
    } else {
        memset(to, 'x', n);
        uint64_t line = file->line;
        uint64_t at = line > 0 ? offset / line * line + line : 0;
        for (; at > 0 && at <= offset + n; at += line) {
            ((uint8_t *)to)[at - 1 - offset] = '\n';
        }
    }
    file->changed_ns += file->changes_at > 0 && offset + n > file->changes_at;
    *ret_len = n;
    return 0;
}

static int memory_stat(void *self, struct coxi_file_mark *ret)
{
    const struct memory_file *file = self;
    *ret = (struct coxi_file_mark){.bytes = file->len, .changed_ns = file->changed_ns};
    return 0;
}

static void memory_close(void *self)
{
    (void)self;
}

static int memory_beside(void *self, const char *end, struct coxi_source *ret)
{
    const struct memory_file *file = self;
    (void)end; /* indexes are all that readers look for */
    return file->index != NULL ? memory_source(file->index, "index", ret) : COX_ENOENT;
}

int memory_source(struct memory_file *file, const char *name, struct coxi_source *ret)
{
    static const struct coxi_source_kind kind = {.read = memory_read,
                                                 .stat = memory_stat,
                                                 .close = memory_close,
                                                 .beside = memory_beside};
    return coxi_source_init(&kind, file, name, ret);
}

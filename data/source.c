/* See source.h. */
#include "data/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "common/error.h"
#include "data/name.h"

int coxi_source_init(const struct coxi_source_kind *kind, void *self, const char *name,
                     struct coxi_source *ret)
{
    char *copy = strdup(name);
    if (copy == NULL) {
        return coxi_error_memory("the name of a file");
    }
    coxi_name_hide(copy);
    *ret = (struct coxi_source){kind, self, copy};
    return 0;
}

void coxi_source_close(struct coxi_source *source)
{
    if (source->kind != NULL) {
        source->kind->close(source->self);
    }
    free(source->name);
    *source = (struct coxi_source){0};
}

int coxi_source_mark(const struct coxi_source *source, struct coxi_file_mark *ret)
{
    uint8_t head[COXI_HEAD_BYTES];
    size_t len = 0;
    struct coxi_file_mark mark = {0};
    int r = source->kind->stat(source->self, &mark);
    r = r == 0 ? coxi_source_read(source, 0, head, sizeof(head), &len) : r;
    if (r == 0) {
        mark.head_crc = coxi_crc32(0, head, len);
        *ret = mark;
    }
    return r;
}

int coxi_source_check(const struct coxi_source *source,
                      const struct coxi_file_mark *expected)
{
    struct coxi_file_mark mark;
    if (expected->bytes == 0 && expected->changed_ns == 0 && expected->head_crc == 0) {
        return 0;
    }
    int r = coxi_source_mark(source, &mark);
    if (r != 0) {
        return r;
    }
    if (mark.bytes != expected->bytes) {
        return coxi_error(COX_ECONFLICT,
                          "%s has changed: it has %" PRIu64 " bytes, and had %" PRIu64,
                          source->name, mark.bytes, expected->bytes);
    }
    if (mark.changed_ns != expected->changed_ns && mark.changed_ns != 0 &&
        expected->changed_ns != 0) {
        return coxi_error(COX_ECONFLICT,
                          "%s has changed: it was written to since the data set was "
                          "made",
                          source->name);
    }
    return mark.head_crc == expected->head_crc
               ? 0
               : coxi_error(COX_ECONFLICT, "%s has changed: its first bytes differ",
                            source->name);
}

int coxi_source_check_unchanged(const struct coxi_source *source,
                                const struct coxi_file_mark *mark)
{
    struct coxi_file_mark now = {0};
    int r = source->kind->stat(source->self, &now);
    if (r != 0) {
        return r;
    }
    return now.bytes == mark->bytes && now.changed_ns == mark->changed_ns
               ? 0
               : coxi_error(COX_ECONFLICT, "%s changed while it was read",
                            source->name);
}

/*
 * A source: the bytes of one file, wherever the file is: at a path (source_path.h), at an
 * address, or at the client. Sources of a name are opened by sources.h.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_SOURCE_H
#define COXI_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

enum { COXI_HEAD_BYTES = 4096 };

/* Identifies a file's content, so that a change is noticed. Size and time are as good as
 * the source; 0: not known. */
struct coxi_file_mark {
    uint64_t bytes;
    /* since 1970; or a number that other content does not have (of an ETag) */
    uint64_t changed_ns;
    uint32_t head_crc; /* crc32 of the first COXI_HEAD_BYTES */
};

struct coxi_source;

/* The functions of a kind of source. `self` is the kind's own. Errors are COX_EIO or
 * COX_ENOENT, or what the kind adds; their text names the file. */
struct coxi_source_kind {
    /* Reads at most `len` bytes at `offset`; *ret_len is less than `len` only if the
     * file ends there. Ends in bounded time. */
    int (*read)(void *self, uint64_t offset, void *to, size_t len, size_t *ret_len);
    /* Size and time; head_crc stays 0. */
    int (*stat)(void *self, struct coxi_file_mark *ret);
    void (*close)(void *self);
    /* Any thread: reads that wait, and later ones, fail soon with COX_ECANCELLED. NULL:
     * reads do not wait long. */
    void (*cancel)(void *self);
    /* NULL, or opens the file whose name is this one's with `end` behind it. COX_ENOENT:
     * there is none. */
    int (*beside)(void *self, const char *end, struct coxi_source *ret);
    size_t piece; /* bytes that are best read at a time; 0: COXI_PIECE_BYTES */
};

enum { COXI_PIECE_BYTES = 256 << 10 };

/* A zeroed source is a closed one. */
struct coxi_source {
    const struct coxi_source_kind *kind;
    void *self;
    char *name; /* as messages show it (data/name.h); of a path, the path */
};

/* Makes a source of a kind's own; a failure leaves `self` to the caller. */
int coxi_source_init(const struct coxi_source_kind *kind, void *self, const char *name,
                     struct coxi_source *ret);
void coxi_source_close(struct coxi_source *source);

static inline int coxi_source_read(const struct coxi_source *source, uint64_t offset,
                                   void *to, size_t len, size_t *ret_len)
{
    return source->kind->read(source->self, offset, to, len, ret_len);
}

/* Ends a read that is under way, because nobody needs it any more. Any thread. */
static inline void coxi_source_cancel(const struct coxi_source *source)
{
    if (source->kind->cancel != NULL) {
        source->kind->cancel(source->self);
    }
}

/* The file's mark, with the crc of its head. */
int coxi_source_mark(const struct coxi_source *source, struct coxi_file_mark *ret);

/* COX_ECONFLICT: the file is not that of `expected` any more; the text names the file
 * and the difference. An `expected` of zeros is every file. */
int coxi_source_check(const struct coxi_source *source,
                      const struct coxi_file_mark *expected);

/* COX_ECONFLICT: size or time are not those of `mark`, which were taken when reading began. */
int coxi_source_check_unchanged(const struct coxi_source *source,
                                const struct coxi_file_mark *mark);

#endif

/*
 * Formats: how the bytes of a stream become rows. Each format is a table of functions
 * in a file of its own (format_libsvm.h ...); formats.h finds it by its number.
 *
 * To add one: write format_NAME.[ch], and list it in formats.c.
 */
#ifndef COXI_DATA_FORMAT_H
#define COXI_DATA_FORMAT_H

#include "data/bad.h"
#include "data/decoding.h"
#include "data/rows.h"
#include "data/stream.h"

/* A parser at work: one task. Each record belongs to the task in whose [begin, end) it
 * begins. */
struct coxi_parser {
    struct coxi_stream *stream;
    const struct coxi_decoding *decoding;
    uint64_t begin; /* not 0: the task's first record must be looked for (sync) */
    uint64_t end;   /* UINT64_MAX: the file's */
    struct coxi_bad_records *bad;
    uint64_t frame; /* where the frame of the last record begins (data/frames.h) */
    void *state;    /* the format's own */
    void *content;  /* of content.h; NULL: raw */
};

struct coxi_format {
    bool splits; /* a plain file may be cut into tasks at any byte */
    /* The stream begins so many bytes before parser->begin, unless that is 0. */
    uint64_t before;
    /* The arrays of the format's rows. */
    struct coxi_rows_shape (*shape)(const struct coxi_decoding *decoding);
    /* NULL: nothing to do. `close` is called also after `open` has failed. */
    int (*open)(struct coxi_parser *parser);
    void (*close)(struct coxi_parser *parser);
    /* Moves the stream to the first record at or behind parser->begin, which is not 0.
     * COX_EEOF: none begins before parser->end. */
    int (*sync)(struct coxi_parser *parser);
    /* Appends records until the rows have `n`. COX_EEOF: the task has no more, and its
     * end was verified. Malformed records go to coxi_bad_record, whose result says
     * whether to go on. */
    int (*parse)(struct coxi_parser *parser, struct coxi_rows *rows, size_t n);
};

#endif

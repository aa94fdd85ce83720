/*
 * Scans: the records of a file from its first to its last, for commands that look at
 * them. And the options that say how files are read. Main thread.
 */
#ifndef COXI_CLI_DATA_SCAN_H
#define COXI_CLI_DATA_SCAN_H

#include "common/option.h"
#include "data/bad.h"
#include "data/decoding.h"
#include "data/format.h"
#include "data/rows.h"
#include "data/stream.h"

/* ---- options */

/* Options of commands that read files; their `config` structs have one as `input`. */
struct coxi_data_input {
    const char *format;
    struct coxi_option_list column;
    const char *separator;
    int64_t buckets;
    bool header;
    /* no option: the columns, parsed */
    struct cox_column *columns;
};

#define COXI_DATA_FORMATS "libsvm|libffm|criteo|csv|text|recordio|tfrecord"

#define COXI_DATA_INPUT(config)                                                        \
    {.name = "format",                                                                 \
     .type = COXI_OPTION_CHOICE,                                                       \
     .offset = offsetof(config, input.format),                                         \
     .choices = COXI_DATA_FORMATS,                                                     \
     .help = "the files' format (default: by the end of the name: .libsvm .libffm "    \
             ".csv .tsv .txt .recordio .tfrecord, and each with .gz)"},                \
        {.name = "column",                                                             \
         .type = COXI_OPTION_LIST,                                                     \
         .offset = offsetof(config, input.column),                                     \
         .help = "a column of CSV, or a feature of tf.Example, as NAME:KIND; KIND: "   \
                 "label, weight, dense, key, bytes; then :width=N :missing=X :log "    \
                 ":integers :buckets=N; give it once for each column"},                \
        {.name = "separator",                                                          \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, input.separator),                                  \
         .help = "the character between the fields of CSV, or 'tab' (default: a "      \
                 "comma; a tab if the name ends in .tsv)"},                            \
        {.name = "buckets",                                                            \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, input.buckets),                                    \
         .max = 9e15,                                                                  \
         .fallback = "0",                                                              \
         .help = "criteo and text: hash keys modulo this; 0: of 64 bits"},             \
        {.name = "header",                                                             \
         .type = COXI_OPTION_FLAG,                                                     \
         .offset = offsetof(config, input.header),                                     \
         .help = "csv and criteo: each file begins with a line that is no record"}

/* Parses the columns. COX_EINVAL: the text names the one that is wrong. */
int coxi_data_input_parse(struct coxi_data_input *input);
void coxi_data_input_fini(struct coxi_data_input *input);

/* How a file is to be read, by the options and its name. COX_EINVAL: neither tells the
 * format. */
int coxi_data_decoding(const struct coxi_data_input *input, const char *file,
                       struct coxi_decoding *ret);

/* The format that the name's end tells; 0: none. */
uint32_t coxi_data_guess_format(const char *file);

/* True: the records of the format are lines. */
bool coxi_data_is_lines(uint32_t format);

/* ---- scanning */

/* What records become. */
enum coxi_data_view {
    COXI_DATA_RAW,     /* bytes, undecoded; of formats of lines: the lines */
    COXI_DATA_DECODED, /* what a step gets; raw if CSV has no columns */
};

struct coxi_data_scan {
    struct coxi_rows rows; /* the records at hand */
    struct coxi_bad_records bad;
    bool decoded;
    uint64_t bytes; /* of the file as it is stored */

    /* its own */
    struct coxi_decoding decoding;
    const struct coxi_format *format;
    struct coxi_source source;
    struct coxi_file_mark mark; /* when reading began */
    struct coxi_block_pool pool;
    struct coxi_stream stream;
    struct coxi_parser parser;
    int ending; /* 0, or the code with which the file has ended */
    char text[1024];
};

/* Opens a path or URL; close it also after an error. Bad records are errors, unless the
 * caller sets bad.leaves_out. */
int coxi_data_scan_open(const char *file, const struct coxi_data_input *input,
                        enum coxi_data_view view, struct coxi_data_scan *ret);

/* Replaces the records at hand with the next ones, at most `n`. COX_EEOF: there are none;
 * COX_ECANCELLED: the command was interrupted; COX_ECONFLICT: the file was changed while it
 * was read; others: the text has file and offset. */
int coxi_data_scan_next(struct coxi_data_scan *scan, size_t n);

/* The crc32 of [from, to) of a file; `room` has COXI_PIECE_BYTES. */
int coxi_data_sum_up(const struct coxi_source *source, uint64_t from, uint64_t to,
                     uint8_t *room, uint32_t *ret);

/* How far the scan is, in bytes of the stored file. */
uint64_t coxi_data_scan_at(const struct coxi_data_scan *scan);

void coxi_data_scan_close(struct coxi_data_scan *scan);

#endif

/*
 * Writes a file of records for the commands that make files: lines, TFRecord or
 * RecordIO. The file is FILE.part until it is finished, so no half file has the name.
 * A name that ends in .gz is compressed as a whole (not RecordIO, whose chunks are).
 *
 * Main thread.
 */
#ifndef COXI_CLI_DATA_OUTPUT_H
#define COXI_CLI_DATA_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "cli/data_scan.h"

struct coxi_data_output;

/* `format`: COX_RECORDIO, COX_TFRECORD, or COX_TEXT for lines of any kind. `codec` (enum
 * coxi_codec) is for RecordIO. COX_EINVAL: RecordIO with .gz. COX_EIO, COX_ENOMEM. */
int coxi_data_output_open(const char *path, uint32_t format, uint32_t codec,
                          struct coxi_data_output **ret);

/* Adds a record; a line without its newline. COX_ELIMIT, COX_EIO, COX_ENOMEM. */
int coxi_data_output_add(struct coxi_data_output *output, const void *record,
                         size_t len);

/* COX_EFORMAT: the output (path and format) has lines, and record `i` of those at hand has
 * a newline (of CSV: not within quotes, or its quotes stay open), so that others would be
 * read than were written; the text has file and offset. COX_ENOMEM. */
int coxi_data_output_fits(const char *path, uint32_t format,
                          const struct coxi_data_scan *scan, size_t i);

/* Adds record `i` of those at hand, if it fits. */
int coxi_data_output_copy(struct coxi_data_output *output,
                          const struct coxi_data_scan *scan, size_t i);

/* Gives the file its name; frees the output in any case. Takes NULL. */
int coxi_data_output_finish(struct coxi_data_output *output);

/* Removes the part; takes NULL. */
void coxi_data_output_abandon(struct coxi_data_output *output);

/* ---- options */

#define COXI_DATA_TO(config)                                                           \
    {.name = "to",                                                                     \
     .type = COXI_OPTION_CHOICE,                                                       \
     .offset = offsetof(config, to),                                                   \
     .choices = "recordio|tfrecord|lines",                                             \
     .help = "the format of OUT (default: by its name: .recordio, .tfrecord, "         \
             "otherwise lines)"}

#define COXI_DATA_CODEC(config)                                                        \
    {.name = "codec",                                                                  \
     .type = COXI_OPTION_CHOICE,                                                       \
     .offset = offsetof(config, codec),                                                \
     .choices = "none|gzip|snappy",                                                    \
     .fallback = "none",                                                               \
     .help = "how RecordIO's chunks are compressed"}

uint32_t coxi_data_codec(const char *name); /* enum coxi_codec */

/* The format of an output by option (NULL, or recordio|tfrecord|lines) or name. */
uint32_t coxi_data_output_format(const char *path, const char *option);

/* COX_EINVAL: the output is one of the inputs, an address, or something that is no
 * regular file. */
int coxi_data_output_check(const char *path, char *const *files, size_t n);

#endif

/* See data_output.h. Lines and TFRecord are collected in a buffer. */
#include "cli/data_output.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/file.h"
#include "coxswain/batch.h"
#include "data/codec.h"
#include "data/csv.h"
#include "data/format_tfrecord.h"
#include "data/name.h"
#include "data/part.h"
#include "data/recordio_write.h"
#include "data/stream.h"

enum { BUFFER = 256 << 10 };

struct coxi_data_output {
    struct coxi_recordio_writer *recordio; /* NULL: the part is used */
    struct coxi_part part;
    gzFile gz; /* NULL, or writes to the part */
    uint32_t format;
    struct coxi_buffer buffer;
    char path[PATH_MAX];
};

/* Removes the part, unless it was finished. */
static void output_free(struct coxi_data_output *output)
{
    if (output->gz != NULL) {
        (void)gzclose(output->gz);
    }
    coxi_part_abandon(&output->part);
    coxi_buffer_fini(&output->buffer);
    free(output);
}

static int open_gz(struct coxi_data_output *output)
{
    int fd = fcntl(output->part.fd, F_DUPFD_CLOEXEC, 0); /* gzclose closes it */
    output->gz = fd >= 0 ? gzdopen(fd, "wb") : NULL;
    if (output->gz == NULL && fd >= 0) {
        (void)close(fd);
    }
    return output->gz != NULL ? 0 : coxi_part_cannot_write(&output->part);
}

static int open_part(struct coxi_data_output *output, const char *path)
{
    int r = coxi_part_open(path, &output->part);
    if (r != 0) {
        return r;
    }
    return coxi_name_inflates(path) ? open_gz(output) : 0;
}

int coxi_data_output_open(const char *path, uint32_t format, uint32_t codec,
                          struct coxi_data_output **ret)
{
    struct coxi_data_output *output = calloc(1, sizeof(*output));
    if (output == NULL) {
        return coxi_error_memory(path);
    }
    output->part.fd = -1;
    output->format = format;
    int r = coxi_path(output->path, "%s", path);
    if (r != 0) {
        output_free(output);
        return r;
    }
    if (format != COX_RECORDIO) {
        r = open_part(output, path);
    } else if (coxi_name_inflates(path)) {
        r = coxi_error(COX_EINVAL,
                       "%s: RecordIO is not compressed as a whole: say --codec gzip, "
                       "and a name without .gz",
                       path);
    } else {
        r = coxi_recordio_create(path, codec, 0, &output->recordio);
    }
    if (r != 0) {
        output_free(output);
        return r;
    }
    *ret = output;
    return 0;
}

static int flush(struct coxi_data_output *output)
{
    size_t len = output->buffer.len;
    bool ok = len == 0 ||
              (output->gz != NULL
                   ? gzwrite(output->gz, output->buffer.data, (unsigned)len) == (int)len
                   : coxi_fd_write(output->part.fd, output->buffer.data, len) == 0);
    output->buffer.len = 0;
    return ok ? 0 : coxi_part_cannot_write(&output->part);
}

int coxi_data_output_add(struct coxi_data_output *output, const void *record,
                         size_t len)
{
    if (output->recordio != NULL) {
        return coxi_recordio_add(output->recordio, record, len);
    }
    if (len > COXI_RECORD_MAX / 2) {
        return coxi_error(COX_ELIMIT, "%s: a record of %zu bytes; the limit is %zu",
                          output->path, len, COXI_RECORD_MAX / 2);
    }
    int r;
    if (output->format == COX_TFRECORD) {
        r = coxi_tfrecord_append(&output->buffer, record, len);
    } else {
        r = coxi_buffer_reserve(&output->buffer, len + 1);
        r = r == 0 ? coxi_buffer_append_raw(&output->buffer, record, len) : r;
        r = r == 0 ? coxi_buffer_append_raw(&output->buffer, "\n", 1) : r;
    }
    return r == 0 && output->buffer.len >= BUFFER ? flush(output) : r;
}

/* Whether a record is one in a file of CSV. */
static int fits_csv(const char *path, const struct coxi_data_scan *scan,
                    const struct cox_bytes *record)
{
    struct coxi_csv csv = {.separator = ','};
    if (scan->decoding.format == COX_CSV) {
        csv.separator = (uint8_t)scan->decoding.separator;
    } else if (coxi_name_has_format(path, ".tsv")) {
        csv.separator = '\t';
    }
    int r = coxi_csv_check(&csv, record->data, record->len);
    coxi_csv_fini(&csv);
    return r;
}

int coxi_data_output_fits(const char *path, uint32_t format,
                          const struct coxi_data_scan *scan, size_t i)
{
    const struct cox_bytes *record = &scan->rows.bytes[i];
    int r = 0;
    if (format != COX_TEXT || record->len == 0) {
        return 0;
    }
    if (coxi_data_guess_format(path) == COX_CSV) {
        r = fits_csv(path, scan, record);
    } else if (memchr(record->data, '\n', record->len) != NULL) {
        r = coxi_error(COX_EFORMAT, "it has a newline");
    }
    if (r != COX_EFORMAT) {
        return r;
    }
    char reason[64];
    (void)snprintf(reason, sizeof(reason), "%s", coxi_error_text());
    return coxi_error(COX_EFORMAT, "%s:%llu: the record cannot be a line of %s: %s",
                      scan->source.name, (unsigned long long)scan->rows.offsets[i],
                      path, reason);
}

int coxi_data_output_copy(struct coxi_data_output *output,
                          const struct coxi_data_scan *scan, size_t i)
{
    const struct cox_bytes *record = &scan->rows.bytes[i];
    int r = coxi_data_output_fits(output->path, output->format, scan, i);
    return r == 0 ? coxi_data_output_add(output, record->data, record->len) : r;
}

static int finish_part(struct coxi_data_output *output)
{
    int r = flush(output);
    if (r == 0 && output->gz != NULL) {
        r = gzclose(output->gz) == Z_OK ? 0 : coxi_part_cannot_write(&output->part);
        output->gz = NULL;
    }
    return r == 0 ? coxi_part_finish(&output->part) : r;
}

int coxi_data_output_finish(struct coxi_data_output *output)
{
    int r = 0;
    if (output == NULL) {
        return 0;
    }
    if (output->recordio != NULL) {
        r = coxi_recordio_finish(output->recordio);
        output->recordio = NULL;
    } else {
        r = finish_part(output);
    }
    output_free(output);
    return r;
}

void coxi_data_output_abandon(struct coxi_data_output *output)
{
    if (output == NULL) {
        return;
    }
    coxi_recordio_abandon(output->recordio);
    output_free(output);
}

/* ---- options */

uint32_t coxi_data_codec(const char *name)
{
    return strcmp(name, "gzip") == 0     ? COXI_CODEC_GZIP
           : strcmp(name, "snappy") == 0 ? COXI_CODEC_SNAPPY
                                         : COXI_CODEC_NONE;
}

uint32_t coxi_data_output_format(const char *path, const char *option)
{
    uint32_t guess = coxi_data_guess_format(path);
    if (option == NULL) {
        return coxi_data_is_lines(guess) ? COX_TEXT : guess;
    }
    return strcmp(option, "recordio") == 0   ? COX_RECORDIO
           : strcmp(option, "tfrecord") == 0 ? COX_TFRECORD
                                             : COX_TEXT;
}

/* Fails if `written`, a file of the output `path`, is one of the files. */
static int check_inputs(const char *path, const char *written, char *const *files,
                        size_t n)
{
    struct stat out;
    struct stat in;
    for (size_t i = 0; stat(written, &out) == 0 && i < n; i++) {
        if (stat(files[i], &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino) {
            return coxi_error(COX_EINVAL,
                              "%s is read and written: name another output "
                              "than %s",
                              written, path);
        }
    }
    return 0;
}

int coxi_data_output_check(const char *path, char *const *files, size_t n)
{
    struct stat out;
    if (coxi_name_has_scheme(path)) {
        return coxi_error(COX_EINVAL, "%s is an address: only files can be written",
                          coxi_name_shown(path).text);
    }
    /* finishing renames the part over the path, which would replace a device or a link */
    if (lstat(path, &out) == 0 && !S_ISREG(out.st_mode)) {
        return coxi_error(COX_EINVAL,
                          "%s is there, and is no regular file: name another output",
                          path);
    }
    int r = check_inputs(path, path, files, n);
    char part[PATH_MAX];
    r = r == 0 ? coxi_path(part, "%s" COXI_PART_END, path) : r;
    return r == 0 ? check_inputs(path, part, files, n) : r;
}

/*
 * Case `data`: how fast files become batches on one core, in bytes of the file for each
 * second of CPU time, of all threads and of the kernel. The files are in TMPDIR and in
 * the page cache; --bytes is their size.
 *
 *   crc32, crc32c   the checksums alone, of 256 KiB in the cache, against zlib's
 *   libsvm          against counting the file's lines with memchr
 *   recordio        raw records of 1000 bytes in chunks of 1 MiB, against reading the
 *                   file with checksums; recordio_small: of 200 bytes; recordio32: in
 *                   chunks of 32 MiB
 *   tfrecord        raw records, against a plain loop that verifies their checksums
 *   criteo, csv, text
 *                   against counting the file's lines with memchr
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/bench.h"
#include "common/crc.h"
#include "common/crc32c.h"
#include "common/file.h"
#include "common/rand.h"
#include "data/codec.h"
#include "data/format_tfrecord.h"
#include "data/reader.h"
#include "data/recordio_write.h"
#include "data/sources.h"

enum { PIECE = 256 << 10, BATCH_SIZE = 256, FEATURES = 40, TFRECORD_MAX = 400 };

struct job {
    struct bench *bench;
    uint64_t bytes; /* about, of each file */
    uint8_t *piece;
    char path[128];
};

/* ---- checksums */

static uint32_t crc_of_zlib(uint32_t crc, const void *data, size_t len)
{
    return (uint32_t)crc32_z(crc, data, len);
}

typedef uint32_t sum_function(uint32_t sum, const void *data, size_t len);

static double sum_speed(const struct job *job, sum_function *sum)
{
    static volatile uint32_t used;
    double start = bench_cpu_self();
    double bytes = 0;
    uint32_t crc = 0;
    while (bytes < (double)job->bytes) {
        crc = sum(crc, job->piece, PIECE);
        bytes += PIECE;
    }
    used = crc;
    (void)used;
    return bytes / (bench_cpu_self() - start) / 1e9;
}

static void measure_sum(struct job *job, const char *name, sum_function *sum)
{
    struct bench_measurement m = {.name = name,
                                  .params = "{}",
                                  .unit = "GB/s",
                                  .baseline_name = "zlib's crc32",
                                  .n_rounds = BENCH_ROUNDS};
    if (!bench_wants(job->bench, name)) {
        return;
    }
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        m.value[i].value = sum_speed(job, sum);
        m.baseline[i] = sum_speed(job, crc_of_zlib);
    }
    bench_report(job->bench, "data", &m);
}

/* ---- files */

/* Click logs have about as many features, and such numbers. */
static void write_libsvm(struct job *job)
{
    FILE *file = fopen(job->path, "we");
    uint64_t rng = 1;
    uint64_t bytes = 0;
    if (file == NULL) {
        bench_die("cannot write %s", job->path);
    }
    while (bytes < job->bytes) {
        int n = fprintf(file, "%d", (int)(coxi_rand(&rng) % 2));
        bytes += (uint64_t)n;
        for (int i = 0; i < FEATURES; i++) {
            uint64_t key = coxi_rand(&rng) % 10000000;
            n = i % 3 == 0
                    ? fprintf(file, " %" PRIu64 ":%.6g", key, coxi_rand_unit(&rng))
                    : fprintf(file, " %" PRIu64 ":1", key);
            bytes += (uint64_t)n;
        }
        (void)fputc('\n', file);
    }
    if (fclose(file) != 0) {
        bench_die("cannot write %s", job->path);
    }
}

/* Records of `mean` bytes on average. */
static void write_recordio(struct job *job, size_t chunk_bytes, size_t mean)
{
    struct coxi_recordio_writer *writer;
    uint64_t rng = 1;
    bench_check(coxi_recordio_create(job->path, COXI_CODEC_NONE, chunk_bytes, &writer),
                "recordio");
    for (uint64_t bytes = 0; bytes < job->bytes;) {
        size_t len = coxi_rand(&rng) % (2 * mean);
        bench_check(coxi_recordio_add(writer, job->piece + coxi_rand(&rng) % 1024, len),
                    "recordio");
        bytes += len + 4;
    }
    bench_check(coxi_recordio_finish(writer), "recordio");
}

static void write_tfrecord(struct job *job)
{
    FILE *file = fopen(job->path, "we");
    struct coxi_buffer buffer = {0};
    uint64_t rng = 1;
    bool written = file != NULL;
    for (uint64_t bytes = 0; written && bytes < job->bytes; bytes += buffer.len) {
        size_t len = coxi_rand(&rng) % TFRECORD_MAX;
        buffer.len = 0;
        bench_check(
            coxi_tfrecord_append(&buffer, job->piece + coxi_rand(&rng) % 1024, len),
            "tfrecord");
        written = fwrite(buffer.data, buffer.len, 1, file) == 1;
    }
    coxi_buffer_fini(&buffer);
    if (!written || fclose(file) != 0) {
        bench_die("cannot write %s", job->path);
    }
}

/* A line like those of Criteo's logs, which have 250 bytes; returns its length. */
static int write_click(FILE *file, uint64_t *rng, char separator)
{
    int bytes = fprintf(file, "%d", (int)(coxi_rand(rng) % 4 == 0));
    for (int i = 0; i < 13; i++) {
        uint64_t most = i % 4 == 1 ? 20000 : 40;
        int n = coxi_rand(rng) % 5 == 0
                    ? fprintf(file, "%c", separator)
                    : fprintf(file, "%c%" PRIu64, separator, coxi_rand(rng) % most);
        bytes += n;
    }
    for (int i = 0; i < 26; i++) {
        bytes += coxi_rand(rng) % 10 == 0 ? fprintf(file, "%c", separator)
                                          : fprintf(file, "%c%08" PRIx32, separator,
                                                    (uint32_t)coxi_rand(rng));
    }
    return bytes + fprintf(file, "\n");
}

static int write_words(FILE *file, uint64_t *rng, char separator)
{
    int bytes = 0;
    for (uint64_t n = 5 + coxi_rand(rng) % 20; n > 0; n--) {
        char word[] = "abcdefghijklmnop";
        word[1 + coxi_rand(rng) % 9] = '\0';
        word[0] = (char)('a' + coxi_rand(rng) % 26);
        bytes += fprintf(file, "%s%c", word, separator);
    }
    return bytes + fprintf(file, "\n");
}

static void write_lines(struct job *job, char separator,
                        int (*write_line)(FILE *file, uint64_t *rng, char separator))
{
    FILE *file = fopen(job->path, "we");
    uint64_t rng = 1;
    if (file == NULL) {
        bench_die("cannot write %s", job->path);
    }
    for (uint64_t bytes = 0; bytes < job->bytes;) {
        bytes += (uint64_t)write_line(file, &rng, separator);
    }
    if (fclose(file) != 0) {
        bench_die("cannot write %s", job->path);
    }
}

/* ---- reading */

struct amount {
    double bytes;
    double records;
};

static struct amount read_batches(const struct job *job,
                                  const struct coxi_decoding *decoding)
{
    const struct coxi_task task = {.file = job->path,
                                   .end = UINT64_MAX,
                                   .batch_size = BATCH_SIZE,
                                   .decoding = *decoding};
    struct coxi_source source;
    struct coxi_reader *reader;
    struct coxi_reader_counts counts;
    struct cox_batch batch;
    int r;
    bench_check(coxi_source_open(job->path, &source), "open");
    bench_check(coxi_reader_open(&task, &source, &reader), "open");
    while ((r = coxi_reader_next(reader, &batch)) == 0) {
    }
    bench_check(r == COX_EEOF ? 0 : r, "read");
    coxi_reader_counts(reader, &counts);
    coxi_reader_close(reader);
    return (struct amount){(double)counts.bytes, (double)counts.records};
}

/* Calls `look` with the file's pieces. */
static double read_pieces(const struct job *job,
                          uint64_t (*look)(uint64_t sum, const uint8_t *data,
                                           size_t len))
{
    static volatile uint64_t used;
    uint64_t sum = 0;
    double bytes = 0;
    ssize_t n;
    int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = coxi_fd_read(fd, job->piece, PIECE)) > 0) {
        sum = look(sum, job->piece, (size_t)n);
        bytes += (double)n;
    }
    used = sum;
    (void)used;
    (void)close(fd);
    return bytes;
}

static uint64_t count_lines(uint64_t sum, const uint8_t *data, size_t len)
{
    const uint8_t *end = data + len;
    while ((data = memchr(data, '\n', (size_t)(end - data))) != NULL) {
        data++;
        sum++;
    }
    return sum;
}

static uint64_t sum_up(uint64_t sum, const uint8_t *data, size_t len)
{
    return coxi_crc32((uint32_t)sum, data, len);
}

/* Verifies the checksums of the whole records in `data`; returns their bytes. */
static size_t verify_records(const uint8_t *data, size_t len)
{
    enum { HEAD = 12, AROUND = 16 };
    size_t at = 0;
    while (len - at >= AROUND) {
        uint64_t n;
        uint32_t sums[2];
        memcpy(&n, data + at, sizeof(n));
        if (n > len - at - AROUND) {
            break;
        }
        memcpy(&sums[0], data + at + sizeof(n), sizeof(sums[0]));
        memcpy(&sums[1], data + at + HEAD + n, sizeof(sums[1]));
        if (coxi_crc32c_masked(coxi_crc32c(0, data + at, sizeof(n))) != sums[0] ||
            coxi_crc32c_masked(coxi_crc32c(0, data + at + HEAD, n)) != sums[1]) {
            bench_die("a checksum differs");
        }
        at += n + AROUND;
    }
    return at;
}

/* A plain loop over a TFRecord file. */
static double read_records(const struct job *job)
{
    size_t have = 0;
    double bytes = 0;
    ssize_t n;
    int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = coxi_fd_read(fd, job->piece + have, PIECE - have)) > 0) {
        have += (size_t)n;
        size_t used = verify_records(job->piece, have);
        memmove(job->piece, job->piece + used, have - used);
        have -= used;
        bytes += (double)n;
    }
    (void)close(fd);
    return bytes;
}

struct reading {
    const char *name;
    struct coxi_decoding decoding;
    const char *baseline_name;
    uint64_t (*look)(uint64_t sum, const uint8_t *data, size_t len); /* NULL: */
    double (*read)(const struct job *job);
};

static void measure_reading(struct job *job, const struct reading *reading)
{
    char params[96];
    struct bench_measurement m = {.name = reading->name,
                                  .params = params,
                                  .unit = "GB/s",
                                  .baseline_name = reading->baseline_name,
                                  .n_rounds = BENCH_ROUNDS};
    struct amount amount = {0};
    for (int i = -1; i < BENCH_ROUNDS; i++) { /* the first one warms up */
        double start = bench_cpu_self();
        amount = read_batches(job, &reading->decoding);
        double middle = bench_cpu_self();
        double bytes = reading->look != NULL ? read_pieces(job, reading->look)
                                             : reading->read(job);
        double end = bench_cpu_self();
        if (i >= 0) {
            m.value[i].value = amount.bytes / (middle - start) / 1e9;
            m.value[i].cpu_us = (middle - start) * 1e6 / amount.records;
            m.baseline[i] = bytes / (end - middle) / 1e9;
        }
    }
    (void)snprintf(params, sizeof(params), "{\"bytes\":%.0f,\"records\":%.0f}",
                   amount.bytes, amount.records);
    bench_report(job->bench, "data", &m);
    (void)unlink(job->path);
}

/* The formats of clicks, words and TFRecord. */
static void measure_formats(struct job *job)
{
    enum { BUCKETS = 1000000, CLICK_COLUMNS = 40 };
    static const struct reading tfrecord = {
        "tfrecord", {.format = COX_TFRECORD}, "a plain loop", NULL, read_records};
    static const struct reading criteo = {"criteo",
                                          {.format = COX_CRITEO, .buckets = BUCKETS},
                                          "memchr",
                                          count_lines,
                                          NULL};
    static const struct reading text = {
        "text", {.format = COX_TEXT, .buckets = BUCKETS}, "memchr", count_lines, NULL};
    struct cox_column columns[CLICK_COLUMNS];
    char names[CLICK_COLUMNS][12];
    const struct reading csv = {"csv",
                                {.format = COX_CSV,
                                 .columns = columns,
                                 .n_columns = CLICK_COLUMNS,
                                 .separator = ','},
                                "memchr",
                                count_lines,
                                NULL};
    for (int i = 0; i < CLICK_COLUMNS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%d", i);
        columns[i] = (struct cox_column){.name = names[i], .kind = COX_COLUMN_DENSE};
        if (i > 13) {
            columns[i].kind = COX_COLUMN_KEY;
            columns[i].buckets = BUCKETS;
        }
        columns[i].log = i > 0 && i <= 13;
    }
    columns[0].kind = COX_COLUMN_LABEL;
    if (bench_wants(job->bench, tfrecord.name)) {
        write_tfrecord(job);
        measure_reading(job, &tfrecord);
    }
    if (bench_wants(job->bench, criteo.name)) {
        write_lines(job, '\t', write_click);
        measure_reading(job, &criteo);
    }
    if (bench_wants(job->bench, csv.name)) {
        write_lines(job, ',', write_click);
        measure_reading(job, &csv);
    }
    if (bench_wants(job->bench, text.name)) {
        write_lines(job, ' ', write_words);
        measure_reading(job, &text);
    }
}

void bench_data(struct bench *bench)
{
    static const struct reading libsvm = {
        "libsvm", {.format = COX_LIBSVM}, "memchr", count_lines, NULL};
    static const struct reading recordio = {
        "recordio", {.format = COX_RECORDIO}, "reading with crc32", sum_up, NULL};
    static const struct reading recordio_small = {
        "recordio_small", {.format = COX_RECORDIO}, "reading with crc32", sum_up, NULL};
    static const struct reading recordio32 = {
        "recordio32", {.format = COX_RECORDIO}, "reading with crc32", sum_up, NULL};
    struct job job = {.bench = bench,
                      .bytes = bench->bytes > 0 ? bench->bytes : 256000000,
                      .piece = malloc(PIECE)};
    uint64_t rng = 1;
    if (job.piece == NULL) {
        bench_die("no memory");
    }
    for (size_t i = 0; i < PIECE; i++) {
        job.piece[i] = (uint8_t)coxi_rand(&rng);
    }
    (void)snprintf(job.path, sizeof(job.path), "%s/data", bench->dir);
    measure_sum(&job, "crc32", coxi_crc32);
    measure_sum(&job, "crc32c", coxi_crc32c);
    if (bench_wants(bench, libsvm.name)) {
        write_libsvm(&job);
        measure_reading(&job, &libsvm);
    }
    if (bench_wants(bench, recordio.name)) {
        write_recordio(&job, 1 << 20, 1000);
        measure_reading(&job, &recordio);
    }
    if (bench_wants(bench, recordio_small.name)) {
        write_recordio(&job, 1 << 20, 200);
        measure_reading(&job, &recordio_small);
    }
    if (bench_wants(bench, recordio32.name)) {
        write_recordio(&job, 32 << 20, 1000);
        measure_reading(&job, &recordio32);
    }
    measure_formats(&job);
    free(job.piece);
}

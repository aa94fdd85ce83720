/* RecordIO files for tests. */
#ifndef COXI_TESTS_DATA_RECORDIO_SAMPLE_H
#define COXI_TESTS_DATA_RECORDIO_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* A record's bytes and their number. */
struct sample_record {
    const void *data;
    size_t len;
};

void sample_recordio(const char *path, uint32_t codec, size_t chunk_bytes,
                     const struct sample_record *records, size_t n);

/* `n` records of random lengths and bytes; some of them are RecordIO files themselves if
 * `nested`. */
void sample_recordio_random(const char *path, uint64_t *rng, size_t n, int nested);

#endif

/* Indexes whose checksums are right and whose offsets are not: a file that is cut by one
 * has each record once, or one of its tasks is an error. */
#include "data/index.h"

#include <stdlib.h>
#include <string.h>

#include "common/rand.h"
#include "coxswain/dataset.h"
#include "data/format_tfrecord.h"
#include "data/sources.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { RECORDS = 60, ROUNDS = 120, CUTS = 12 };

struct sample {
    char *path;
    uint64_t bytes;
    uint64_t offsets[RECORDS];
};

/* Writes records of which some contain a file of records, and some are long. */
static void write_sample(uint64_t *rng, struct sample *ret)
{
    static const uint8_t zeros[4000];
    struct coxi_buffer inner = {0};
    struct coxi_buffer file = {0};
    for (int i = 0; i < 5; i++) {
        assert_code(0, coxi_tfrecord_append(&inner, "inner", 5));
    }
    for (size_t i = 0; i < RECORDS; i++) {
        bool nested = coxi_rand(rng) % 2 == 0;
        size_t most = coxi_rand(rng) % 8 == 0 ? sizeof(zeros) : 40;
        ret->offsets[i] = file.len;
        assert_code(0,
                    coxi_tfrecord_append(&file, nested ? inner.data : zeros,
                                         nested ? inner.len : coxi_rand(rng) % most));
    }
    ret->path = coxi_test_path("file.tfrecord");
    ret->bytes = file.len;
    coxi_test_write(ret->path, file.data, file.len);
    coxi_buffer_fini(&file);
    coxi_buffer_fini(&inner);
}

/* Writes an index with an entry for every fifth record, of which `n_false` are false. */
static void write_index(const struct sample *sample, uint64_t *rng, size_t n_false)
{
    enum { EVERY = 5, ENTRIES = RECORDS / EVERY };
    static const uint8_t magic[] = COXI_INDEX_MAGIC_BYTES;
    struct coxi_source source;
    struct coxi_file_mark mark;
    struct coxi_buffer bytes = {0};
    struct coxi_file_index_entry entries[ENTRIES] = {0};
    assert_code(0, coxi_source_open(sample->path, &source));
    assert_code(0, coxi_source_mark(&source, &mark));
    coxi_source_close(&source);
    struct coxi_file_index_head head = {.format = COX_TFRECORD,
                                        .every = EVERY,
                                        .bytes = mark.bytes,
                                        .changed_ns = mark.changed_ns,
                                        .head_crc = mark.head_crc,
                                        .records = RECORDS,
                                        .entries = ENTRIES};
    memcpy(head.magic, magic, sizeof(magic));
    for (size_t i = 0; i < ENTRIES; i++) {
        entries[i].offset = sample->offsets[i * EVERY];
        entries[i].record = i * EVERY;
    }
    for (size_t i = 0; i < n_false; i++) {
        uint64_t *offset = &entries[1 + coxi_rand(rng) % (ENTRIES - 1)].offset;
        /* near the true place, at the first record within a record, or anywhere */
        *offset = coxi_rand(rng) % 3 == 0   ? *offset + coxi_rand(rng) % 40
                  : coxi_rand(rng) % 2 == 0 ? *offset + 12
                                            : coxi_rand(rng);
        *offset %= sample->bytes;
    }
    assert_code(0, coxi_file_index_pack(&head, entries, &bytes));
    coxi_test_write(coxi_test_path("file.tfrecord" COXI_INDEX_END), bytes.data,
                    bytes.len);
    coxi_buffer_fini(&bytes);
}

/* Reads the file cut by this index; returns whether that was an error. */
static bool is_refused(const struct sample *sample, uint64_t *rng)
{
    struct coxi_task task = records_task(sample->path, COX_TFRECORD);
    uint64_t cuts[CUTS];
    struct records whole = {0};
    struct records parts = {0};
    size_t n = records_cuts(rng, sample->bytes, cuts, CUTS);
    records_read(&task, &whole);
    assert_int_equal(RECORDS, whole.n);
    records_read_cut(&task, cuts, n, &parts);
    bool refused = parts.code == COX_EFORMAT;
    if (refused) {
        assert_non_null(strstr(parts.error, sample->path));
        assert_non_null(strstr(parts.error, "the index beside the file"));
    } else {
        records_assert_same(&whole, &parts);
    }
    records_free(&whole);
    records_free(&parts);
    return refused;
}

TEST(true_offsets_cut_a_file_anywhere)
{
    uint64_t rng = 1;
    struct sample sample;
    for (int i = 0; i < ROUNDS / 4; i++) {
        write_sample(&rng, &sample);
        write_index(&sample, &rng, 0);
        assert_false(is_refused(&sample, &rng));
    }
}

TEST(false_offsets_lose_no_record_unnoticed)
{
    uint64_t rng = 2;
    int refused = 0;
    struct sample sample;
    for (int i = 0; i < ROUNDS; i++) {
        write_sample(&rng, &sample);
        write_index(&sample, &rng, 1 + coxi_rand(&rng) % 6);
        refused += is_refused(&sample, &rng);
    }
    assert_in_range(refused, ROUNDS / 10, ROUNDS - ROUNDS / 10);
}

/* Real files, if they are beside the project: ../shared/data and its PROVENANCE.md. */
#include <stdio.h>
#include <unistd.h>

#include "data/sources.h"
#include "tests/data/records.h"
#include "tests/test.h"

struct sums {
    uint64_t n;
    double labels;
    double dense;
    uint64_t keys;
    uint64_t features;
};

static void add(const struct cox_batch *b, struct sums *to)
{
    to->n += b->n;
    to->features += b->begin[b->n];
    for (uint64_t r = 0; r < b->n; r++) {
        to->labels += (double)b->labels[r];
    }
    for (uint64_t i = 0; i < b->n * b->n_dense; i++) {
        to->dense += (double)b->dense[i];
    }
    for (uint64_t i = 0; i < b->begin[b->n]; i++) {
        to->keys += b->keys[i];
    }
}

/* Reads a file in tasks of about 100,000 bytes; skips the test without it. */
static struct sums read_real(const char *name, uint32_t format)
{
    char path[4096] = "";
    struct sums sums = {0};
    struct cox_batch batch = COX_BATCH_INIT;
    struct coxi_source source;
    struct coxi_reader *reader;
    struct coxi_task task = records_task(path, format);
    (void)snprintf(path, sizeof(path), "%s/%s", COXI_TEST_DATA, name);
    if (access(path, R_OK) != 0) {
        skip();
    }
    task.batch_size = 100;
    for (uint64_t begin = 0; begin < (uint64_t)8 << 20; begin = task.end) {
        int r;
        task.begin = begin;
        task.end = begin + 100003;
        assert_code(0, coxi_source_open(path, &source));
        assert_code(0, coxi_reader_open(&task, &source, &reader));
        while ((r = coxi_reader_next(reader, &batch)) == 0) {
            add(&batch, &sums);
        }
        assert_code(COX_EEOF, r);
        coxi_reader_close(reader);
    }
    return sums;
}

TEST(libsvm_files_have_their_rows)
{
    assert_int_equal(32561, read_real("a9a/a9a", COX_LIBSVM).n);
    assert_int_equal(16281, read_real("a9a/a9a.t", COX_LIBSVM).n);
    assert_int_equal(6513, read_real("agaricus/agaricus.txt.train", COX_LIBSVM).n);
    assert_int_equal(1611, read_real("agaricus/agaricus.txt.test", COX_LIBSVM).n);
    struct sums sums = read_real("criteo/train.libsvm", COX_LIBSVM);
    assert_int_equal(10000, sums.n);
    assert_int_equal(390000, sums.features);
    sums = read_real("criteo/valid.libsvm", COX_LIBSVM);
    assert_int_equal(10000, sums.n);
    assert_int_equal(390000, sums.features);
}

/* The sums are those of Python's xxhash and math. */
TEST(criteos_sample_has_its_rows)
{
    struct sums sums = read_real("criteo/sample-1000.tsv", COX_CRITEO);
    assert_int_equal(1000, sums.n);
    assert_true(sums.labels == 21);
    assert_int_equal(26000, sums.features);
    assert_true(sums.keys == 11203560385431873289u);
    assert_true(sums.dense > 24940.745 - 0.01 && sums.dense < 24940.745 + 0.01);
}

/* Whole checkpoints: put together from their shards, and never loaded if damaged. */
#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/row_index.h"
#include "common/error.h"
#include "common/file.h"
#include "common/layout.h"
#include "common/rand.h"
#include "tests/checkpoint/sample.h"
#include "tests/loaded.h"
#include "tests/test.h"

static const struct sample sample = {
    .run = 0xfeed, .number = 3, .n_ps = 3, .n_rows = 40};

static struct coxi_checkpoint *open_sample(const char *path)
{
    struct coxi_checkpoint *checkpoint = NULL;
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint));
    return checkpoint;
}

static const struct coxi_whole *whole(const struct coxi_checkpoint *checkpoint,
                                      const char *variable, const char *part)
{
    const struct coxi_variable *v = coxi_checkpoint_variable(checkpoint, variable);
    assert_non_null(v);
    return coxi_checkpoint_find(checkpoint, v, part);
}

/* ---- whole ones */

TEST(a_dense_variable_is_put_together_from_its_shards)
{
    for (uint32_t n_ps = 1; n_ps <= 4; n_ps++) {
        struct sample s = sample;
        s.n_ps = n_ps;
        s.number = n_ps;
        sample_write(coxi_test_dir(), &s);
        char name[16];
        (void)snprintf(name, sizeof(name), "ckpt-%u", n_ps);
        struct coxi_checkpoint *checkpoint = open_sample(coxi_test_path(name));
        const struct coxi_whole *w = whole(checkpoint, "w", "values");
        assert_string_equal("w", w->name);
        assert_int_equal(2, w->rank);
        assert_int_equal(7, w->shape[0]);
        assert_int_equal(SAMPLE_W * sizeof(float), w->bytes);
        assert_int_equal(n_ps > 1 ? 2 : 1, w->n_pieces);
        uint64_t i = 0;
        for (size_t p = 0; p < w->n_pieces; p++) {
            const struct coxi_st_tensor *t = w->pieces[p].tensor;
            assert_int_equal(i / 2, w->pieces[p].begin);
            const float *numbers = loaded(t);
            for (uint64_t k = 0; k < t->bytes / sizeof(float); k++) {
                assert_true(sample_w(&s, i++) == numbers[k]);
            }
        }
        assert_int_equal(SAMPLE_W, i);
        assert_string_equal("w/adagrad", whole(checkpoint, "w", "adagrad")->name);
        assert_int_equal(w->n_pieces, whole(checkpoint, "w", "step")->shape[0]);
        assert_null(whole(checkpoint, "n", "step"));
        coxi_checkpoint_close(checkpoint);
    }
    coxi_checkpoint_close(NULL);
}

TEST(every_row_of_a_table_is_found_by_its_key)
{
    struct coxi_row_index index;
    sample_write(coxi_test_dir(), &sample);
    struct coxi_checkpoint *checkpoint = open_sample(coxi_test_path("ckpt-3"));
    const struct coxi_variable *t = coxi_checkpoint_variable(checkpoint, "t");
    assert_int_equal(40, whole(checkpoint, "t", "keys")->shape[0]);
    assert_code(0, coxi_row_index_init(&index, checkpoint, t));
    assert_int_equal(40, index.n_rows);
    for (uint64_t row = 0; row < 40; row++) {
        bool found;
        float values[SAMPLE_DIM];
        assert_code(0, coxi_row_index_read(&index, sample_key(row), values, &found));
        assert_true(found);
        for (uint64_t column = 0; column < SAMPLE_DIM; column++) {
            assert_true(sample_value(&sample, row, column) == values[column]);
        }
    }
    bool found = true;
    float values[SAMPLE_DIM];
    assert_code(0, coxi_row_index_read(&index, sample_key(40), values, &found));
    assert_false(found);
    coxi_row_index_fini(&index);
    coxi_checkpoint_close(checkpoint);
}

TEST(a_table_without_rows_is_whole)
{
    struct sample s = sample;
    struct coxi_row_index index;
    s.n_rows = 0;
    sample_write(coxi_test_dir(), &s);
    struct coxi_checkpoint *checkpoint = open_sample(coxi_test_path("ckpt-3"));
    assert_code(0, coxi_row_index_init(&index, checkpoint,
                                       coxi_checkpoint_variable(checkpoint, "t")));
    bool found = true;
    float values[SAMPLE_DIM];
    assert_code(0, coxi_row_index_read(&index, 0, values, &found));
    assert_false(found);
    coxi_row_index_fini(&index);
    coxi_checkpoint_close(checkpoint);
}

TEST(names_are_matched_by_patterns)
{
    assert_true(coxi_name_matches(NULL, "tower/bias"));
    assert_true(coxi_name_matches("tower/*", "tower/bias"));
    assert_true(coxi_name_matches("*", "tower/bias"));
    assert_true(coxi_name_matches("@(w|t)", "t"));
    assert_false(coxi_name_matches("@(w|t)", "tt"));
    assert_false(coxi_name_matches("w", "W"));
}

/* ---- ones that do not fit together, with checksums that are right */

static void assert_refused(const char *path, int code, const char *named)
{
    struct coxi_checkpoint *checkpoint = NULL;
    assert_code(code, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint));
    assert_error_names(named);
    assert_null(checkpoint);
}

TEST(a_shard_of_another_checkpoint_is_refused_whatever_its_checksum)
{
    struct sample s = sample;
    s.as_written = true;
    s.shards_number = 2;
    sample_write(coxi_test_dir(), &s);
    assert_refused(coxi_test_path("ckpt-3"), COX_EFORMAT, "ps-0-of-3.safetensors");
    assert_error_names("its checkpoint is 2, not 3");
}

TEST(a_checkpoint_under_another_number_is_refused)
{
    sample_write(coxi_test_dir(), &sample);
    assert_int_equal(0, rename(coxi_test_path("ckpt-3"), coxi_test_path("ckpt-4")));
    assert_refused(coxi_test_path("ckpt-4"), COX_EFORMAT, "that of ckpt-3");
}

/* A variable of the manifest that no shard holds. */
TEST(a_variable_that_is_not_there_is_named)
{
    struct sample s = sample;
    struct coxi_manifest *manifest = NULL;
    struct coxi_variable *variables[4];
    sample_write(coxi_test_dir(), &s);
    const char *path = coxi_test_path("ckpt-3");
    assert_code(0, coxi_manifest_read(path, &manifest));
    struct coxi_variable more = *manifest->variables[1];
    more.id = 9;
    more.name = "more";
    memcpy(variables, manifest->variables, sizeof(variables));
    struct coxi_manifest with = *manifest;
    variables[3] = &more;
    with.variables = variables;
    assert_code(0, coxi_manifest_write(&with, path));
    assert_refused(path, COX_EFORMAT,
                   "ps-2-of-3.safetensors lacks the values of 'more'");
    variables[3] = manifest->variables[3];
    more.id = 1;
    more.name = "n";
    more.dtype = COX_F64;
    variables[1] = &more;
    assert_code(0, coxi_manifest_write(&with, path));
    assert_refused(path, COX_EFORMAT, "tensor 'n'");
    coxi_manifest_free(manifest);
}

static void count_fault(void *arg, const char *text)
{
    assert_non_null(strstr(text, "ps-"));
    *(int *)arg += 1;
}

TEST(every_damaged_file_is_told)
{
    int n_faults = 0;
    sample_write(coxi_test_dir(), &sample);
    const char *path = coxi_test_path("ckpt-3");
    assert_code(0, coxi_checkpoint_verify(path, count_fault, &n_faults, NULL));
    assert_int_equal(0, n_faults);
    assert_int_equal(0, truncate(coxi_test_path("ckpt-3/ps-0-of-3.safetensors"), 99));
    assert_int_equal(0, unlink(coxi_test_path("ckpt-3/ps-2-of-3.safetensors")));
    assert_code(COX_EFORMAT,
                coxi_checkpoint_verify(path, count_fault, &n_faults, NULL));
    assert_int_equal(2, n_faults);
}

/* ---- random damage */

enum { DAMAGES = 1000, FILES = 4 };

static const char *const files[FILES] = {"manifest.json", "ps-0-of-3.safetensors",
                                         "ps-1-of-3.safetensors",
                                         "ps-2-of-3.safetensors"};

struct shelf {
    char dir[PATH_MAX];
    uint8_t *bytes[FILES]; /* of ckpt-3, undamaged */
    size_t len[FILES];
};

static void file_path(const char *dir, int number, const char *file, char ret[PATH_MAX])
{
    assert_code(0, coxi_path(ret, "%s/ckpt-%d/%s", dir, number, file));
}

/* Checkpoints 2 and 3 of a run, and of another one in a directory of its own. */
static void shelf_init(struct shelf *shelf)
{
    struct sample s = sample;
    (void)snprintf(shelf->dir, sizeof(shelf->dir), "%s", coxi_test_path("run"));
    s.number = 2;
    s.plus = 1;
    sample_write(shelf->dir, &s);
    sample_write(shelf->dir, &sample);
    s = sample;
    s.run = 0xbeef;
    sample_write(coxi_test_path("other"), &s);
    for (int i = 0; i < FILES; i++) {
        char path[PATH_MAX];
        file_path(shelf->dir, 3, files[i], path);
        assert_code(0, coxi_file_read(path, 1 << 20, &shelf->bytes[i], &shelf->len[i]));
    }
}

static void put_from(const char *dir, int number, const char *from, const char *to)
{
    char path[PATH_MAX];
    size_t len = 0;
    file_path(dir, number, from, path);
    char *bytes = coxi_test_read(path, &len);
    coxi_test_write(to, bytes, len);
    free(bytes);
}

/* Damages file `f` in a random way; false: that changed nothing. */
static void damage(const struct shelf *shelf, int f, uint64_t *rng)
{
    char path[PATH_MAX];
    size_t len = shelf->len[f];
    uint8_t *bytes = malloc(len + 8);
    assert_non_null(bytes);
    memcpy(bytes, shelf->bytes[f], len);
    memset(bytes + len, 0, 8);
    file_path(shelf->dir, 3, files[f], path);
    switch (coxi_rand(rng) % 7) {
    case 0:
    case 1:
        bytes[coxi_rand(rng) % len] ^= (uint8_t)(1u << coxi_rand(rng) % 8);
        coxi_test_write(path, bytes, len);
        break;
    case 2:
        coxi_test_write(path, bytes, coxi_rand(rng) % len);
        break;
    case 3:
        coxi_test_write(path, bytes, len + 1 + coxi_rand(rng) % 8);
        break;
    case 4:
        assert_int_equal(0, unlink(path));
        break;
    case 5: /* a file of the checkpoint before */
        put_from(shelf->dir, 2, files[f], path);
        break;
    default: /* a file of another run, or another file of this checkpoint */
        if (coxi_rand(rng) % 2 == 0) {
            put_from(coxi_test_path("other"), 3, files[f], path);
        } else {
            put_from(shelf->dir, 3, files[f == FILES - 1 ? 1 : f + 1], path);
        }
        break;
    }
    free(bytes);
}

TEST(no_damage_is_ever_loaded_and_each_names_a_file)
{
    struct shelf shelf;
    uint64_t rng = 20;
    char path[PATH_MAX];
    char checkpoint_path[PATH_MAX];
    shelf_init(&shelf);
    assert_code(0, coxi_path(checkpoint_path, "%s/ckpt-3", shelf.dir));
    coxi_checkpoint_close(open_sample(checkpoint_path));
    for (int i = 0; i < DAMAGES; i++) {
        int f = (int)(coxi_rand(&rng) % FILES);
        struct coxi_checkpoint *checkpoint = NULL;
        damage(&shelf, f, &rng);
        int r =
            coxi_checkpoint_open(checkpoint_path, COXI_CHECKPOINT_CHECKED, &checkpoint);
        if (r == 0) {
            fail_msg("damage %d of %s was loaded", i, files[f]);
        }
        assert_true(r == COX_ECHECKSUM || r == COX_EFORMAT || r == COX_EIO ||
                    r == COX_ENOENT);
        if (strstr(coxi_error_text(), ".safetensors") == NULL &&
            strstr(coxi_error_text(), "manifest.json") == NULL) {
            fail_msg("damage %d of %s: no file in '%s'", i, files[f],
                     coxi_error_text());
        }
        file_path(shelf.dir, 3, files[f], path);
        coxi_test_write(path, shelf.bytes[f], shelf.len[f]);
    }
    coxi_checkpoint_close(open_sample(checkpoint_path));
    for (int i = 0; i < FILES; i++) {
        free(shelf.bytes[i]);
    }
}

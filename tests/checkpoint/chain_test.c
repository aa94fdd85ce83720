/* Checkpoints that build on each other: a chain is read like one whole checkpoint, or
 * not at all. */
#include "checkpoint/chain.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/overlay.h"
#include "checkpoint/row_index.h"
#include "common/error.h"
#include "tests/checkpoint/sample.h"
#include "tests/loaded.h"
#include "tests/test.h"

enum { N_PS = 2 };

/* Checkpoint 1 has rows 0 to 19; in 2, rows 0 to 4 were dropped and 10 to 29 changed or
 * made; in 3, rows 0 to 11 were dropped and 3 to 5 made (again). */
static char *write_chain(void)
{
    char *dir = coxi_test_path("d");
    struct sample s = {.run = 1, .number = 1, .n_ps = N_PS, .n_rows = 20};
    sample_write(dir, &s);
    s = (struct sample){.run = 1,
                        .number = 2,
                        .n_ps = N_PS,
                        .base = 1,
                        .rows_from = 10,
                        .n_rows = 30,
                        .n_removed = 5,
                        .plus = 100};
    sample_write(dir, &s);
    s = (struct sample){.run = 1,
                        .number = 3,
                        .n_ps = N_PS,
                        .base = 2,
                        .rows_from = 3,
                        .n_rows = 6,
                        .n_removed = 12,
                        .plus = 200};
    sample_write(dir, &s);
    return dir;
}

/* What was added to row `row` up to checkpoint 3; -1: the row does not exist. */
static float plus_of(uint64_t row)
{
    if (row >= 3 && row < 6) {
        return 200;
    }
    return row < 12 || row >= 30 ? -1 : 100;
}

static void assert_rows(const struct coxi_checkpoint *checkpoint)
{
    struct coxi_row_index index;
    const struct coxi_variable *t = coxi_checkpoint_variable(checkpoint, "t");
    uint64_t n = 0;
    assert_code(0, coxi_row_index_init(&index, checkpoint, t));
    for (uint64_t row = 0; row < 40; row++) {
        bool found;
        float values[SAMPLE_DIM];
        const struct sample with = {.plus = plus_of(row)};
        assert_code(0, coxi_row_index_read(&index, sample_key(row), values, &found));
        assert_int_equal(with.plus >= 0, found);
        for (uint64_t c = 0; found && c < SAMPLE_DIM; c++) {
            assert_true(values[c] == sample_value(&with, row, c));
        }
        n += found ? 1 : 0;
    }
    assert_int_equal(n, index.n_rows);
    coxi_row_index_fini(&index);
}

/* Asserts that w is from checkpoint 3, and n and half are from 1. */
static void assert_dense(const struct coxi_checkpoint *checkpoint)
{
    const struct sample with = {.plus = 200};
    const struct coxi_variable *w = coxi_checkpoint_variable(checkpoint, "w");
    const struct coxi_variable *n = coxi_checkpoint_variable(checkpoint, "n");
    const struct coxi_whole *whole = coxi_checkpoint_find(checkpoint, w, "values");
    assert_int_equal(2, whole->n_pieces);
    assert_true(*(const float *)loaded(whole->pieces[0].tensor) == sample_w(&with, 0));
    whole = coxi_checkpoint_find(checkpoint, n, "values");
    assert_true(((const int64_t *)loaded(whole->pieces[0].tensor))[2] == sample_n(2));
}

TEST(chain_is_read_as_if_the_newest_was_whole)
{
    char path[PATH_MAX];
    struct coxi_checkpoint *checkpoint;
    (void)snprintf(path, sizeof(path), "%s/ckpt-3", write_chain());
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint));
    assert_int_equal(2, checkpoint->manifest->base);
    assert_rows(checkpoint);
    assert_dense(checkpoint);
    coxi_checkpoint_close(checkpoint);
}

/* Rows of a table, in the order in which they are visited. */
struct streamed {
    uint8_t *bytes;
    size_t len;
};

static int take_some(void *arg, const void *data, size_t len)
{
    struct streamed *streamed = arg;
    memcpy(streamed->bytes + streamed->len, data, len);
    streamed->len += len;
    return 0;
}

static void assert_streams(const struct coxi_checkpoint *checkpoint,
                           const struct coxi_piece *piece,
                           const struct coxi_st_tensor *expected)
{
    struct streamed streamed = {.bytes = malloc(expected->bytes + 1)};
    assert_int_equal(expected->bytes, piece->tensor->bytes);
    assert_int_equal(expected->shape[0], piece->tensor->shape[0]);
    assert_code(0, coxi_st_stream(checkpoint->shards[piece->ps], piece->tensor,
                                  take_some, &streamed));
    assert_int_equal(expected->bytes, streamed.len);
    assert_memory_equal(loaded(expected), streamed.bytes, streamed.len);
    free(streamed.bytes);
}

TEST(chain_streams_what_it_has_in_memory)
{
    char path[PATH_MAX];
    struct coxi_checkpoint *whole;
    struct coxi_checkpoint *streamed;
    (void)snprintf(path, sizeof(path), "%s/ckpt-3", write_chain());
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &whole));
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_STREAMED, &streamed));
    assert_int_equal(whole->n_wholes, streamed->n_wholes);
    for (size_t i = 0; i < whole->n_wholes; i++) {
        assert_int_equal(whole->wholes[i].n_pieces, streamed->wholes[i].n_pieces);
        for (size_t p = 0; p < whole->wholes[i].n_pieces; p++) {
            assert_streams(streamed, &streamed->wholes[i].pieces[p],
                           whole->wholes[i].pieces[p].tensor);
        }
    }
    coxi_checkpoint_close(whole);
    coxi_checkpoint_close(streamed);
}

TEST(chain_is_listed_without_its_rows_being_put_together)
{
    char path[PATH_MAX];
    struct coxi_checkpoint *checkpoint;
    (void)snprintf(path, sizeof(path), "%s/ckpt-3", write_chain());
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_LISTED, &checkpoint));
    const struct coxi_variable *t = coxi_checkpoint_variable(checkpoint, "t");
    assert_int_equal(3, coxi_checkpoint_find(checkpoint, t, "keys")->shape[0]);
    coxi_checkpoint_close(checkpoint);
}

static void assert_fails(int code, const char *named)
{
    char *path = coxi_test_path("d/ckpt-3");
    struct coxi_checkpoint *checkpoint;
    assert_code(code, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint));
    assert_error_names(named);
}

TEST(chain_with_a_missing_base_is_not_complete)
{
    char *dir = write_chain();
    assert_int_equal(3, coxi_checkpoints_whole(dir, 4));
    assert_int_equal(0, unlink(coxi_test_path("d/ckpt-2/manifest.json")));
    assert_fails(COX_ENOENT, "ckpt-3 builds on ckpt-2");
    assert_int_equal(1, coxi_checkpoints_whole(dir, 4));
}

TEST(chain_is_checked_down_to_the_whole_one)
{
    char *dir = write_chain();
    char *path = coxi_test_path("d/ckpt-1/ps-0-of-2.safetensors");
    size_t len = 0;
    char *bytes = coxi_test_read(path, &len);
    bytes[len - 1] ^= 1;
    coxi_test_write(path, bytes, len);
    free(bytes);
    assert_fails(COX_ECHECKSUM, "ckpt-1/ps-0-of-2.safetensors");
    assert_int_equal(0, coxi_checkpoints_whole(dir, 4));
}

TEST(chain_of_two_runs_is_refused)
{
    char *dir = coxi_test_path("d");
    struct sample s = {.run = 2, .number = 2, .n_ps = N_PS, .n_rows = 3};
    sample_write(dir, &s);
    s.run = 1;
    s.number = 3;
    s.base = 2;
    sample_write(dir, &s);
    assert_fails(COX_EFORMAT, "ckpt-2/manifest.json is of another run");
}

TEST(what_stays_keeps_what_it_builds_on)
{
    char *dir = write_chain();
    const struct coxi_retention one = {.keep = 1};
    struct sample s = {.run = 1, .number = 4, .n_ps = N_PS, .n_rows = 3};
    struct coxi_listed *all = NULL;
    size_t n = 0;
    assert_code(0, coxi_checkpoints_prune(dir, &one, false, NULL, NULL));
    assert_int_equal(3, coxi_checkpoints_whole(dir, 4));
    sample_write(dir, &s);
    assert_code(0, coxi_checkpoints_prune(dir, &one, false, NULL, NULL));
    assert_code(0, coxi_checkpoints_list(dir, &all, &n));
    assert_true(n == 1 && all[0].number == 4);
    free(all);
}

TEST(a_base_stays_behind_one_that_others_wrote)
{
    char *dir = coxi_test_path("d");
    struct sample s = {.run = 1, .n_ps = N_PS, .n_rows = 3};
    /* the bases of checkpoints 1 to 4; prune keeps 3 and 4 */
    const uint64_t bases[] = {0, 0, 2, 1};
    const struct coxi_retention two = {.keep = 2};
    for (s.number = 1; s.number <= 4; s.number++) {
        s.base = bases[s.number - 1];
        sample_write(dir, &s);
    }
    assert_code(0, coxi_checkpoints_prune(dir, &two, false, NULL, NULL));
    assert_int_equal(4, coxi_checkpoints_whole(dir, 5));
    assert_int_equal(3, coxi_checkpoints_whole(dir, 4));
}

TEST(a_known_base_stays_without_a_look_at_manifests)
{
    char *dir = write_chain();
    const struct coxi_known_base known[COXI_KNOWN_BASES] = {
        [2] = {2, 1}, [3] = {3, 2}, [1] = {1 + COXI_KNOWN_BASES, 7}};
    const struct coxi_retention one = {.keep = 1, .known = known};
    assert_int_equal(0, truncate(coxi_test_path("d/ckpt-3/manifest.json"), 10));
    assert_int_equal(0, truncate(coxi_test_path("d/ckpt-2/manifest.json"), 10));
    assert_code(0, coxi_checkpoints_prune(dir, &one, false, NULL, NULL));
    assert_int_equal(1, coxi_checkpoints_whole(dir, 4));
}

TEST(what_is_being_read_keeps_what_it_builds_on)
{
    char *dir = write_chain();
    char *path = coxi_test_path("d/ckpt-3");
    struct coxi_checkpoint *reader;
    const struct coxi_retention one = {.keep = 1};
    struct sample s = {.run = 1, .number = 4, .n_ps = N_PS, .n_rows = 3};
    sample_write(dir, &s);
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &reader));
    assert_code(0, coxi_checkpoints_prune(dir, &one, false, NULL, NULL));
    assert_int_equal(3, coxi_checkpoints_whole(dir, 4));
    coxi_checkpoint_close(reader);
    assert_code(0, coxi_checkpoints_prune(dir, &one, false, NULL, NULL));
    assert_int_equal(0, coxi_checkpoints_whole(dir, 4));
}

/* ---- lists of keys of another type */

/* Writes a file of a chain with one key of a table; `dtype`: of its keys. */
static struct coxi_st_file *open_keys(const char *name, const char *dtype, bool newest)
{
    static const uint64_t zeros[4];
    const struct coxi_st_tensor tensors[] = {
        {.name = "t/keys", .dtype = dtype, .rank = 1, .shape = {1}, .bytes = 8},
        {.name = "t/removed", .dtype = "U64", .rank = 1, .shape = {0}}};
    struct coxi_st_writer *writer;
    struct coxi_st_file *file = NULL;
    uint64_t bytes;
    uint32_t crc32;
    char *path = coxi_test_path(name);
    assert_code(0, coxi_st_create(path, tensors, newest ? 2 : 1, NULL, 0, &writer));
    assert_code(0, coxi_st_write(writer, zeros, 8));
    assert_code(0, coxi_st_finish(writer, &bytes, &crc32));
    assert_code(0, coxi_st_open(path, bytes, &crc32, &file));
    return file;
}

TEST(chain_whose_keys_have_another_type_is_eformat)
{
    static const char *const dtypes[][2] = {{"I64", "U64"}, {"U64", "F64"}};
    for (size_t i = 0; i < 2; i++) {
        struct coxi_st_file *overlay = NULL;
        struct coxi_st_file *files[] = {open_keys("first", dtypes[i][0], false),
                                        open_keys("second", dtypes[i][1], true)};
        assert_code(COX_EFORMAT,
                    coxi_overlay_open(files, 2, COXI_OVERLAY_IN_MEMORY, &overlay));
        assert_error_names("'t'");
        coxi_st_close(files[0]);
        coxi_st_close(files[1]);
        (void)unlink(coxi_test_path("first"));
        (void)unlink(coxi_test_path("second"));
    }
}

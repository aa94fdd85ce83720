/* Directories of checkpoints: listing, completeness, and deletion of old ones. */
#include "checkpoint/checkpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hold.h"
#include "checkpoint/latest.h"
#include "common/error.h"
#include "common/file.h"
#include "tests/checkpoint/sample.h"
#include "tests/test.h"

static void write_some(const char *dir, uint64_t first, uint64_t last)
{
    for (uint64_t n = first; n <= last; n++) {
        sample_write(dir, &(struct sample){.run = 1, .number = n, .n_ps = 2});
    }
}

TEST(checkpoints_are_listed_by_number_and_nothing_else_is)
{
    char *dir = coxi_test_path("d");
    struct coxi_listed *all = NULL;
    size_t n = 0;
    assert_code(COX_ENOENT, coxi_checkpoints_list(dir, &all, &n));
    assert_error_names(dir);
    write_some(dir, 9, 11);
    static const char *const others[] = {"ckpt-12.tmp",
                                         "ckpt-",
                                         "ckpt-x",
                                         "ckpt-3x",
                                         "xckpt-3",
                                         "ckpt-0",
                                         "ckpt-99999999999999999999"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        char path[PATH_MAX];
        assert_code(0, coxi_path(path, "%s/%s", dir, others[i]));
        assert_int_equal(0, mkdir(path, 0700));
    }
    sample_assert_there(dir, "9 10 11 12.tmp");
    coxi_checkpoints_remove_unfinished(dir, NULL);
    sample_assert_there(dir, "9 10 11");
}

TEST(the_newest_older_one_that_is_whole_is_offered)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 4);
    assert_int_equal(3, coxi_checkpoints_whole(dir, 4));
    assert_int_equal(0, truncate(coxi_test_path("d/ckpt-3/manifest.json"), 10));
    assert_int_equal(0, unlink(coxi_test_path("d/ckpt-2/ps-1-of-2.safetensors")));
    (void)coxi_error(COX_EIO, "something");
    assert_int_equal(1, coxi_checkpoints_whole(dir, 4));
    assert_code(COX_EIO, coxi_checkpoints_offer(COX_EIO, 1));
    assert_string_equal("something; ckpt-1 is complete", coxi_error_text());
    assert_int_equal(0, coxi_checkpoints_whole(dir, 1));
}

/* ---- retention */

struct fates {
    char text[256];
    size_t used;
};

static void note(void *arg, uint64_t number, enum coxi_fate fate)
{
    static const char letters[] = "nebrfd";
    struct fates *fates = arg;
    fates->used +=
        (size_t)snprintf(fates->text + fates->used, sizeof(fates->text) - fates->used,
                         "%" PRIu64 "%c ", number, letters[fate]);
}

static void assert_fates(const char *expected, const char *dir, uint64_t keep,
                         uint64_t every, bool dry_run)
{
    struct fates fates = {0};
    const struct coxi_retention retention = {.keep = keep, .keep_every = every};
    assert_code(0, coxi_checkpoints_prune(dir, &retention, dry_run, note, &fates));
    assert_string_equal(expected, fates.text);
}

TEST(the_newest_and_every_nth_are_kept)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 10);
    assert_fates("10n 9n 8n 7n 6n 5n 4n 3n 2n 1n ", dir, 0, 0, false);
    assert_fates("10n 9n 8e 7d 6d 5d 4e 3d 2d 1d ", dir, 2, 4, true);
    sample_assert_there(dir, "1 2 3 4 5 6 7 8 9 10");
    assert_fates("10n 9n 8e 7d 6d 5d 4e 3d 2d 1d ", dir, 2, 4, false);
    sample_assert_there(dir, "4 8 9 10");
    assert_fates("10n 9d 8d 4d ", dir, 1, 0, false);
    sample_assert_there(dir, "10");
}

TEST(what_latest_names_and_what_is_newer_stays)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 4);
    assert_code(0, coxi_latest_write(dir, 2));
    assert_fates("4n 3n 2n 1d ", dir, 1, 0, false);
    sample_assert_there(dir, "2 3 4");
    assert_int_equal(0, unlink(coxi_test_path("d/LATEST")));
    const struct coxi_retention one = {.keep = 1};
    assert_code(COX_ENOENT, coxi_checkpoints_prune(dir, &one, false, NULL, NULL));
    sample_assert_there(dir, "2 3 4");
}

TEST(one_that_is_being_read_is_not_deleted)
{
    struct coxi_checkpoint *reader[2];
    char *dir = coxi_test_path("d");
    const char *path = coxi_test_path("d/ckpt-1");
    write_some(dir, 1, 3);
    assert_false(coxi_hold_is_taken(path));
    for (int i = 0; i < 2; i++) {
        assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_LISTED, &reader[i]));
    }
    assert_true(coxi_hold_is_taken(path));
    assert_fates("3n 2d 1r ", dir, 1, 0, true);
    assert_fates("3n 2d 1r ", dir, 1, 0, false);
    coxi_checkpoint_close(reader[0]);
    assert_fates("3n 1r ", dir, 1, 0, false);
    coxi_checkpoint_close(reader[1]);
    assert_false(coxi_hold_is_taken(path));
    assert_fates("3n 1d ", dir, 1, 0, false);
    sample_assert_there(dir, "3");
}

TEST(a_checkpoint_without_a_manifest_can_be_deleted)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 2);
    assert_int_equal(0, unlink(coxi_test_path("d/ckpt-1/manifest.json")));
    assert_fates("2n 1d ", dir, 1, 0, false);
    sample_assert_there(dir, "2");
}

TEST(one_that_cannot_be_deleted_is_told_and_the_others_are_deleted)
{
    struct fates fates = {0};
    const struct coxi_retention one = {.keep = 1};
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 4);
    /* A directory has the temporary name that ckpt-2 gets when it is deleted. */
    assert_int_equal(0, mkdir(coxi_test_path("d/ckpt-2.tmp"), 0700));
    coxi_test_write(coxi_test_path("d/ckpt-2.tmp/x"), "x", 1);
    assert_code(COX_EIO, coxi_checkpoints_prune(dir, &one, false, note, &fates));
    assert_error_names("ckpt-2");
    assert_string_equal("4n 3d 2f 1d ", fates.text);
    sample_assert_there(dir, "2 2.tmp 4");
}

/* The memory of the commands that read a whole checkpoint. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "tests/checkpoint/sample.h"
#include "tests/loaded.h"
#include "tests/program.h"
#include "tests/test.h"

enum {
    ROWS = 1 << 20,
    NEWER = 13 << 18,      /* enough that the second shard's keys take two passes */
    BOUND_KIB = 112 << 10, /* the shards have 142 MB */
};

/* Writes a checkpoint of ROWS rows, and one that builds on it: it removes a quarter of
 * them, changes the second half, and adds others. A child process does so, because a
 * program's peak memory is at least that of the process that starts it. */
static void write_chain(const char *dir)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct sample sample = {.run = 1, .number = 1, .n_ps = 1, .n_rows = ROWS};
        sample_write(dir, &sample);
        sample.number = 2;
        sample.base = 1;
        sample.rows_from = ROWS / 2;
        sample.n_rows = ROWS / 2 + NEWER;
        sample.n_removed = ROWS / 4;
        sample.plus = 100;
        sample_write(dir, &sample);
        _exit(0);
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(0, status);
}

static void assert_little(const char *const *argv)
{
    struct program program;
    assert_int_equal(0, program_run(&program, argv));
    if (program.peak_kib > BOUND_KIB) {
        fail_msg("%s took %ld KiB", argv[2], program.peak_kib);
    }
}

/* Asserts that OUT has every existing row once, with its values. */
static void assert_exported(const char *out)
{
    struct coxi_st_file *file;
    struct stat st;
    const struct sample first = {.plus = 0};
    const struct sample second = {.plus = 100};
    assert_int_equal(0, stat(out, &st));
    assert_code(0, coxi_st_open(out, (uint64_t)st.st_size, NULL, &file));
    const struct coxi_st_tensor *keys = coxi_st_find(file, "t/keys");
    const uint64_t *numbers = loaded(keys);
    const float *values = loaded(coxi_st_find(file, "t/values"));
    assert_int_equal(NEWER + ROWS / 4, keys->shape[0]);
    for (uint64_t i = 0; i < keys->shape[0]; i++) {
        bool newer = i < NEWER;
        uint64_t row = newer ? ROWS / 2 + i : ROWS / 4 + i - NEWER;
        if (numbers[i] != sample_key(row) ||
            values[i * SAMPLE_DIM] != sample_value(newer ? &second : &first, row, 0)) {
            fail_msg("row %llu is wrong", (unsigned long long)i);
        }
    }
    coxi_st_close(file);
}

TEST(commands_stream_a_chain)
{
    needs_true_memory();
    char *dir = coxi_test_path("d");
    char *out = coxi_test_path("out.safetensors");
    char *npz = coxi_test_path("out.npz");
    write_chain(dir);
    assert_little((const char *[]){"coxswain", "checkpoint", "verify", dir, NULL});
    assert_little((const char *[]){"coxswain", "checkpoint", "show", dir, NULL});
    assert_little((const char *[]){"coxswain", "checkpoint", "export",
                                   "--format=safetensors", dir, out, NULL});
    assert_little((const char *[]){"coxswain", "checkpoint", "export", dir, npz, NULL});
    assert_exported(out);
}

/* A file that is far too large to be read: how many bytes of it are. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coxswain/dataset.h"
#include "data/cut.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum {
    TASK_BYTES = 256 << 10,
    LINE = 1024,
    LINES = 4 * TASK_BYTES / LINE,
    FIND_MOST = 256 << 10, /* bytes read to find the files */
    TASK_MOST = 4 << 20,   /* ... and for a task, with what is read ahead */
};

/* Bytes that this process has read, in all threads. */
static uint64_t bytes_read(void)
{
    char line[128] = "";
    FILE *file = fopen("/proc/self/io", "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_int_equal(0, fclose(file));
    assert_int_equal(0, strncmp(line, "rchar: ", 7));
    return strtoull(line + 7, NULL, 10);
}

/* A file of 100 GiB: LINES lines, and holes behind them. */
static const char *make_huge(void)
{
    const char *path = coxi_test_path("huge");
    char *text = malloc((size_t)LINES * LINE + 1);
    assert_non_null(text);
    for (size_t i = 0; i < LINES; i++) {
        (void)snprintf(text + i * LINE, LINE + 1, "%-*s\n", LINE - 1, "1 7:1");
    }
    coxi_test_write(path, text, (size_t)LINES * LINE);
    free(text);
    assert_int_equal(truncate(path, (off_t)100 << 30), 0);
    return path;
}

TEST(a_huge_file_is_found_and_its_first_task_read_without_the_rest)
{
    const char *path = make_huge();
    const struct coxi_cut cut = {.task_bytes = TASK_BYTES, .splits = true};
    struct coxi_files files;
    struct records records = {0};
    uint64_t start = bytes_read();
    assert_code(0, coxi_files_find(&path, 1, &cut, &files));
    uint64_t found = bytes_read();
    assert_true(found - start <= FIND_MOST);
    struct coxi_task task = records_task(path, COX_LIBSVM);
    const struct coxi_cut_task first = coxi_files_task(&files, 0);
    task.begin = first.begin;
    task.end = first.end;
    records_read(&task, &records);
    assert_int_equal(COX_EEOF, records.code);
    assert_int_equal(TASK_BYTES / LINE, records.n);
    assert_true(bytes_read() - found <= TASK_MOST);
    records_free(&records);
    coxi_files_fini(&files);
}

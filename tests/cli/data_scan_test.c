/* Files that change while a command reads them. */
#include "cli/data_scan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

enum { LINES = 400000, LINE = 8 }; /* more than is read at once */

/* Opens a text, and reads its first line. Returns its path. */
static const char *begin(struct coxi_data_scan *scan)
{
    const struct coxi_data_input input = {0};
    char *path = coxi_test_path("a.txt");
    char *text = malloc((size_t)LINES * LINE);
    assert_non_null(text);
    for (size_t i = 0; i < LINES; i++) {
        memcpy(text + i * LINE, "two one\n", LINE);
    }
    coxi_test_write(path, text, (size_t)LINES * LINE);
    free(text);
    assert_code(0, coxi_data_scan_open(path, &input, COXI_DATA_RAW, scan));
    assert_code(0, coxi_data_scan_next(scan, 1));
    return path;
}

/* Reads the rest, which must end with `code`; returns the number of all records. */
static uint64_t read_rest(struct coxi_data_scan *scan, int code)
{
    uint64_t records = 1;
    int r;
    while ((r = coxi_data_scan_next(scan, 1024)) == 0) {
        records += scan->rows.n;
    }
    assert_int_equal(code, r);
    return records;
}

TEST(a_file_that_stays_as_it_is_ends)
{
    struct coxi_data_scan scan;
    (void)begin(&scan);
    assert_int_equal(LINES, read_rest(&scan, COX_EEOF));
    coxi_data_scan_close(&scan);
}

TEST(a_file_that_is_cut_off_while_it_is_read_is_a_conflict)
{
    struct coxi_data_scan scan;
    const char *path = begin(&scan);
    assert_int_equal(0, truncate(path, (off_t)(LINES - 7) * LINE));
    (void)read_rest(&scan, COX_ECONFLICT);
    assert_error_names(path);
    assert_error_names("changed while it was read");
    coxi_data_scan_close(&scan);
}

TEST(a_file_that_grows_while_it_is_read_is_a_conflict)
{
    struct coxi_data_scan scan;
    const char *path = begin(&scan);
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    assert_true(fputs("half a li", file) >= 0);
    assert_int_equal(0, fclose(file));
    (void)read_rest(&scan, COX_ECONFLICT);
    coxi_data_scan_close(&scan);
}

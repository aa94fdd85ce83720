/* Files that change while a command reads them. */
#include "cli/data_scan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

enum { LINES = 400000, LINE = 8 }; /* more than is read at once */

/* Opens a text, and reads its first line. */
static void begin(struct coxi_data_scan *scan, const char **ret_path)
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
    *ret_path = path;
}

/* Reads the rest; returns how it ends. */
static int read_rest(struct coxi_data_scan *scan, uint64_t *ret_records)
{
    int r = 0;
    *ret_records = 1;
    while (r == 0 && (r = coxi_data_scan_next(scan, 1024)) == 0) {
        *ret_records += scan->rows.n;
    }
    return r;
}

TEST(a_file_that_stays_as_it_is_ends)
{
    struct coxi_data_scan scan;
    const char *path;
    uint64_t records;
    begin(&scan, &path);
    assert_int_equal(COX_EEOF, read_rest(&scan, &records));
    assert_int_equal(LINES, records);
    coxi_data_scan_close(&scan);
}

TEST(a_file_that_is_cut_off_while_it_is_read_is_a_conflict)
{
    struct coxi_data_scan scan;
    const char *path;
    uint64_t records;
    begin(&scan, &path);
    assert_int_equal(0, truncate(path, (off_t)(LINES - 7) * LINE));
    assert_int_equal(COX_ECONFLICT, read_rest(&scan, &records));
    assert_error_names(path);
    assert_error_names("changed while it was read");
    coxi_data_scan_close(&scan);
}

TEST(a_file_that_grows_while_it_is_read_is_a_conflict)
{
    struct coxi_data_scan scan;
    const char *path;
    uint64_t records;
    begin(&scan, &path);
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    assert_true(fputs("half a li", file) >= 0);
    assert_int_equal(0, fclose(file));
    assert_int_equal(COX_ECONFLICT, read_rest(&scan, &records));
    coxi_data_scan_close(&scan);
}

/* Sources: files, and whether they are still the same. */
#include "data/sources.h"

#include <sys/stat.h>

#include "coxswain/types.h"
#include "tests/test.h"

static struct coxi_source open_text(const char *path, const char *text)
{
    struct coxi_source source;
    coxi_test_write(path, text, strlen(text));
    assert_code(0, coxi_source_open(path, &source));
    return source;
}

TEST(a_source_reads_pieces_of_its_file)
{
    char to[16] = "";
    size_t len = 77;
    struct coxi_source source = open_text(coxi_test_path("file"), "abcdef");
    assert_code(0, coxi_source_read(&source, 2, to, 3, &len));
    assert_int_equal(3, len);
    assert_memory_equal("cde", to, 3);
    assert_code(0, coxi_source_read(&source, 4, to, sizeof(to), &len));
    assert_int_equal(2, len);
    assert_code(0, coxi_source_read(&source, UINT64_MAX - 3, to, sizeof(to), &len));
    assert_int_equal(0, len);
    coxi_source_close(&source);
}

TEST(a_file_that_changed_is_a_conflict)
{
    char *path = coxi_test_path("file");
    struct coxi_source source = open_text(path, "abcdef");
    struct coxi_file_mark mark;
    assert_code(0, coxi_source_mark(&source, &mark));
    assert_int_equal(6, mark.bytes);
    assert_code(0, coxi_source_check(&source, &mark));
    struct coxi_file_mark other = mark;
    other.bytes++;
    assert_code(COX_ECONFLICT, coxi_source_check(&source, &other));
    assert_error_names(path);
    assert_error_names("it has 6 bytes, and had 7");
    other = mark;
    other.changed_ns -= 1000;
    assert_code(COX_ECONFLICT, coxi_source_check(&source, &other));
    assert_error_names("was written to");
    other = mark;
    other.head_crc++;
    assert_code(COX_ECONFLICT, coxi_source_check(&source, &other));
    assert_error_names("first bytes differ");
    other.changed_ns = 0; /* a kind of source that does not know it */
    other.head_crc = mark.head_crc;
    assert_code(0, coxi_source_check(&source, &other));
    coxi_source_close(&source);
}

TEST(what_is_no_file_is_an_error)
{
    struct coxi_source source;
    assert_code(COX_ENOENT, coxi_source_open(coxi_test_path("none"), &source));
    assert_error_names("none");
    assert_code(COX_EIO, coxi_source_open(coxi_test_dir(), &source));
    assert_error_names("not a file");
    assert_int_equal(0, mkfifo(coxi_test_path("fifo"), 0600));
    assert_code(COX_EIO, coxi_source_open(coxi_test_path("fifo"), &source));
    assert_code(COX_EINVAL, coxi_source_open("gopher://host/file", &source));
    assert_error_names("gopher");
}

/* LATEST: the file that names the newest checkpoint of a directory. */
#include "checkpoint/latest.h"

#include <string.h>

#include "coxswain/types.h"
#include "tests/test.h"

TEST(latest_is_read_back)
{
    static const uint64_t numbers[] = {1, 42, UINT64_MAX - 1};
    for (size_t i = 0; i < 3; i++) {
        uint64_t number = 0;
        assert_code(0, coxi_latest_write(coxi_test_dir(), numbers[i]));
        assert_code(0, coxi_latest_read(coxi_test_dir(), &number));
        assert_int_equal(numbers[i], number);
    }
    char *text = coxi_test_read(coxi_test_path("LATEST"), NULL);
    assert_string_equal("ckpt-18446744073709551614\n", text);
    free(text);
}

TEST(a_missing_latest_is_enoent)
{
    uint64_t number = 77;
    assert_code(COX_ENOENT, coxi_latest_read(coxi_test_dir(), &number));
    assert_error_names("LATEST");
    assert_int_equal(77, number);
}

TEST(a_latest_that_names_no_checkpoint_is_eformat)
{
    static const char *const bad[] = {
        "",
        "\n",
        "ckpt-",
        "ckpt-\n",
        "ckpt-0\n",
        "ckpt-5",
        "ckpt-5\n\n",
        "ckpt-5 \n",
        "ckpt-5x\n",
        "CKPT-5\n",
        " ckpt-5\n",
        "../ckpt-5\n",
        "ckpt-5.tmp\n",
        "ckpt- 5\n",
        "ckpt-+5\n",
        "ckpt--5\n",
        "ckpt-0x5\n",
        "ckpt-99999999999999999999999\n",
        "ckpt-5 ................................................................\n",
    };
    uint64_t number = 77;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char *path = coxi_test_path("LATEST");
        coxi_test_write(path, bad[i], strlen(bad[i]));
        int r = coxi_latest_read(coxi_test_dir(), &number);
        if (r != COX_EFORMAT) {
            fail_msg("'%s': %d, not COX_EFORMAT", bad[i], r);
        }
        assert_error_names(path);
    }
    assert_int_equal(77, number);
}

TEST(a_latest_that_cannot_be_written_is_eio)
{
    char *file = coxi_test_path("file");
    coxi_test_write(file, "", 0);
    assert_code(COX_EIO, coxi_latest_write(file, 1));
    assert_error_names(file);
}

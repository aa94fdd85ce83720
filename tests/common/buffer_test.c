#include "common/buffer.h"

#include <string.h>

#include "common/error.h"
#include "common/rand.h"
#include "tests/test.h"

TEST(a_zeroed_buffer_is_empty_and_fini_makes_it_so_again)
{
    struct coxi_buffer buffer = {0};
    coxi_buffer_fini(&buffer);
    assert_code(0, coxi_buffer_append(&buffer, "abc", 3));
    coxi_buffer_fini(&buffer);
    assert_null(buffer.data);
    assert_int_equal(0, buffer.len);
    assert_int_equal(0, buffer.capacity);
}

TEST(append_pads_with_zeros_to_a_multiple_of_8)
{
    struct coxi_buffer buffer = {0};
    assert_code(0, coxi_buffer_append(&buffer, "abc", 3));
    assert_int_equal(8, buffer.len);
    assert_memory_equal("abc\0\0\0\0\0", buffer.data, 8);
    assert_code(0, coxi_buffer_append(&buffer, "01234567", 8));
    assert_int_equal(16, buffer.len);
    assert_code(0, coxi_buffer_append(&buffer, NULL, 0));
    assert_int_equal(16, buffer.len);
    coxi_buffer_fini(&buffer);
}

TEST(append_raw_does_not_pad)
{
    struct coxi_buffer buffer = {0};
    assert_code(0, coxi_buffer_append_raw(&buffer, "abc", 3));
    assert_code(0, coxi_buffer_append_raw(&buffer, "de", 2));
    assert_int_equal(5, buffer.len);
    assert_memory_equal("abcde", buffer.data, 5);
    /* The padding counts from the buffer's start, not from what is appended. */
    assert_code(0, coxi_buffer_append(&buffer, "f", 1));
    assert_int_equal(8, buffer.len);
    assert_memory_equal("abcdef\0\0", buffer.data, 8);
    coxi_buffer_fini(&buffer);
}

TEST(no_bytes_are_appended_as_zeros)
{
    static const uint8_t zeros[300];
    struct coxi_buffer buffer = {0};
    assert_code(0, coxi_buffer_reserve(&buffer, 400));
    memset(buffer.data, 0xff, buffer.capacity);
    assert_code(0, coxi_buffer_append_raw(&buffer, NULL, 300));
    assert_int_equal(300, buffer.len);
    assert_memory_equal(zeros, buffer.data, 300);
    coxi_buffer_fini(&buffer);
}

TEST(what_is_in_it_stays_and_stays_aligned_while_it_grows)
{
    struct coxi_buffer buffer = {0};
    uint64_t rng = 1;
    for (int i = 0; i < 2000; i++) {
        uint64_t n = coxi_rand(&rng);
        assert_code(0, coxi_buffer_append_raw(&buffer, &n, 1 + n % sizeof(n)));
        assert_int_equal(0, (uintptr_t)buffer.data % 64);
        assert_true(buffer.len <= buffer.capacity);
    }
    const uint8_t *at = buffer.data;
    rng = 1;
    for (int i = 0; i < 2000; i++) {
        uint64_t n = coxi_rand(&rng);
        assert_memory_equal(&n, at, 1 + n % sizeof(n));
        at += 1 + n % sizeof(n);
    }
    assert_ptr_equal(buffer.data + buffer.len, at);
    coxi_buffer_fini(&buffer);
}

TEST(reserved_room_is_used_without_moving)
{
    struct coxi_buffer buffer = {0};
    assert_code(0, coxi_buffer_reserve(&buffer, 100000));
    assert_int_equal(0, buffer.len);
    const uint8_t *data = buffer.data;
    assert_code(0, coxi_buffer_append(&buffer, NULL, 100000));
    assert_ptr_equal(data, buffer.data);
    coxi_buffer_fini(&buffer);
}

TEST(printf_appends_text_without_its_nul)
{
    struct coxi_buffer buffer = {0};
    assert_code(0, coxi_buffer_printf(&buffer, "%s=%d", "n", 7));
    assert_code(0, coxi_buffer_printf(&buffer, ";%*d", 300, 8));
    assert_int_equal(3 + 1 + 300, buffer.len);
    assert_memory_equal("n=7; ", buffer.data, 5);
    assert_int_equal('8', buffer.data[buffer.len - 1]);
    coxi_buffer_fini(&buffer);
}

/* Around what a buffer has room for, with and without the NUL. */
TEST(printf_of_any_length_is_whole)
{
    for (int len = 0; len < 200; len++) {
        struct coxi_buffer buffer = {0};
        assert_code(0, coxi_buffer_append_raw(&buffer, "<", 1));
        assert_code(0, coxi_buffer_printf(&buffer, "%0*d", len, 0));
        assert_code(0, coxi_buffer_printf(&buffer, ">"));
        assert_int_equal(1 + (len > 0 ? len : 1) + 1, buffer.len);
        assert_int_equal('0', buffer.data[buffer.len - 2]);
        assert_int_equal('>', buffer.data[buffer.len - 1]);
        coxi_buffer_fini(&buffer);
    }
}

TEST(aligned_memory_of_a_size_that_would_wrap_is_none)
{
    for (size_t less = 0; less < 63; less++) {
        assert_null(coxi_aligned_new(SIZE_MAX - less));
    }
    void *some = coxi_aligned_new(1);
    assert_non_null(some);
    assert_int_equal(0, (uintptr_t)some % 64);
    free(some);
}

TEST(a_length_that_no_memory_has_is_enomem_and_changes_nothing)
{
    struct coxi_buffer buffer = {0};
    for (int round = 0; round < 2; round++) {
        struct coxi_buffer before = buffer;
        assert_code(COX_ENOMEM, coxi_buffer_reserve(&buffer, SIZE_MAX));
        assert_code(COX_ENOMEM, coxi_buffer_reserve(&buffer, SIZE_MAX / 2));
        assert_code(COX_ENOMEM, coxi_buffer_append_raw(&buffer, NULL, SIZE_MAX));
        for (size_t less = 0; less < 20; less++) {
            assert_code(COX_ENOMEM, coxi_buffer_append(&buffer, NULL, SIZE_MAX - less));
        }
        assert_memory_equal(&before, &buffer, sizeof(buffer));
        assert_code(0, coxi_buffer_append_raw(&buffer, "abc", 3));
    }
    assert_memory_equal("abcabc", buffer.data, 6);
    coxi_buffer_fini(&buffer);
}

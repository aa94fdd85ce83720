/* Key files, and what is derived from them. */
#include "net/key.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

static struct coxi_key key_from(const char *path)
{
    struct coxi_key key;
    assert_code(0, coxi_key_read(path, &key));
    return key;
}

/* RFC 5869, A.1 and A.3. */
TEST(hkdf_is_that_of_the_rfc)
{
    static const uint8_t secret[22] = {11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11,
                                       11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11};
    static const uint8_t salt[13] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const char info[] = "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9";
    static const uint8_t with_salt[] = {0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a,
                                        0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36, 0x2f, 0x2a};
    static const uint8_t without[] = {0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f,
                                      0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c, 0x5a, 0x31};
    uint8_t out[42];
    assert_true(coxi_hkdf(secret, sizeof(secret), salt, sizeof(salt), info, out, 42));
    assert_memory_equal(with_salt, out, sizeof(with_salt));
    assert_true(coxi_hkdf(secret, sizeof(secret), NULL, 0, "", out, 42));
    assert_memory_equal(without, out, sizeof(without));
}

TEST(a_new_key_is_private_and_differs_from_others)
{
    const char *first = coxi_test_path("first");
    const char *second = coxi_test_path("second");
    struct stat is;
    (void)umask(0);
    assert_code(0, coxi_key_new(first));
    assert_code(0, coxi_key_new(second));
    assert_int_equal(0, stat(first, &is));
    assert_int_equal(0600, is.st_mode & 07777);
    assert_int_equal(COXI_KEY_BYTES, is.st_size);
    struct coxi_key a = key_from(first);
    struct coxi_key b = key_from(second);
    assert_int_equal(COXI_KEY_RUN, a.kind);
    assert_memory_not_equal(a.secret, b.secret, COXI_KEY_BYTES);
}

TEST(a_key_is_never_overwritten)
{
    const char *path = coxi_test_path("key");
    const char *link = coxi_test_path("link");
    assert_code(0, coxi_key_new(path));
    struct coxi_key before = key_from(path);
    assert_code(COX_EEXIST, coxi_key_new(path));
    assert_error_names(path);
    assert_int_equal(0, symlink(coxi_test_path("elsewhere"), link));
    assert_code(COX_EEXIST, coxi_key_new(link));
    assert_int_equal(-1, access(coxi_test_path("elsewhere"), F_OK));
    struct coxi_key after = key_from(path);
    assert_memory_equal(before.secret, after.secret, COXI_KEY_BYTES);
}

TEST(a_key_that_others_may_read_is_refused)
{
    static const mode_t modes[] = {0640, 0620, 0604, 0602, 0601, 0610};
    const char *path = coxi_test_path("key");
    struct coxi_key key;
    assert_code(0, coxi_key_new(path));
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        assert_int_equal(0, chmod(path, modes[i]));
        assert_code(COX_EINVAL, coxi_key_read(path, &key));
        assert_error_names("chmod 600");
        assert_error_names(path);
    }
    assert_int_equal(0, chmod(path, 0400));
    assert_code(0, coxi_key_read(path, &key));
}

TEST(what_is_no_key_is_refused)
{
    const char *path = coxi_test_path("key");
    uint8_t bytes[100] = {1};
    struct coxi_key key;
    assert_code(COX_EIO, coxi_key_read(path, &key));
    assert_error_names(path);
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        coxi_test_write(path, bytes, len);
        assert_int_equal(0, chmod(path, 0600));
        assert_code(len == COXI_KEY_BYTES ? 0 : COX_EFORMAT, coxi_key_read(path, &key));
    }
    assert_code(COX_EINVAL, coxi_key_read(coxi_test_dir(), &key));
    assert_error_names("no regular file");
}

TEST(a_fifo_instead_of_a_key_does_not_hold_us)
{
    const char *path = coxi_test_path("fifo");
    struct coxi_key key;
    assert_int_equal(0, mkfifo(path, 0600));
    assert_code(COX_EINVAL, coxi_key_read(path, &key));
}

TEST(a_reader_has_the_key_of_readers_only)
{
    const char *path = coxi_test_path("key");
    const char *reader_path = coxi_test_path("reader");
    uint8_t of_run[COXI_KEY_BYTES];
    uint8_t of_reader[COXI_KEY_BYTES];
    assert_code(0, coxi_key_new(path));
    struct coxi_key key = key_from(path);
    assert_code(0, coxi_key_new_reader(reader_path, &key));
    struct coxi_key reader = key_from(reader_path);
    assert_int_equal(COXI_KEY_READER, reader.kind);
    assert_true(coxi_key_of_role(&key, COXI_ROLE_TOOL, of_run));
    assert_true(coxi_key_of_role(&reader, COXI_ROLE_TOOL, of_reader));
    assert_memory_equal(of_run, of_reader, COXI_KEY_BYTES);
    assert_false(coxi_key_of_role(&reader, COXI_ROLE_CLIENT, of_reader));
    assert_false(coxi_key_of_role(&reader, COXI_ROLE_WORKER, of_reader));
    assert_false(coxi_key_of_role(&reader, COXI_ROLE_PS, of_reader));
    assert_code(COX_EINVAL, coxi_key_new_reader(coxi_test_path("another"), &reader));
}

TEST(each_role_has_a_key_of_its_own)
{
    enum { N = COXI_ROLE_TOOL };
    struct coxi_key key = {.kind = COXI_KEY_RUN, .secret = {7}};
    const struct coxi_key none = {.kind = COXI_KEY_NONE, .secret = {7}};
    uint8_t keys[N][COXI_KEY_BYTES];
    for (int i = 0; i < N; i++) {
        assert_true(coxi_key_of_role(&key, (enum coxi_role)(i + 1), keys[i]));
        for (int k = 0; k < i; k++) {
            assert_memory_not_equal(keys[k], keys[i], COXI_KEY_BYTES);
        }
        assert_false(coxi_key_of_role(&none, (enum coxi_role)(i + 1), keys[i]));
    }
    assert_false(coxi_key_of_role(&key, (enum coxi_role)0, keys[0]));
    assert_false(coxi_key_of_role(&key, (enum coxi_role)(N + 1), keys[0]));
}

TEST(an_error_says_where_the_key_file_was_named)
{
    struct coxi_key key;
    struct coxi_key run;
    const char *path = coxi_test_path("run.key");
    const char *readers = coxi_test_path("reader.key");
    assert_code(0, coxi_key_new(path));
    assert_code(0, coxi_key_read(path, &run));
    assert_code(0, coxi_key_new_reader(readers, &run));
    assert_int_equal(0, chmod(path, 0644));
    assert_int_equal(0, setenv("COX_KEY_FILE", path, 1));
    assert_code(COX_EINVAL, coxi_key_open(path, "--key-file", &key));
    assert_error_names("--key-file: others");
    assert_code(COX_EINVAL, coxi_key_open(NULL, "--key-file", &key));
    assert_error_names("COX_KEY_FILE: others");
    assert_int_equal(0, setenv("COX_KEY_FILE", readers, 1));
    assert_code(COX_EINVAL, coxi_key_open_member(NULL, "--key-file", &key));
    assert_error_names("COX_KEY_FILE: ");
    assert_error_names("key of readers");
}

TEST(a_seal_is_full_unless_it_is_said_to_be_off)
{
    struct coxi_key key;
    const char *path = coxi_test_path("run.key");
    assert_code(0, coxi_key_new(path));
    assert_code(0, coxi_key_read(path, &key));
    assert_int_equal(COXI_SEAL_FULL, key.seal);
    assert_int_equal(0, unsetenv("COX_SEAL"));
    assert_code(0, coxi_key_set_seal(&key, NULL, "--seal"));
    assert_int_equal(COXI_SEAL_FULL, key.seal);
    assert_code(0, coxi_key_set_seal(&key, "off", "--seal"));
    assert_int_equal(COXI_SEAL_MAC, key.seal);
    assert_int_equal(0, setenv("COX_SEAL", "off", 1));
    assert_code(0, coxi_key_set_seal(&key, "on", "--seal"));
    assert_int_equal(COXI_SEAL_FULL, key.seal);
    assert_code(0, coxi_key_set_seal(&key, NULL, "--seal"));
    assert_int_equal(COXI_SEAL_MAC, key.seal);
    assert_code(COX_EINVAL, coxi_key_set_seal(&key, "none", "--seal"));
    assert_error_names("--seal is 'none'");
    assert_int_equal(0, setenv("COX_SEAL", "no", 1));
    assert_code(COX_EINVAL, coxi_key_set_seal(&key, NULL, "--seal"));
    assert_error_names("COX_SEAL is 'no'");
}

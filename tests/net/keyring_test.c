/* A directory with the keys of several runs. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "net/keyring.h"
#include "tests/test.h"

static const char *directory(void)
{
    const char *path = coxi_test_path("keys");
    assert_int_equal(0, mkdir(path, 0700));
    return path;
}

static void make_key(const char *in, const char *file, struct coxi_key *ret)
{
    char path[PATH_MAX];
    assert_code(0, coxi_path(path, "%s/%s", in, file));
    assert_code(0, coxi_key_new(path));
    assert_code(0, coxi_key_read(path, ret));
}

static void copy_key(const char *in, const char *file, const struct coxi_key *key)
{
    char path[PATH_MAX];
    assert_code(0, coxi_path(path, "%s/%s", in, file));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(COXI_KEY_BYTES, write(fd, key->secret, COXI_KEY_BYTES));
    assert_int_equal(0, close(fd));
}

static void check_refused(const char *in, int code, const char *part)
{
    struct coxi_keyring *ring;
    assert_code(code, coxi_keyring_open(in, &ring));
    assert_non_null(strstr(coxi_error_text(), part));
}

TEST(keyring_finds_each_key_by_its_id)
{
    const char *in = directory();
    struct coxi_key keys[2];
    struct coxi_keyring *ring;
    uint8_t of_role[COXI_KEY_BYTES];
    uint64_t id;
    uint32_t run = 9;
    make_key(in, "b.key", &keys[1]);
    make_key(in, "a.key", &keys[0]);
    copy_key(in, "README", &keys[0]);
    assert_code(0, coxi_keyring_open(in, &ring));
    assert_int_equal(2, coxi_keyring_count(ring));
    assert_string_equal("a", coxi_keyring_name(ring, 0));
    assert_string_equal("b", coxi_keyring_name(ring, 1));
    assert_true(coxi_key_of_role(&keys[1], COXI_ROLE_WORKER, of_role));
    assert_true(coxi_key_id(of_role, &id));
    struct coxi_key found;
    assert_true(coxi_keyring_find(ring, COXI_ROLE_WORKER, id, &found, &run));
    assert_int_equal(1, run);
    assert_memory_equal(keys[1].secret, found.secret, COXI_KEY_BYTES);
    coxi_keyring_free(ring);
}

/* Nor for a role that does not exist, which a peer may name. */
TEST(keyring_finds_no_key_for_another_role)
{
    const char *in = directory();
    struct coxi_key key;
    struct coxi_keyring *ring;
    uint8_t of_role[COXI_KEY_BYTES];
    uint64_t id;
    uint32_t run;
    make_key(in, "a.key", &key);
    assert_code(0, coxi_keyring_open(in, &ring));
    assert_true(coxi_key_of_role(&key, COXI_ROLE_TOOL, of_role));
    assert_true(coxi_key_id(of_role, &id));
    assert_false(coxi_keyring_find(ring, COXI_ROLE_CLIENT, id, &key, &run));
    assert_false(coxi_keyring_find(ring, (enum coxi_role)0, 0, &key, &run));
    assert_false(coxi_keyring_find(ring, (enum coxi_role)255, id, &key, &run));
    coxi_keyring_free(ring);
}

TEST(keyring_takes_new_keys_and_wipes_those_that_are_gone)
{
    const char *in = directory();
    struct coxi_key key;
    struct coxi_keyring *ring;
    struct coxi_buffer added = {0};
    struct coxi_buffer removed = {0};
    char from[PATH_MAX];
    char to[PATH_MAX];
    make_key(in, "a.key", &key);
    make_key(in, "b.key", &key);
    assert_code(0, coxi_keyring_open(in, &ring));
    make_key(in, "c.key", &key);
    assert_code(0, coxi_path(from, "%s/a.key", in));
    assert_code(0, coxi_path(to, "%s/a.away", in));
    assert_int_equal(0, rename(from, to));
    assert_code(0, coxi_keyring_reload(ring, in, &added, &removed));
    assert_int_equal(1, added.len);
    assert_memory_equal("c", added.data, 1);
    assert_int_equal(1, removed.len);
    assert_memory_equal("a", removed.data, 1);
    assert_int_equal(3, coxi_keyring_count(ring));
    assert_string_equal("c", coxi_keyring_name(ring, 2));
    assert_false(coxi_keyring_has(ring, 0));
    assert_true(coxi_keyring_has(ring, 1) && coxi_keyring_has(ring, 2));
    assert_int_equal(0, rename(to, from)); /* its key comes back, and has its index */
    assert_code(0, coxi_keyring_reload(ring, in, &added, &removed));
    assert_int_equal(3, coxi_keyring_count(ring));
    assert_true(coxi_keyring_has(ring, 0));
    coxi_buffer_fini(&added);
    coxi_buffer_fini(&removed);
    coxi_keyring_free(ring);
}

TEST(keyring_refuses_one_key_for_two_runs)
{
    const char *in = directory();
    struct coxi_key key;
    make_key(in, "a.key", &key);
    copy_key(in, "b.key", &key);
    check_refused(in, COX_EINVAL, "the same key");
}

TEST(keyring_refuses_the_key_of_readers)
{
    const char *in = directory();
    struct coxi_key key;
    char path[PATH_MAX];
    make_key(in, "a.key", &key);
    assert_code(0, coxi_path(path, "%s/b.key", in));
    assert_code(0, coxi_key_new_reader(path, &key));
    check_refused(in, COX_EINVAL, "key of readers");
}

TEST(keyring_refuses_a_name_that_leaves_its_directory)
{
    const char *in = directory();
    struct coxi_key key;
    make_key(in, "a b.key", &key);
    check_refused(in, COX_EINVAL, "a b.key");
}

TEST(keyring_refuses_a_directory_that_others_may_change)
{
    const char *in = directory();
    struct coxi_key key;
    make_key(in, "a.key", &key);
    assert_int_equal(0, chmod(in, 0777));
    check_refused(in, COX_EINVAL, "chmod go-w");
}

TEST(keyring_refuses_a_directory_without_keys)
{
    check_refused(directory(), COX_EINVAL, "coxswain key new");
    check_refused(coxi_test_path("absent"), COX_EIO, "absent");
}

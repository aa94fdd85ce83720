/* Signatures of step modules, and the keys that make and check them. */
#include "net/signature.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/error.h"
#include "common/hash.h"
#include "net/key.h"
#include "tests/test.h"

/* A pair of keys in files `name` and `name`.pub; returns the public one. */
static struct coxi_module_key make_keys(const char *name)
{
    char path[400];
    struct coxi_module_key key;
    assert_code(0, coxi_module_keys_new(coxi_test_path(name)));
    (void)snprintf(path, sizeof(path), "%s.pub", coxi_test_path(name));
    assert_code(0, coxi_module_key_read(path, &key));
    return key;
}

/* Signs a file with this content; returns its digest. */
static struct coxi_digest sign(const char *content, const char *key,
                               struct coxi_signature *ret)
{
    const char *module = coxi_test_path("steps.so");
    coxi_test_write(module, content, strlen(content));
    assert_code(0, coxi_module_sign(module, coxi_test_path(key)));
    assert_code(0, coxi_signature_read(module, ret));
    return coxi_digest_of(content, strlen(content));
}

TEST(a_signature_is_valid_for_its_module_and_key)
{
    const struct coxi_module_key key = make_keys("signer");
    struct coxi_signature signature;
    struct coxi_digest digest = sign("a module", "signer", &signature);
    assert_true(coxi_signature_is_set(&signature));
    assert_true(coxi_signature_is_valid(&signature, &digest, &key));
}

TEST(a_module_that_is_signed_again_has_its_new_signature)
{
    const struct coxi_module_key key = make_keys("signer");
    struct coxi_signature signature;
    (void)sign("a module", "signer", &signature);
    struct coxi_digest digest = sign("the module, built again", "signer", &signature);
    assert_true(coxi_signature_is_valid(&signature, &digest, &key));
}

TEST(a_module_without_a_signature_has_none)
{
    const struct coxi_module_key key = make_keys("signer");
    const struct coxi_digest digest = coxi_digest_of("a module", 8);
    struct coxi_signature signature;
    memset(&signature, 7, sizeof(signature));
    assert_code(0, coxi_signature_read(coxi_test_path("steps.so"), &signature));
    assert_false(coxi_signature_is_set(&signature));
    assert_false(coxi_signature_is_valid(&signature, &digest, &key));
}

/* ---- attacks */

TEST(a_signature_of_another_key_is_not_valid)
{
    const struct coxi_module_key key = make_keys("signer");
    struct coxi_signature signature;
    (void)make_keys("other");
    struct coxi_digest digest = sign("a module", "other", &signature);
    assert_false(coxi_signature_is_valid(&signature, &digest, &key));
}

TEST(a_signature_of_another_module_is_not_valid)
{
    const struct coxi_module_key key = make_keys("signer");
    const struct coxi_digest another = coxi_digest_of("b module", 8);
    struct coxi_signature signature;
    (void)sign("a module", "signer", &signature);
    assert_false(coxi_signature_is_valid(&signature, &another, &key));
}

TEST(a_signature_with_any_bit_flipped_is_not_valid)
{
    const struct coxi_module_key key = make_keys("signer");
    struct coxi_signature signature;
    struct coxi_digest digest = sign("a module", "signer", &signature);
    for (size_t i = 0; i < 8 * sizeof(signature.bytes); i++) {
        signature.bytes[i / 8] ^= (uint8_t)(1U << (i % 8));
        assert_false(coxi_signature_is_valid(&signature, &digest, &key));
        signature.bytes[i / 8] ^= (uint8_t)(1U << (i % 8));
    }
    assert_true(coxi_signature_is_valid(&signature, &digest, &key));
}

TEST(a_signature_file_of_another_length_is_refused)
{
    static const char bytes[65] = {1};
    const char *module = coxi_test_path("steps.so");
    for (size_t i = 0; i < 2; i++) {
        struct coxi_signature signature;
        coxi_test_write(coxi_test_path("steps.so.sig"), bytes, i == 0 ? 63 : 65);
        assert_code(COX_EFORMAT, coxi_signature_read(module, &signature));
        assert_error_names("steps.so.sig");
    }
}

TEST(a_secret_key_that_others_may_read_signs_nothing)
{
    const char *module = coxi_test_path("steps.so");
    (void)make_keys("signer");
    coxi_test_write(module, "a module", 8);
    assert_int_equal(0, chmod(coxi_test_path("signer"), 0640));
    assert_code(COX_EINVAL, coxi_module_sign(module, coxi_test_path("signer")));
    assert_error_names("chmod 600");
}

TEST(only_the_secret_one_of_a_pair_is_a_secret)
{
    struct stat is;
    mode_t before = umask(0022);
    (void)make_keys("signer");
    (void)umask(before);
    assert_int_equal(0, stat(coxi_test_path("signer"), &is));
    assert_int_equal(0600, is.st_mode & 0777);
    assert_int_equal(0, stat(coxi_test_path("signer.pub"), &is));
    assert_int_equal(0644, is.st_mode & 0777); /* workers of other users read it */
}

TEST(a_public_key_that_others_may_change_is_refused)
{
    struct coxi_module_key key;
    const char *path = coxi_test_path("signer.pub");
    (void)make_keys("signer");
    assert_int_equal(0, chmod(path, 0644)); /* everybody may read it */
    assert_code(0, coxi_module_key_read(path, &key));
    assert_int_equal(0, chmod(path, 0664));
    assert_code(COX_EINVAL, coxi_module_key_read(path, &key));
    assert_error_names("may change");
}

TEST(keys_of_another_kind_are_refused)
{
    struct coxi_module_key key;
    const char *module = coxi_test_path("steps.so");
    (void)make_keys("signer");
    coxi_test_write(module, "a module", 8);
    assert_code(0, coxi_key_new(coxi_test_path("run.key")));
    assert_code(COX_EFORMAT, coxi_module_key_read(coxi_test_path("signer"), &key));
    assert_code(COX_EFORMAT, coxi_module_key_read(coxi_test_path("run.key"), &key));
    assert_code(COX_EFORMAT, coxi_module_sign(module, coxi_test_path("signer.pub")));
    assert_code(COX_EFORMAT, coxi_module_sign(module, coxi_test_path("run.key")));
}

TEST(keys_are_never_overwritten)
{
    struct coxi_module_key key;
    struct stat is;
    (void)make_keys("signer");
    assert_code(COX_EEXIST, coxi_module_keys_new(coxi_test_path("signer")));
    coxi_test_write(coxi_test_path("later.pub"), "mine", 4);
    assert_code(COX_EEXIST, coxi_module_keys_new(coxi_test_path("later")));
    assert_int_equal(-1, stat(coxi_test_path("later"), &is)); /* nothing half-made */
    assert_code(0, coxi_module_key_read(coxi_test_path("signer.pub"), &key));
}

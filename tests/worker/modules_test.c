/* Step modules on a worker: kept by content hash, checked, loaded. */
#include "worker/modules.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/test.h"

struct content {
    char *bytes;
    size_t len;
    struct coxi_digest digest;
};

static void read_module(const char *name, struct content *ret)
{
    ret->bytes = coxi_test_read(coxi_test_module(name), &ret->len);
    ret->digest = coxi_digest_of(ret->bytes, ret->len);
}

static const char *path_of(const struct content *content)
{
    char name[80];
    const uint64_t *w = content->digest.words;
    (void)snprintf(name, sizeof(name),
                   "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 ".so", w[0],
                   w[1], w[2], w[3]);
    return coxi_test_path(name);
}

static int load_in(const char *dir, const struct content *content, bool with_bytes,
                   struct coxi_loaded **ret)
{
    const struct coxi_module_rules rules = {.dir = dir};
    const struct coxi_module module = {.name = "the_module", .digest = content->digest};
    return coxi_module_load(&rules, &module, with_bytes ? content->bytes : NULL,
                            with_bytes ? content->len : 0, ret);
}

static int load(const struct content *content, bool with_bytes,
                struct coxi_loaded **ret)
{
    return load_in(coxi_test_dir(), content, with_bytes, ret);
}

TEST(module_is_loaded_from_bytes_and_later_from_its_cached_file)
{
    struct content counter;
    struct coxi_loaded *module;
    read_module("counter", &counter);
    for (int i = 0; i < 2; i++) {
        assert_code(0, load(&counter, i == 0, &module));
        assert_int_equal(4, module->n_functions);
        assert_string_equal("count", module->functions[0].name);
        assert_string_equal("nothing", module->functions[1].name);
        assert_string_equal("count_and_fail", module->functions[3].name);
        assert_int_equal(0, module->functions[1].run(NULL));
        assert_int_equal(0, atomic_load(&module->functions[1].average_us));
        coxi_module_unload(module);
    }
    free(counter.bytes);
}

TEST(module_that_is_not_cached_needs_its_bytes)
{
    struct content counter;
    struct coxi_loaded *module = NULL;
    read_module("counter", &counter);
    assert_code(COX_ENOENT, load(&counter, false, &module));
    assert_null(module);
    free(counter.bytes);
}

TEST(module_whose_bytes_do_not_match_its_hash_is_refused_and_not_kept)
{
    struct content counter;
    struct coxi_loaded *module = NULL;
    read_module("counter", &counter);
    counter.bytes[counter.len / 2] ^= 1;
    assert_code(COX_EMODULE, load(&counter, true, &module));
    assert_error_names("the_module");
    assert_null(module);
    assert_code(COX_ENOENT, load(&counter, false, &module));
    free(counter.bytes);
}

TEST(module_whose_cached_file_is_damaged_is_refused_and_asked_for_again)
{
    struct content counter;
    struct coxi_loaded *module = NULL;
    read_module("counter", &counter);
    coxi_test_write(path_of(&counter), counter.bytes, counter.len - 1);
    assert_code(COX_EMODULE, load(&counter, false, &module));
    assert_code(COX_ENOENT, load(&counter, false, &module));
    assert_code(0, load(&counter, true, &module));
    coxi_module_unload(module);
    free(counter.bytes);
}

TEST(module_that_is_none_is_refused_by_name)
{
    static char script[] = "#!/bin/sh\necho this is no shared object\n";
    struct coxi_loaded *module = NULL;
    const struct content content = {script, sizeof(script),
                                    coxi_digest_of(script, sizeof(script))};
    assert_code(COX_EMODULE, load(&content, true, &module));
    assert_error_names("the_module");
    assert_null(module);
}

TEST(module_with_an_undefined_symbol_is_refused_with_the_linkers_reason)
{
    struct content undefined;
    struct coxi_loaded *module = NULL;
    read_module("undefined", &undefined);
    assert_code(COX_EMODULE, load(&undefined, true, &module));
    assert_error_names("the_module");
    assert_error_names("cox_test_function_that_nobody_has");
    assert_null(module);
    free(undefined.bytes);
}

TEST(module_that_cannot_be_written_is_an_error_that_names_the_file)
{
    struct content counter;
    struct coxi_loaded *module = NULL;
    const char *file = coxi_test_path("file");
    char dir[PATH_MAX];
    read_module("counter", &counter);
    coxi_test_write(file, "", 0);
    (void)snprintf(dir, sizeof(dir), "%s/directory", file);
    assert_code(COX_EIO, load_in(dir, &counter, true, &module));
    assert_error_names(dir);
    assert_null(module);
    free(counter.bytes);
}

TEST(module_loaded_twice_serves_the_second_when_the_first_is_unloaded)
{
    struct content counter;
    struct coxi_loaded *first;
    struct coxi_loaded *second;
    read_module("counter", &counter);
    assert_code(0, load(&counter, true, &first));
    assert_code(0, load(&counter, false, &second));
    assert_ptr_equal(first->handle, second->handle); /* one copy */
    coxi_module_unload(first);
    assert_int_equal(0, second->functions[1].run(NULL));
    coxi_module_unload(second);
    coxi_module_unload(NULL);
    free(counter.bytes);
}

TEST(module_that_was_unloaded_is_there_for_a_thread_that_its_step_has_left)
{
    struct content linger;
    struct coxi_loaded *module;
    int to[2];
    int from[2];
    char byte = 'x';
    read_module("linger", &linger);
    assert_code(0, load(&linger, true, &module));
    assert_int_equal(0, pipe(to));
    assert_int_equal(0, pipe(from));
    int *fds = dlsym(module->handle, "linger_fds");
    assert_non_null(fds);
    fds[0] = to[0];
    fds[1] = from[1];
    assert_int_equal(0, module->functions[0].run(NULL));
    coxi_module_unload(module);
    assert_int_equal(1, write(to[1], &byte, 1)); /* the thread goes on now */
    assert_int_equal(1, read(from[0], &byte, 1));
    free(linger.bytes);
}

TEST(module_directory_that_was_removed_is_made_again)
{
    struct content counter;
    struct coxi_loaded *module = NULL;
    const char *dir = coxi_test_path("modules");
    read_module("counter", &counter);
    for (int i = 0; i < 2; i++) {
        assert_code(0, load_in(dir, &counter, true, &module));
        coxi_module_unload(module);
        coxi_directory_remove(dir);
        assert_code(COX_ENOENT, load_in(dir, &counter, false, &module));
    }
    free(counter.bytes);
}

TEST(module_is_not_loaded_where_another_user_could_exchange_its_file)
{
    struct content counter;
    struct coxi_loaded *module = NULL;
    read_module("counter", &counter);
    coxi_test_write(path_of(&counter), counter.bytes, counter.len);
    assert_int_equal(0, chmod(coxi_test_dir(), 0777));
    assert_code(COX_EIO, load(&counter, false, &module));
    assert_code(COX_EIO, load(&counter, true, &module));
    assert_error_names("other users may write");
    assert_int_equal(0, chmod(coxi_test_dir(), 0700));
    assert_code(0, load(&counter, false, &module));
    coxi_module_unload(module);
    free(counter.bytes);
}

/* ---- rules */

static int load_by(const struct coxi_module_rules *rules, const struct content *content,
                   const struct coxi_signature *signature, bool with_bytes)
{
    struct coxi_loaded *loaded = NULL;
    struct coxi_module module = {.name = "the_module", .digest = content->digest};
    if (signature != NULL) {
        module.signature = *signature;
    }
    int r = coxi_module_load(rules, &module, with_bytes ? content->bytes : NULL,
                             with_bytes ? content->len : 0, &loaded);
    coxi_module_unload(loaded);
    return r;
}

/* It is in the directory since a time when no signature was needed. */
TEST(module_that_is_cached_and_not_signed_is_refused)
{
    struct content counter;
    struct coxi_module_key key;
    struct coxi_signature signature;
    const char *file = coxi_test_path("counter.so");
    struct coxi_module_rules rules = {.dir = coxi_test_path("modules")};
    read_module("counter", &counter);
    coxi_test_write(file, counter.bytes, counter.len);
    assert_code(0, coxi_module_keys_new(coxi_test_path("signer")));
    assert_code(0, coxi_module_key_read(coxi_test_path("signer.pub"), &key));
    assert_code(0, load_by(&rules, &counter, NULL, true));
    rules.key = &key;
    assert_code(COX_EDENIED, load_by(&rules, &counter, NULL, false));
    assert_error_names("is not signed");
    assert_code(0, coxi_module_sign(file, coxi_test_path("signer")));
    assert_code(0, coxi_signature_read(file, &signature));
    assert_code(0, load_by(&rules, &counter, &signature, false));
    free(counter.bytes);
}

/* The signature fits the hash, but the bytes do not. */
TEST(module_shipped_under_the_hash_of_a_signed_one_is_refused)
{
    struct content counter;
    struct content probe;
    struct coxi_module_key key;
    struct coxi_signature signature;
    const char *file = coxi_test_path("counter.so");
    struct coxi_module_rules rules = {.dir = coxi_test_path("modules"), .key = &key};
    read_module("counter", &counter);
    read_module("probe", &probe);
    coxi_test_write(file, counter.bytes, counter.len);
    assert_code(0, coxi_module_keys_new(coxi_test_path("signer")));
    assert_code(0, coxi_module_key_read(coxi_test_path("signer.pub"), &key));
    assert_code(0, coxi_module_sign(file, coxi_test_path("signer")));
    assert_code(0, coxi_signature_read(file, &signature));
    probe.digest = counter.digest;
    assert_code(COX_EMODULE, load_by(&rules, &probe, &signature, true));
    assert_code(COX_ENOENT, load_by(&rules, &probe, &signature, false));
    free(counter.bytes);
    free(probe.bytes);
}

TEST(module_that_is_shipped_to_a_worker_with_no_modules_is_refused)
{
    struct content counter;
    struct stat is;
    const struct coxi_module_rules rules = {.dir = coxi_test_dir(),
                                            .never_shipped = true};
    read_module("counter", &counter);
    assert_code(COX_EDENIED, load_by(&rules, &counter, NULL, false));
    assert_error_names(path_of(&counter)); /* where its operator can put it */
    assert_code(COX_EDENIED, load_by(&rules, &counter, NULL, true));
    assert_int_equal(-1, stat(path_of(&counter), &is));
    free(counter.bytes);
}

TEST(module_that_its_operator_has_installed_is_loaded)
{
    struct content counter;
    const struct coxi_module_rules rules = {.dir = coxi_test_dir(),
                                            .never_shipped = true};
    read_module("counter", &counter);
    /* another file under its name is not loaded, and stays for the operator to see */
    coxi_test_write(path_of(&counter), "damaged", 7);
    assert_code(COX_EMODULE, load_by(&rules, &counter, NULL, false));
    assert_int_equal(0, access(path_of(&counter), R_OK));
    coxi_test_write(path_of(&counter), counter.bytes, counter.len);
    assert_code(0, load_by(&rules, &counter, NULL, false));
    free(counter.bytes);
}

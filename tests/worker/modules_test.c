/* Step modules on a worker: kept by content hash, checked, loaded. */
#include "worker/modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

struct content {
    char *bytes;
    size_t len;
    struct coxi_hash128 hash;
};

static void read_module(const char *name, struct content *ret)
{
    ret->bytes = coxi_test_read(coxi_test_module(name), &ret->len);
    ret->hash = coxi_hash_bytes(ret->bytes, ret->len);
}

static const char *path_of(const struct content *content)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%016llx%016llx.so",
                   (unsigned long long)content->hash.high,
                   (unsigned long long)content->hash.low);
    return coxi_test_path(name);
}

static int load(const struct content *content, bool with_bytes,
                struct coxi_loaded **ret)
{
    return coxi_module_load(coxi_test_dir(), content->hash, "the_module",
                            with_bytes ? content->bytes : NULL,
                            with_bytes ? content->len : 0, ret);
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
    static const char script[] = "#!/bin/sh\necho this is no shared object\n";
    struct coxi_loaded *module = NULL;
    struct coxi_hash128 hash = coxi_hash_bytes(script, sizeof(script));
    assert_code(COX_EMODULE, coxi_module_load(coxi_test_dir(), hash, "script.sh",
                                              script, sizeof(script), &module));
    assert_error_names("script.sh");
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
    read_module("counter", &counter);
    assert_code(COX_EIO, coxi_module_load("/no/such/directory", counter.hash, "counter",
                                          counter.bytes, counter.len, &module));
    assert_error_names("/no/such/directory");
    assert_null(module);
    free(counter.bytes);
}

TEST(module_loaded_twice_stays_until_the_second_is_unloaded)
{
    struct content counter;
    struct coxi_loaded *first;
    struct coxi_loaded *second;
    read_module("counter", &counter);
    assert_code(0, load(&counter, true, &first));
    assert_code(0, load(&counter, false, &second));
    coxi_module_unload(first);
    assert_int_equal(0, second->functions[1].run(NULL));
    coxi_module_unload(second);
    assert_null(dlopen(path_of(&counter), RTLD_NOW | RTLD_NOLOAD));
    coxi_module_unload(NULL);
    free(counter.bytes);
}

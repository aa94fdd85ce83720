/* Workers that run only signed modules (--module-key), or only modules of their
 * operator (--no-modules): what they refuse, and that the run goes on. */
#include <stdio.h>
#include <string.h>

#include "net/signature.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* Copies a test module to this name in the test's directory; returns its path. */
static const char *copy_module(const char *module, const char *name)
{
    size_t len = 0;
    char *bytes = coxi_test_read(coxi_test_module(module), &len);
    const char *path = coxi_test_path(name);
    coxi_test_write(path, bytes, len);
    free(bytes);
    return path;
}

static void sign(const char *module, const char *key)
{
    assert_code(0, coxi_module_sign(module, coxi_test_path(key)));
}

/* Makes the keys, and a cluster whose workers demand that modules are signed; loads
 * "counter", which is. */
static void signed_open(struct crew *crew)
{
    assert_code(0, coxi_module_keys_new(coxi_test_path("signer")));
    assert_int_equal(0,
                     setenv("COX_WORKER_MODULE_KEY", coxi_test_path("signer.pub"), 1));
    const char *path = copy_module("counter", "counter.so");
    sign(path, "signer");
    crew_open(crew, 1, 1, NULL, NULL);
    assert_code(0, cox_module_load(crew->c, path, &crew->module));
}

static void train(struct crew *crew)
{
    struct cox_variable *counter = crew_counter(crew, "c0");
    crew_schedule(crew, crew_function(crew, "count"), 20, 1);
    assert_code(0, cox_join(crew->c, 8000));
    assert_int_equal(20, crew_read(crew, counter));
}

/* Asserts that the worker refuses the module with a text that contains `part`, and that
 * it runs closures of others. */
static void assert_refused(struct crew *crew, const char *path, const char *part)
{
    struct cox_module *module = NULL;
    assert_code(COX_EDENIED, cox_module_load(crew->c, path, &module));
    assert_error_names("worker 0");
    assert_error_names(part);
    assert_null(module);
    train(crew);
    crew_close(crew);
}

TEST(a_signed_module_trains)
{
    struct crew crew = {0};
    signed_open(&crew);
    train(&crew);
    crew_close(&crew);
}

TEST(signatures_do_not_hinder_workers_without_the_key)
{
    struct crew crew = {0};
    signed_open(&crew);
    crew_close(&crew);
    assert_int_equal(0, unsetenv("COX_WORKER_MODULE_KEY"));
    crew_open(&crew, 1, 1, NULL, NULL);
    assert_code(0, cox_module_load(crew.c, coxi_test_path("counter.so"), &crew.module));
    train(&crew);
    crew_close(&crew);
}

/* ---- attacks */

TEST(an_unsigned_module_is_refused)
{
    struct crew crew = {0};
    signed_open(&crew);
    assert_refused(&crew, copy_module("hold", "hold.so"), "hold.so is not signed");
}

TEST(a_module_signed_with_another_key_is_refused)
{
    struct crew crew = {0};
    signed_open(&crew);
    const char *path = copy_module("hold", "hold.so");
    assert_code(0, coxi_module_keys_new(coxi_test_path("other")));
    sign(path, "other");
    assert_refused(&crew, path, "another key");
}

TEST(a_module_with_the_signature_of_another_is_refused)
{
    struct crew crew = {0};
    size_t len = 0;
    signed_open(&crew);
    const char *path = copy_module("hold", "hold.so");
    char *bytes = coxi_test_read(coxi_test_path("counter.so.sig"), &len);
    coxi_test_write(coxi_test_path("hold.so.sig"), bytes, len);
    free(bytes);
    assert_refused(&crew, path, "was changed");
}

TEST(a_module_changed_after_it_was_signed_is_refused)
{
    struct crew crew = {0};
    size_t len = 0;
    signed_open(&crew);
    const char *path = copy_module("hold", "hold.so");
    sign(path, "signer");
    char *bytes = coxi_test_read(path, &len);
    bytes[15] ^= 1; /* the ELF header's padding: it loads as before */
    coxi_test_write(path, bytes, len);
    free(bytes);
    assert_refused(&crew, path, "was changed");
}

TEST(a_worker_with_no_modules_takes_none)
{
    struct crew crew = {0};
    struct cox_module *module = NULL;
    assert_int_equal(0, setenv("COX_WORKER_NO_MODULES", "true", 1));
    crew_open(&crew, 1, 1, NULL, NULL);
    assert_code(COX_EDENIED,
                cox_module_load(crew.c, coxi_test_module("counter"), &module));
    assert_error_names("--no-modules");
    assert_error_names(".so"); /* where the operator can put it */
    crew_close(&crew);
}

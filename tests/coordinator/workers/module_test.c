/* Step modules: which are refused, and the error texts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

static void assert_refused(struct crew *crew, const char *path, int code,
                           const char *named)
{
    struct cox_module *module = NULL;
    assert_code(code, cox_module_load(crew->c, path, &module));
    assert_error_names(named);
    assert_null(module);
}

TEST(module_that_is_none_is_refused_with_the_reason)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "counter", NULL);
    const char *text = coxi_test_path("text.so");
    coxi_test_write(text, "int main;\n", 10);
    const char *empty = coxi_test_path("empty.so");
    coxi_test_write(empty, "", 0);
    assert_refused(&crew, text, COX_EMODULE, "text.so");
    assert_refused(&crew, text, COX_EMODULE, "ELF");
    assert_refused(&crew, empty, COX_EMODULE, "empty.so");
    assert_refused(&crew, coxi_test_module("no_table"), COX_EMODULE, "COX_STEPS");
    assert_refused(&crew, coxi_test_module("other_abi"), COX_EMODULE, "8");
    assert_refused(&crew, coxi_test_path("missing.so"), COX_ENOENT, "missing.so");
    assert_refused(&crew, coxi_test_dir(), COX_EIO, coxi_test_dir());
    assert_refused(&crew, NULL, COX_EINVAL, "needs the path of a shared object");
    assert_code(COX_EINVAL, cox_module_load(crew.c, text, NULL));
    assert_error_names("needs a place for the module");
    assert_code(COX_EINVAL, cox_module_load(NULL, text, &crew.module));
    assert_error_names("needs a coordinator");

    /* No worker was lost. */
    crew_schedule(&crew, crew_function(&crew, "nothing"), 100, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(module_that_a_worker_cannot_load_is_refused_in_the_linkers_words)
{
    struct crew crew;
    crew_open(&crew, 1, 2, "counter", NULL);
    assert_refused(&crew, coxi_test_module("undefined"), COX_EMODULE,
                   "cox_test_function_that_nobody_has");
    crew_schedule(&crew, crew_function(&crew, "nothing"), 100, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

/* Loads a module that ends the step process. Asserts that it is refused with the text
 * `named` by each of `n_workers` workers, and that closures count once afterwards. */
static void check_killer(int n_workers, const char *name, const char *named)
{
    struct crew crew;
    coxi_test_expect_crashes();
    crew_open(&crew, 1, n_workers, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    assert_refused(&crew, coxi_test_module(name), COX_EMODULE, name);
    assert_error_names(named);
    assert_error_names("standard error: its log, or that of the client");
    crew_schedule(&crew, crew_function(&crew, "count"), 100, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(100, crew_read(&crew, counter));
    crew_close(&crew);
}

TEST(module_that_aborts_when_it_is_loaded_is_refused_with_the_signal)
{
    check_killer(1, "load_aborts", "Aborted");
}

TEST(module_that_ends_all_workers_is_refused_with_the_signal)
{
    check_killer(2, "load_aborts", "Aborted");
}

TEST(module_that_exits_when_it_is_loaded_is_refused)
{
    check_killer(1, "load_exits", "it exited");
}

TEST(module_names_its_steps_when_one_is_missing)
{
    struct crew crew;
    struct cox_function *function = NULL;
    crew_open(&crew, 1, 1, "counter", NULL);
    assert_code(COX_ENOENT, cox_function_get(crew.module, "no_such", &function));
    assert_error_names("'no_such'");
    assert_error_names("count, nothing, echo");
    assert_null(function);
    crew_close(&crew);
}

TEST(modules_keep_their_functions_apart)
{
    struct crew crew;
    struct cox_module *hold;
    struct cox_function *other;
    crew_open(&crew, 1, 2, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &hold));
    assert_code(0, cox_function_get(hold, "nothing", &other));
    crew_schedule(&crew, crew_function(&crew, "count"), 50, 1);
    crew_schedule(&crew, other, 50, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(50, crew_read(&crew, counter));
    crew_close(&crew);
}

TEST(module_reaches_a_worker_that_comes_back)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_kill(crew_supervisor(&crew, 0));
    crew_schedule(&crew, crew_function(&crew, "count"), 100, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(100, crew_read(&crew, counter));
    crew_close(&crew);
}

static bool has_been_refused(void *log)
{
    char *text = coxi_test_read(log, NULL);
    bool refused = strstr(text, "event=module name=counter.so result=COX_E") != NULL;
    free(text);
    return refused;
}

static bool are_both_ready(void *arg)
{
    struct crew *crew = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.workers_ready == 2;
}

TEST(worker_that_cannot_load_a_module_again_stays_away_until_it_can)
{
    struct crew crew;
    char dir[256];
    char modules[300];
    char aside[300];
    char log[300];
    crew_open(&crew, 1, 2, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_socket(&crew, "worker", 1, dir);
    *strrchr(dir, '/') = '\0';
    (void)snprintf(modules, sizeof(modules), "%s/modules-1", dir);
    (void)snprintf(aside, sizeof(aside), "%s/aside", dir);
    (void)snprintf(log, sizeof(log), "%s/worker-1.log", crew.log_dir);

    /* A file is where the worker's modules directory should be. */
    assert_int_equal(0, rename(modules, aside));
    coxi_test_write(modules, "", 0);
    crew_kill(crew_step_process(&crew, 1));
    coxi_test_until(has_been_refused, log, "the refusal of a module");
    crew_schedule(&crew, crew_function(&crew, "count"), 200, 1);
    assert_code(0, cox_join(crew.c, -1));

    /* The directory is back: the worker returns, so the other one may be killed. */
    assert_int_equal(0, unlink(modules));
    assert_int_equal(0, rename(aside, modules));
    coxi_test_until(are_both_ready, &crew, "the worker's return");
    crew_kill(crew_step_process(&crew, 0));
    crew_schedule(&crew, crew_function(&crew, "count"), 200, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(400, crew_read(&crew, counter));
    crew_close(&crew);
}

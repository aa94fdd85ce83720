/* The resources of a run on a worker: when they are made, and when they are
 * released. */
#include "worker/resources.h"

#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "tests/test.h"
#include "tests/worker/gate.h"
#include "tests/worker/rig.h"

/* ---- the table alone: values are counters of their releases */

static void count_release(void *value)
{
    ++*(int *)value;
}

static bool add_at(struct coxi_resources *resources, uint32_t id, const char *name,
                   uint64_t position)
{
    const struct coxi_resource wanted = {
        .id = id, .name = name, .message = "", .position = position};
    bool waits = false;
    assert_code(0, coxi_resources_add(resources, &wanted, NULL, 0, 0, &waits));
    return waits;
}

static bool add(struct coxi_resources *resources, uint32_t id, const char *name)
{
    return add_at(resources, id, name, 1);
}

/* Asserts that resource `id` is the next to make; makes it with `value` and `code`. */
static void make_next(struct coxi_resources *resources, uint32_t id, int *value,
                      int code)
{
    struct coxi_kept *kept = coxi_resources_tend(resources);
    assert_non_null(kept);
    assert_int_equal(id, kept->head.attempt);
    assert_int_equal(0, kept->head.closure);
    kept->kept = true;
    kept->value = value;
    kept->release = count_release;
    coxi_resources_made(resources, kept, code, "the reason");
}

TEST(resources_are_made_one_at_a_time_in_the_order_in_which_they_came)
{
    struct coxi_resources resources;
    int released[2] = {0, 0};
    coxi_resources_init(&resources);
    assert_false(coxi_resources_wait(&resources));
    assert_true(add(&resources, 1, "a"));
    assert_true(add(&resources, 2, "b"));
    assert_true(coxi_resources_wait(&resources));
    struct coxi_kept *first = coxi_resources_tend(&resources);
    assert_int_equal(1, first->head.attempt);
    assert_false(coxi_resources_wait(&resources)); /* the next resource has to wait */
    assert_null(coxi_resources_tend(&resources));
    first->value = &released[0];
    first->release = count_release;
    coxi_resources_made(&resources, first, 0, "");
    assert_true(coxi_resources_wait(&resources));
    make_next(&resources, 2, &released[1], 0);
    assert_false(coxi_resources_wait(&resources));
    assert_int_equal(0, released[0] + released[1]);
    coxi_resources_fini(&resources);
    assert_int_equal(1, released[0]);
    assert_int_equal(1, released[1]);
}

TEST(resource_is_found_by_name_once_it_is_made)
{
    struct coxi_resources resources;
    struct coxi_kept *kept = NULL;
    int released = 0;
    coxi_resources_init(&resources);
    (void)add(&resources, 1, "a");
    assert_code(COX_ENOENT, coxi_resources_use(&resources, "a", 1, &kept));
    assert_error_names("still being made");
    assert_code(COX_ENOENT, coxi_resources_use(&resources, "b", 1, &kept));
    assert_error_names("'b'");
    assert_null(kept);
    make_next(&resources, 1, &released, 0);
    assert_code(0, coxi_resources_use(&resources, "a", 1, &kept));
    assert_ptr_equal(&released, kept->value);
    assert_int_equal(0, kept->code);
    coxi_resources_unuse(&resources, kept);
    assert_int_equal(0, released);
    coxi_resources_fini(&resources);
}

TEST(resource_that_fails_releases_what_was_kept_and_says_why)
{
    struct coxi_resources resources;
    struct coxi_kept *kept = NULL;
    int released = 0;
    coxi_resources_init(&resources);
    (void)add(&resources, 1, "a");
    make_next(&resources, 1, &released, COX_ESTEP);
    assert_int_equal(1, released);
    assert_code(0, coxi_resources_use(&resources, "a", 1, &kept));
    assert_int_equal(COX_ESTEP, kept->code);
    assert_string_equal("the reason", kept->text);
    coxi_resources_unuse(&resources, kept);
    coxi_resources_fini(&resources);
    assert_int_equal(1, released);
}

TEST(resource_that_is_not_to_be_made_has_failed_at_once)
{
    const struct coxi_resource wanted = {
        .id = 4, .name = "a", .code = COX_ECRASHED, .message = "it crashed"};
    struct coxi_resources resources;
    struct coxi_kept *kept = NULL;
    bool waits = true;
    coxi_resources_init(&resources);
    assert_code(0, coxi_resources_add(&resources, &wanted, NULL, 0, 0, &waits));
    assert_false(waits);
    assert_false(coxi_resources_wait(&resources));
    assert_code(0, coxi_resources_use(&resources, "a", 1, &kept));
    assert_int_equal(COX_ECRASHED, kept->code);
    assert_string_equal("it crashed", kept->text);
    coxi_resources_unuse(&resources, kept);
    coxi_resources_fini(&resources);
}

TEST(dropped_resource_goes_with_its_last_user)
{
    struct coxi_resources resources;
    struct coxi_kept *users[2] = {NULL, NULL};
    struct coxi_kept *kept = NULL;
    int released[2] = {0, 0};
    coxi_resources_init(&resources);
    (void)add(&resources, 1, "a");
    make_next(&resources, 1, &released[0], 0);
    assert_code(0, coxi_resources_use(&resources, "a", 1, &users[0]));
    assert_code(0, coxi_resources_use(&resources, "a", 1, &users[1]));
    coxi_resources_drop(&resources, 1);
    coxi_resources_drop(&resources, 1);
    coxi_resources_drop(&resources, 99);
    coxi_resources_drop(&resources, 0);
    assert_code(COX_ENOENT, coxi_resources_use(&resources, "a", 1, &kept));

    /* Its name is free again although it still exists. */
    (void)add(&resources, 2, "a");
    make_next(&resources, 2, &released[1], 0);
    assert_code(0, coxi_resources_use(&resources, "a", 1, &kept));
    assert_ptr_equal(&released[1], kept->value);
    coxi_resources_unuse(&resources, kept);
    coxi_resources_unuse(&resources, users[0]);
    assert_int_equal(0, released[0]);
    coxi_resources_unuse(&resources, users[1]);
    assert_int_equal(1, released[0]);
    assert_false(coxi_resources_wait(&resources));

    /* If no step uses it, the next slot that is free releases it. */
    coxi_resources_drop(&resources, 2);
    assert_int_equal(0, released[1]);
    assert_true(coxi_resources_wait(&resources));
    assert_null(coxi_resources_tend(&resources));
    assert_int_equal(1, released[1]);
    assert_false(coxi_resources_wait(&resources));
    coxi_resources_fini(&resources);
    assert_int_equal(1, released[0]);
    assert_int_equal(1, released[1]);
}

static void expect_found(struct coxi_resources *resources, uint64_t closure,
                         const int *value)
{
    struct coxi_kept *kept = NULL;
    assert_code(0, coxi_resources_use(resources, "a", closure, &kept));
    assert_ptr_equal(value, kept->value);
    coxi_resources_unuse(resources, kept);
}

TEST(closure_finds_the_resource_that_was_there_when_it_was_scheduled)
{
    struct coxi_resources resources;
    struct coxi_kept *kept = NULL;
    int released[2] = {0, 0};
    coxi_resources_init(&resources);
    (void)add_at(&resources, 1, "a", 5);
    make_next(&resources, 1, &released[0], 0);
    coxi_resources_hide(&resources, 1, 8);
    coxi_resources_hide(&resources, 99, 1);
    expect_found(&resources, 1,
                 /* the closure is older than the resource, but there is no other
                  * resource */
                 &released[0]);
    expect_found(&resources, 7, &released[0]);
    assert_code(COX_ENOENT, coxi_resources_use(&resources, "a", 8, &kept));
    (void)add_at(&resources, 2, "a", 10);
    expect_found(&resources, 7, &released[0]);
    assert_code(COX_ENOENT, coxi_resources_use(&resources, "a", 10, &kept));
    assert_error_names("still being made");
    make_next(&resources, 2, &released[1], 0);
    expect_found(&resources, 7, &released[0]);
    expect_found(&resources, 8, &released[1]);
    expect_found(&resources, 10, &released[1]);
    coxi_resources_drop(&resources, 1);
    expect_found(&resources, 7, &released[1]);
    assert_null(coxi_resources_tend(&resources));
    assert_int_equal(1, released[0]);
    coxi_resources_fini(&resources);
    assert_int_equal(1, released[1]);
}

/* As for a resuming client: closures of the previous client find the resources that it
 * creates. */
TEST(closure_finds_the_newest_of_several_that_were_there)
{
    struct coxi_resources resources;
    int released[2] = {0, 0};
    coxi_resources_init(&resources);
    for (uint32_t i = 0; i < 2; i++) {
        (void)add(&resources, 1 + i, "a");
        make_next(&resources, 1 + i, &released[i], 0);
    }
    coxi_resources_hide(&resources, 1, 8);
    expect_found(&resources, 7, &released[1]);
    coxi_resources_drop(&resources, 2);
    expect_found(&resources, 7, &released[0]);
    coxi_resources_fini(&resources);
}

TEST(resource_that_is_dropped_before_it_is_made_is_not_made)
{
    struct coxi_resources resources;
    int released = 0;
    coxi_resources_init(&resources);
    (void)add(&resources, 1, "a");
    (void)add(&resources, 2, "b");
    struct coxi_kept *first = coxi_resources_tend(&resources);
    coxi_resources_drop(&resources, 2);
    coxi_resources_drop(&resources, 1); /* this resource is in use already */
    assert_false(coxi_resources_wait(&resources));
    first->value = &released;
    first->release = count_release;
    coxi_resources_made(&resources, first, 0, "");
    assert_int_equal(1, released);
    assert_false(coxi_resources_wait(&resources));
    assert_null(coxi_resources_tend(&resources));
    coxi_resources_fini(&resources);
}

TEST(resources_of_a_client_that_is_gone_are_all_dropped)
{
    struct coxi_resources resources;
    struct coxi_kept *user = NULL;
    int released[2] = {0, 0};
    coxi_resources_init(&resources);
    for (uint32_t i = 0; i < 2; i++) {
        (void)add(&resources, 1 + i, i == 0 ? "a" : "b");
        make_next(&resources, 1 + i, &released[i], 0);
    }
    (void)add(&resources, 3, "c");
    assert_code(0, coxi_resources_use(&resources, "b", 1, &user));
    coxi_resources_close(&resources);
    assert_true(coxi_resources_wait(&resources));
    assert_null(coxi_resources_tend(&resources));
    assert_int_equal(1, released[0]);
    assert_int_equal(0, released[1]);
    coxi_resources_unuse(&resources, user);
    assert_int_equal(1, released[1]);
    bool waits = false;
    const struct coxi_resource late = {.id = 9, .name = "d", .message = ""};
    assert_code(COX_ECLOSED, coxi_resources_add(&resources, &late, NULL, 0, 0, &waits));
    coxi_resources_fini(&resources);
}

TEST(resources_have_a_limit_of_those_that_are_not_dropped)
{
    struct coxi_resources resources;
    struct coxi_resource wanted = {.name = "a", .message = ""};
    bool waits = false;
    coxi_resources_init(&resources);
    assert_code(COX_EPROTO,
                coxi_resources_add(&resources, &wanted, NULL, 0, 0, &waits));
    for (uint32_t i = 0; i < COXI_RESOURCES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", i);
        (void)add(&resources, 1 + i, name);
    }
    wanted.id = COXI_RESOURCES_MAX + 1;
    assert_code(COX_EPROTO,
                coxi_resources_add(&resources, &wanted, NULL, 0, 0, &waits));
    assert_false(waits);
    coxi_resources_drop(&resources, 7);
    assert_code(0, coxi_resources_add(&resources, &wanted, NULL, 0, 0, &waits));
    coxi_resources_fini(&resources);
}

/* ---- on slots */

enum { MODULE = 1 }; /* "resource" */

static void open_rig(struct rig *rig, uint32_t n_slots)
{
    rig_open(rig, 1, n_slots, 16);
    assert_int_equal(0, rig_load(rig, MODULE, "resource", true));
}

static uint16_t function_of(const struct rig *rig, const char *name)
{
    const struct coxi_loaded *module = rig->run->modules[MODULE];
    uint16_t i = 0;
    while (i < module->n_functions && strcmp(module->functions[i].name, name) != 0) {
        i++;
    }
    return i; /* one past the last: not found */
}

static void want(struct rig *rig, uint32_t id, const char *function, const char *path)
{
    struct coxi_buffer args = {0};
    char name[16];
    bool waits = false;
    const struct cox_value value = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    (void)snprintf(name, sizeof(name), "r%u", id);
    assert_code(0, coxi_values_add(&args, &value));
    const struct coxi_resource wanted = {.id = id,
                                         .name = name,
                                         .module = MODULE,
                                         .function = function_of(rig, function),
                                         .message = ""};
    assert_code(0,
                coxi_run_add_resource(rig->run, &wanted, args.data, args.len, &waits));
    assert_true(waits);
    coxi_slots_tend(rig->slots, rig->run);
    coxi_buffer_fini(&args);
}

static void expect_made(struct rig *rig, uint32_t id, int code)
{
    const struct coxi_message *m = caller_expect(rig->caller, COXI_RESOURCE_MADE);
    assert_int_equal(id, m->status.id);
    assert_int_equal(code, m->status.code);
}

TEST(resource_is_made_before_closures_that_wait_for_a_slot)
{
    struct rig rig;
    open_rig(&rig, 1);
    const char *path = gate_make("gate");
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    rig_push(&rig, 1, 1, "wait_at", &arg, 1);
    int gate = gate_pass(path);
    rig_push(&rig, 2, 1, "identify", NULL, 0);
    want(&rig, 1, "make", "");
    want(&rig, 2, "make", "");
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    expect_made(&rig, 1, 0);
    expect_made(&rig, 2, 0);
    (void)rig_expect(&rig, 2, 0);
    rig_close(&rig);
}

TEST(resources_are_made_one_after_the_other_on_several_slots)
{
    struct rig rig;
    open_rig(&rig, 3);
    const char *path = gate_make("gate");
    want(&rig, 1, "make_late", path);
    int gate = gate_pass(path);
    want(&rig, 2, "make", "");
    rig_push(&rig, 1, 1, "identify", NULL, 0); /* others run meanwhile */
    (void)rig_expect(&rig, 1, 0);
    assert_int_equal(0, caller_waiting(rig.caller));
    gate_release(gate);
    expect_made(&rig, 1, 0);
    expect_made(&rig, 2, 0);
    rig_close(&rig);
}

TEST(resource_of_a_function_that_is_not_there_fails_alone)
{
    struct rig rig;
    open_rig(&rig, 1);
    want(&rig, 1, "no such function", "");
    expect_made(&rig, 1, COX_EMODULE);
    want(&rig, 2, "make", "");
    expect_made(&rig, 2, 0);
    rig_close(&rig);
}

/* A recall concerns closures; the resource is for later closures, too. */
TEST(making_is_not_recalled_with_the_closures)
{
    struct rig rig;
    open_rig(&rig, 1);
    const char *path = gate_make("gate");
    want(&rig, 1, "make_late", path);
    int gate = gate_pass(path);
    rig_push(&rig, 1, 1, "identify", NULL, 0);
    const struct coxi_recall all = {.all = true, .running = true, .grace_ms = 60000};
    assert_code(0, coxi_slots_recall(rig.slots, rig.run, &all));
    (void)rig_expect(&rig, 1, COX_ECANCELLED);
    gate_release(gate);
    expect_made(&rig, 1, 0);
    rig_close(&rig);
}

TEST(making_is_cancelled_when_the_resource_is_dropped)
{
    struct rig rig;
    open_rig(&rig, 1);
    const char *path = gate_make("gate");
    want(&rig, 1, "make_late", path);
    int gate = gate_pass(path);
    const struct coxi_recall_head making = {.closure = 0, .attempt = 1};
    const struct coxi_recall one = {
        .closures = &making, .n_closures = 1, .running = true, .grace_ms = 60000};
    assert_code(0, coxi_slots_recall(rig.slots, rig.run, &one));
    expect_made(&rig, 1, COX_ECANCELLED);
    gate_release(gate);
    rig_close(&rig);
}

TEST(slots_that_stop_cancel_the_making_and_make_nothing_more)
{
    struct rig rig;
    open_rig(&rig, 1);
    const char *path = gate_make("gate");
    want(&rig, 1, "make_late", path);
    int gate = gate_pass(path);
    want(&rig, 2, "make", "");
    (void)coxi_slots_stop(rig.slots);
    want(&rig, 3, "make", "");
    expect_made(&rig, 1, COX_ECANCELLED);
    gate_release(gate);
    rig_close(&rig); /* closing ends, and no further resource is made */
}

TEST(slots_that_stop_let_go_of_a_run_that_waits_for_them)
{
    struct rig rig;
    open_rig(&rig, 1);
    const char *path = gate_make("gate");
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    rig_push(&rig, 1, 1, "wait_at", &arg, 1);
    int gate = gate_pass(path);
    want(&rig, 1, "make", "");
    assert_false(coxi_slots_stop(rig.slots));
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    rig_close(&rig); /* closing ends, so nothing holds the run */
}

TEST(making_is_cancelled_when_the_run_ends_and_nothing_more_is_made)
{
    struct rig rig;
    open_rig(&rig, 1);
    const char *path = gate_make("gate");
    want(&rig, 1, "make_late", path);
    int gate = gate_pass(path);
    want(&rig, 2, "make_late", gate_make("nobody-comes-here"));
    rig_close(&rig);
    gate_release(gate);
}

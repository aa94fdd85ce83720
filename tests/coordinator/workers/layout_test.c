/* Workers are told of each variable once, for any number of variables. */
#include <stdio.h>
#include <string.h>

#include "common/layout.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

enum { MANY = 1200 }; /* more variables than fit in one layout */

struct ear {
    uint8_t heard[COXI_VARIABLES_MAX]; /* by id: 1 if the worker was told of it */
    size_t n;
    size_t n_layouts;
};

static void create(struct yard *yard, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
        struct cox_variable *variable;
        char name[32];
        (void)snprintf(name, sizeof(name), "layer/%d", i);
        spec.name = name;
        spec.dtype = COX_F32;
        spec.rank = 1;
        spec.shape[0] = 1;
        assert_code(0, cox_variable_create(yard->crew.c, &spec, &variable));
    }
}

/* Takes a layout; asserts that it repeats no variable. */
static void take(struct ear *ear, const struct coxi_layout *layout)
{
    ear->n_layouts++;
    for (size_t i = 0; i < layout->n_variables; i++) {
        struct coxi_variable variable;
        assert_true(coxi_layout_variable(layout, i, &variable));
        assert_int_equal(0, ear->heard[variable.id]);
        ear->heard[variable.id] = 1;
        ear->n++;
    }
}

/* Takes layouts until another message comes; asserts its kind. */
static const struct coxi_message *hear(struct caller *worker, struct ear *ear,
                                       enum coxi_message_kind until)
{
    const struct coxi_message *message = caller_next(worker);
    while (message->kind == COXI_LAYOUT) {
        take(ear, &message->layout);
        message = caller_next(worker);
    }
    assert_int_equal(until, message->kind);
    return message;
}

/* Schedules a closure; takes the layouts that come before its dispatch. */
static void run_one(struct yard *yard, struct caller *worker, struct ear *ear)
{
    yard_count(yard, 1);
    struct coxi_closure_head head =
        *hear(worker, ear, COXI_DISPATCH)->dispatch.closures;
    fake_worker_answer(worker, &head, 0);
    assert_code(0, cox_join(yard->crew.c, 8000));
}

/* Dials as a worker; takes the layouts that come before the module. */
static struct caller *join(struct yard *yard, const char *name, struct ear *ear)
{
    struct coxi_hello hello = fake_worker_hello(name, 7);
    struct caller *worker = caller_open(cox_listen_address(yard->crew.c), &hello);
    (void)caller_expect(worker, COXI_HELLO);
    (void)hear(worker, ear, COXI_MODULE);
    fake_worker_accept(worker, 0);
    return worker;
}

TEST(layout_names_what_was_added_since_the_last_one)
{
    static struct ear ear;
    struct yard yard;
    ear = (struct ear){0};
    yard_open(&yard, NULL);
    struct caller *worker = join(&yard, "anna", &ear);
    assert_int_equal(1, ear.n); /* the yard's counter */
    create(&yard, 0, 20);
    run_one(&yard, worker, &ear);
    assert_int_equal(21, ear.n);
    create(&yard, 20, 1);
    run_one(&yard, worker, &ear);
    assert_int_equal(22, ear.n);
    run_one(&yard, worker, &ear);
    assert_int_equal(22, ear.n);
    caller_close(worker);
    yard_close(&yard);
}

TEST(layouts_are_heard_of_without_a_closure)
{
    static struct ear ear;
    struct yard yard;
    ear = (struct ear){0};
    yard_open(&yard, NULL);
    struct caller *worker = join(&yard, "anna", &ear);
    create(&yard, 0, 3);
    while (ear.n < 4) {
        take(&ear, &caller_expect(worker, COXI_LAYOUT)->layout);
    }
    caller_close(worker);
    yard_close(&yard);
}

TEST(layouts_of_many_variables_are_few_and_short)
{
    static struct ear first;
    static struct ear second;
    struct yard yard;
    first = second = (struct ear){0};
    yard_open(&yard, NULL);
    struct caller *anna = join(&yard, "anna", &first);
    create(&yard, 0, MANY);
    run_one(&yard, anna, &first);
    assert_int_equal(1 + MANY, first.n);
    assert_true(first.n_layouts < MANY / 2);
    /* A worker that joins later is told of all variables. */
    struct caller *berta = join(&yard, "berta", &second);
    assert_int_equal(1 + MANY, second.n);
    assert_in_range(second.n_layouts, 2, 4);
    caller_close(anna);
    caller_close(berta);
    yard_close(&yard);
}

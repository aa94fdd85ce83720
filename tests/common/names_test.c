#include "common/names.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/sync.h"
#include "tests/test.h"

enum { N = 5000, ROUNDS = 20 };

struct item {
    struct coxi_named named;
    char text[32];
};

struct fixture {
    struct coxi_names names;
    struct item items[N];
    atomic_int n_added;
    atomic_int n_passes; /* of the reader */
};

static void init(struct fixture *f)
{
    *f = (struct fixture){0};
    for (int i = 0; i < N; i++) {
        struct item *item = &f->items[i];
        item->named.len =
            (size_t)snprintf(item->text, sizeof(item->text), "layer_%d/w", i);
        item->named.name = item->text;
    }
}

static void add(struct fixture *f, int i)
{
    assert_code(0, coxi_names_add(&f->names, &f->items[i].named));
    atomic_store(&f->n_added, i + 1);
}

TEST(names_find_every_item_and_nothing_else)
{
    static struct fixture f;
    init(&f);
    assert_null(coxi_names_get(&f.names, "layer_0/w", 9));
    for (int i = 0; i < N; i++) {
        add(&f, i);
        assert_null(coxi_names_get(&f.names, "layer_0/b", 9)); /* however full it is */
    }
    assert_int_equal(N, f.names.n);
    for (int i = 0; i < N; i++) {
        const struct coxi_named *item = &f.items[i].named;
        assert_ptr_equal(item, coxi_names_get(&f.names, item->name, item->len));
        assert_null(coxi_names_get(&f.names, item->name, item->len - 2));
    }
    assert_null(coxi_names_get(&f.names, "", 0));
    coxi_names_fini(&f.names);
    coxi_names_fini(&f.names); /* an empty one */
}

static void *look_up(void *arg)
{
    struct fixture *f = arg;
    intptr_t missing = 0;
    for (int n = 0; n < N;) {
        n = atomic_load(&f->n_added);
        for (int i = n > 50 ? n - 50 : 0; i < n; i++) {
            const struct coxi_named *item = &f->items[i].named;
            missing += coxi_names_get(&f->names, item->name, item->len) != item;
        }
        atomic_fetch_add(&f->n_passes, 1);
    }
    return (void *)missing;
}

/* Adds all names. Before each growth of the table it lets the reader begin another
 * pass. */
static void add_beside_reader(struct fixture *f)
{
    for (int i = 0; i < N; i++) {
        int n_passes = atomic_load(&f->n_passes);
        while ((i & (i - 1)) == 0 && atomic_load(&f->n_passes) == n_passes) {
            (void)sched_yield();
        }
        add(f, i);
    }
}

TEST(names_are_found_while_others_are_added)
{
    static struct fixture f;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *missing = NULL;
        init(&f);
        assert_code(0, coxi_thread_start(&thread, "reader", look_up, &f));
        add_beside_reader(&f);
        assert_int_equal(0, pthread_join(thread, &missing));
        assert_null(missing);
        coxi_names_fini(&f.names);
    }
}

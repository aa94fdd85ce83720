/* What a ps does for a run, as spans of a trace: in the background, and within requests. */
#include "common/trace.h"

#include <stdio.h>

#include "tests/ps/harbour.h"
#include "tests/ps/round_stock.h"
#include "tests/test.h"

enum { RUN = 1, SPANS_MAX = 4096 };

static struct coxi_trace_span spans[SPANS_MAX];
static size_t n_spans;

/* Begins a trace, or takes what was noted since the last call. */
static void drain(void)
{
    uint64_t dropped;
    bool more;
    assert_code(0, coxi_trace_drain(RUN, spans, SPANS_MAX, &n_spans, &dropped, &more));
    assert_int_equal(0, dropped);
}

/* The only span of that kind; NULL: there is none. */
static const struct coxi_trace_span *only(enum coxi_trace_kind kind)
{
    const struct coxi_trace_span *found = NULL;
    for (size_t i = 0; i < n_spans; i++) {
        if (spans[i].kind == kind) {
            assert_null(found);
            found = &spans[i];
        }
    }
    return found;
}

static bool is_of_thread(const struct coxi_trace_span *span, const char *name)
{
    struct coxi_trace_thread threads[COXI_TRACE_RINGS];
    size_t n = coxi_trace_threads(threads);
    for (size_t i = 0; i < n; i++) {
        if (threads[i].id == span->thread) {
            return strncmp(threads[i].name, name, strlen(name)) == 0;
        }
    }
    return false;
}

/* Ends a round, pulls what must see one that does not end, and evicts rows. */
static void work(struct stock *s)
{
    static const struct coxi_lifecycle few = {.rows_max = 1};
    static const uint64_t keys[] = {1, 2, 3};
    static const float ones[] = {1, 1, 1};
    uint32_t v = dense(s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    uint32_t table = stock_table_of(s, "t", 1, &few);
    struct stock_commit commit;
    struct coxi_buffer answer = {0};
    struct coxi_buffer versions = {0};
    const struct coxi_pull_item item = {v, 0, 1, 0};
    const struct coxi_pull pull = {.session = s->session,
                                   .incarnation = coxi_store_incarnation(s->store),
                                   .items = &item,
                                   .n_items = 1,
                                   .after = ROUND + 5};
    for (uint64_t i = 0; i < MEMBERS; i++) {
        assert_code(0, push(s, FIRST + i, 1, v, &(float){-1}, 1, NULL));
    }
    end_all(s, 1);
    assert_code(COX_ECANCELLED,
                coxi_store_pull(s->store, &pull, NULL, 0, &answer, &versions));
    coxi_buffer_fini(&answer);
    coxi_buffer_fini(&versions);
    stock_begin(s, ++s->closure, &commit);
    stock_add_rows(&commit, table, COXI_OP_GRADIENT, keys, 3, ones, sizeof(ones));
    assert_code(0, stock_commit(s, &commit, NULL));
}

TEST(rounds_waits_and_evictions_are_spans_of_the_run_that_causes_them)
{
    struct stock s;
    stock_open(&s);
    drain();
    coxi_trace_work_for(RUN);
    work(&s);
    coxi_trace_work_for(0);
    drain();
    assert_int_equal(MEMBERS, only(COXI_TRACE_ROUND)->arg);
    assert_true(only(COXI_TRACE_ROUND_WAIT)->ns > 1000000);
    assert_int_equal(2, only(COXI_TRACE_EVICT)->arg);
    coxi_trace_stop(RUN);
    stock_close(&s);
}

/* So nobody is told what another run's work was. */
TEST(work_for_no_run_is_no_span)
{
    struct stock s;
    stock_open(&s);
    drain();
    work(&s);
    coxi_trace_work_for(RUN + 1);
    coxi_trace_end_part(coxi_trace_begin(), COXI_TRACE_EVICT, 0);
    coxi_trace_work_for(0);
    drain();
    assert_int_equal(0, n_spans);
    coxi_trace_stop(RUN);
    stock_close(&s);
}

TEST(snapshots_are_spans_of_their_thread)
{
    static const struct coxi_session run1 = {.run = RUN, .generation = 1, .token = 11};
    struct harbour harbour;
    harbour_open(&harbour, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&harbour, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    assert_code(0, harbour_create(client, &run1, 2));
    const struct coxi_message message = {
        .kind = COXI_SNAPSHOT,
        .snapshot = {.session = run1,
                     .number = 1,
                     .path = harbour_shard(coxi_test_dir(), "ckpt-1.tmp"),
                     .incarnation = coxi_psc_incarnation(client)}};
    drain();
    assert_code(0, harbour_ask(client, &message, COXI_SNAPSHOT_DONE));
    coxi_psc_close(client);
    harbour_close(&harbour); /* its threads have ended, so they have noted all */
    drain();
    const struct coxi_trace_span *span = only(COXI_TRACE_LONG);
    assert_non_null(span);
    assert_int_equal(COXI_SNAPSHOT, span->arg);
    assert_true(is_of_thread(span, "cox:snapshots"));
    coxi_trace_stop(RUN);
}

TEST(rows_are_loaded_for_the_run_that_restores_them)
{
    struct stock s;
    struct stock again;
    char *path = coxi_test_path("shard.st");
    stock_open(&s);
    stock_open(&again);
    (void)stock_table(&s, "t", 1);
    (void)stock_table(&again, "t", 1);
    struct coxi_snapshot_file file = stock_take(&s, 1, path);
    drain();
    coxi_trace_work_for(RUN);
    assert_code(0, stock_restore(&again, 1, path, &file));
    coxi_trace_work_for(0);
    drain();
    assert_non_null(only(COXI_TRACE_LOADER));
    coxi_applied_list_fini(&file.applied);
    coxi_trace_stop(RUN);
    stock_close(&s);
    stock_close(&again);
}

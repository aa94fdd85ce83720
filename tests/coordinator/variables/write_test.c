/* The client's own writes, with a checkpoint, the loss of a ps or a refusal in the
 * middle. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "common/sync.h"
#include "coordinator/closures/closure.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/diary.h"
#include "tests/coordinator/writing.h"
#include "tests/test.h"

enum { ROWS_PER_PS = 2, ROWS_MAX = 3 * ROWS_PER_PS };

/* A variable of two rows on each of 2 or 3 ps. */
struct spread {
    struct crew crew;
    struct cox_variable *v;
    uint32_t n_ps;
};

static void spread_open(struct spread *s, uint32_t n_ps, const char *module)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&s->crew, (int)n_ps, 2, module, &options);
    s->n_ps = n_ps;
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = (uint64_t)n_ps * ROWS_PER_PS;
    spec.shards = n_ps;
    assert_code(0, cox_variable_create(s->crew.c, &spec, &s->v));
}

static const int64_t *all_of(int64_t value)
{
    static int64_t rows[ROWS_MAX];
    for (int i = 0; i < ROWS_MAX; i++) {
        rows[i] = value;
    }
    return rows;
}

static int assign(struct spread *s, int64_t value)
{
    return cox_variable_assign(s->crew.c, s->v, all_of(value),
                               s->n_ps * ROWS_PER_PS * sizeof(value));
}

/* Opens: all rows hold 1, and a write of 2 to all of them has begun. */
static void open_writing(struct spread *s, uint32_t n_ps, struct writing *ret)
{
    spread_open(s, n_ps, NULL);
    assert_code(0, assign(s, 1));
    writing_begin(ret, s->crew.c, s->v, all_of(2));
}

/* Asserts the values that the ps hold, in the order of ps. */
static void assert_holds(struct spread *s, const int64_t *values)
{
    int64_t rows[ROWS_MAX];
    assert_code(0, cox_variable_read(s->crew.c, s->v, rows,
                                     s->n_ps * ROWS_PER_PS * sizeof(*rows)));
    for (uint32_t i = 0; i < s->n_ps * ROWS_PER_PS; i++) {
        assert_int_equal(values[i / ROWS_PER_PS], rows[i]);
    }
}

/* Kills a ps, and waits until cox_stats counts its recovery; then a read waits until it
 * is complete. */
static void lose_ps(struct spread *s, int index)
{
    int64_t row;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(s->crew.c, &stats));
    uint64_t before = stats.ps_recovered;
    crew_kill(crew_ps_process(&s->crew, index));
    while (stats.ps_recovered == before) {
        assert_code(0, cox_variable_read_rows(s->crew.c, s->v,
                                              (uint64_t)index * ROWS_PER_PS, 1, &row,
                                              sizeof(row)));
        assert_code(0, cox_stats(s->crew.c, &stats));
    }
}

/* ---- a checkpoint in the middle */

TEST(a_write_that_no_ps_had_at_the_checkpoint_is_there_when_ps_are_lost)
{
    struct spread s;
    struct writing write;
    open_writing(&s, 2, &write);
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    assert_code(0, writing_rows(&write, 0, 4, all_of(2)));
    writing_end(&write, false);
    lose_ps(&s, 0);
    lose_ps(&s, 1);
    assert_holds(&s, (const int64_t[]){2, 2});
    /* the checkpoint has the whole write */
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    lose_ps(&s, 1);
    assert_holds(&s, (const int64_t[]){2, 2});
    crew_close(&s.crew);
}

TEST(a_write_that_one_ps_had_at_the_checkpoint_is_whole_for_the_next_client)
{
    struct spread s;
    struct writing write;
    open_writing(&s, 2, &write);
    assert_code(0, writing_rows(&write, 0, ROWS_PER_PS, all_of(2)));
    assert_holds(&s, (const int64_t[]){2, 1});
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    writing_end(&write, true);
    crew_close(&s.crew);
    spread_open(&s, 2, NULL);
    assert_holds(&s, (const int64_t[]){2, 2});
    crew_close(&s.crew);
}

/* Otherwise the ps would refuse the writer's repeated commit, because it names other ps
 * than the replay did. */
TEST(a_write_that_is_replayed_under_way_names_the_same_ps)
{
    struct spread s;
    struct coxi_manifest *manifest;
    spread_open(&s, 2, NULL);
    struct writing write;
    writing_begin(&write, s.crew.c, s.v, all_of(2));
    lose_ps(&s, 0);
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    assert_code(0, coxi_manifest_read(coxi_test_path("checkpoints/ckpt-1"), &manifest));
    const struct coxi_applied_list *has = &manifest->shards[0].applied;
    assert_int_equal(1, has->n_intervals);
    assert_int_equal(2, has->intervals[0].touched_n);
    assert_int_equal(0, has->touched[0]);
    assert_int_equal(1, has->touched[1]);
    coxi_manifest_free(manifest);
    assert_code(0, writing_rows(&write, 0, 4, all_of(2)));
    writing_end(&write, false);
    assert_holds(&s, (const int64_t[]){2, 2});
    crew_close(&s.crew);
}

/* ---- a ps that refuses */

TEST(a_write_that_one_ps_refuses_says_who_has_it_and_stays_so)
{
    struct spread s;
    struct writing write;
    open_writing(&s, 2, &write);
    writing_refuse(&write, 1);
    assert_code(COX_EPARTIAL, writing_rows(&write, 0, 4, all_of(2)));
    assert_error_names("stays applied on ps 0");
    writing_end(&write, false);
    assert_holds(&s, (const int64_t[]){2, 1});
    lose_ps(&s, 0);
    lose_ps(&s, 1);
    assert_holds(&s, (const int64_t[]){2, 1});
    assert_code(0, assign(&s, 3));
    assert_holds(&s, (const int64_t[]){3, 3});
    crew_close(&s.crew);
}

TEST(a_write_that_every_ps_refuses_is_nowhere_for_good)
{
    struct spread s;
    struct writing write;
    open_writing(&s, 2, &write);
    writing_refuse(&write, 0);
    writing_refuse(&write, 1);
    int r = writing_rows(&write, 0, 4, all_of(2));
    assert_true(r != 0 && r != COX_EPARTIAL);
    writing_end(&write, false);
    lose_ps(&s, 0);
    assert_holds(&s, (const int64_t[]){1, 1});
    crew_close(&s.crew);
}

/* The next client does an older client's write in parts, one range of rows after the
 * other. */
TEST(a_write_in_parts_keeps_what_is_written_where_another_part_is_refused)
{
    struct spread s;
    struct writing write;
    open_writing(&s, 3, &write);
    writing_narrow(&write, (const uint64_t[][2]){{0, 2}, {4, 2}}, 2);
    assert_code(0, writing_rows(&write, 0, 2, all_of(2)));
    writing_refuse(&write, 2);
    assert_true(writing_rows(&write, 4, 2, all_of(2)) != 0);
    lose_ps(&s, 0);
    assert_holds(&s, (const int64_t[]){2, 1, 1});
    writing_end(&write, false);
    crew_close(&s.crew);
}

TEST(the_next_client_writes_only_the_rows_that_a_write_in_part_has)
{
    struct spread s;
    spread_open(&s, 3, NULL);
    assert_code(0, assign(&s, 1));
    struct writing before;
    struct writing write;
    writing_begin(&before, s.crew.c, s.v, all_of(1));
    writing_begin(&write, s.crew.c, s.v, all_of(2));
    writing_narrow(&write, (const uint64_t[][2]){{0, 2}, {4, 2}}, 2);
    /* A later write is on all ps, so the checkpoint's backlog has both. */
    struct writing last;
    writing_begin(&last, s.crew.c, s.v, all_of(1));
    assert_code(0, writing_rows(&last, 0, 6, all_of(1)));
    writing_end(&last, false);
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    writing_end(&write, true);
    writing_end(&before, true);
    crew_close(&s.crew);
    spread_open(&s, 3, NULL);
    assert_holds(&s, (const int64_t[]){2, 1, 2});
    crew_close(&s.crew);
}

/* ---- a write between closures, as the next client goes on with them */

static void open_counting(struct crew *crew, const char *module,
                          struct cox_variable **c0)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(crew, 2, 2, module, &options);
    *c0 = crew_counter(crew, "c0");
}

static int64_t order_of(struct crew *crew, struct cox_future *future)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, "order", &value));
    int64_t order = *(const int64_t *)value.data;
    cox_future_free(future);
    (void)crew;
    return order;
}

/* Leaves a checkpoint with an unsettled step that will add 1, an unfinished assignment
 * of 100 after it, and a later step that has already added 1. */
static void leave_backlog(void)
{
    const int64_t hundred = 100;
    struct crew crew;
    struct crew_hold hold;
    struct cox_variable *c0;
    struct cox_future *future;
    open_counting(&crew, "hold", &c0);
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    struct writing write;
    writing_begin(&write, crew.c, c0, &hundred);
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "number_off"), NULL, &future));
    assert_int_equal(0, order_of(&crew, future));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    writing_end(&write, true);
    crew_hold_end(&hold);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

static uint64_t n_rerun(struct crew *crew)
{
    struct cox_progress progress = COX_PROGRESS_INIT;
    assert_code(0, cox_progress(crew->c, &progress));
    return progress.rerun;
}

TEST(the_next_client_writes_what_was_being_written_between_the_same_closures)
{
    const int64_t seven = 7;
    int64_t value;
    struct crew crew;
    struct cox_variable *c0;
    struct cox_future *future;
    leave_backlog();
    /* A client that does not load the module leaves the same backlog. */
    open_counting(&crew, NULL, &c0);
    assert_code(COX_ENOENT, cox_variable_read(crew.c, c0, &value, sizeof(value)));
    assert_error_names("'hold_and_count'");
    assert_code(COX_ENOENT, cox_variable_assign(crew.c, c0, &seven, sizeof(seven)));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);

    open_counting(&crew, "hold", &c0);
    assert_int_equal(1, n_rerun(&crew));
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "number_off"), NULL, &future));
    assert_int_equal(100, order_of(&crew, future));
    assert_int_equal(101, crew_read(&crew, c0));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);

    open_counting(&crew, NULL, &c0);
    assert_int_equal(0, n_rerun(&crew));
    assert_int_equal(101, crew_read(&crew, c0));
    crew_close(&crew);
}

/* True while the client has a gate (closures/gate.h). */
static bool has_gate(struct cox_coordinator *c)
{
    return atomic_load(&c->closures->gate) != NULL;
}

static bool has_no_gate(void *arg)
{
    return !has_gate(arg);
}

TEST(what_was_left_holds_up_nothing_once_it_is_done)
{
    struct crew crew;
    struct cox_variable *c0;
    struct cox_future *future;
    open_counting(&crew, NULL, &c0);
    assert_false(has_gate(crew.c));
    crew_close(&crew);
    leave_backlog();
    open_counting(&crew, "hold", &c0);
    assert_true(has_gate(crew.c));
    assert_code(0, cox_join(crew.c, -1));
    coxi_test_until(has_no_gate, crew.c, "the end of what was left");
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "number_off"), NULL, &future));
    assert_int_equal(100, order_of(&crew, future));
    assert_int_equal(101, crew_read(&crew, c0));
    crew_close(&crew);
}

TEST(what_the_next_client_writes_comes_behind_all_that_was_left)
{
    const int64_t seven = 7;
    struct crew crew;
    struct cox_variable *c0;
    leave_backlog();
    open_counting(&crew, "hold", &c0);
    assert_code(0, cox_variable_assign(crew.c, c0, &seven, sizeof(seven)));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(7, crew_read(&crew, c0));
    crew_close(&crew);
}

/* ---- a full log */

struct writer {
    struct cox_coordinator *c;
    struct cox_variable *v;
    const void *data;
    size_t bytes;
    int code;
    atomic_bool returned;
};

static void *writing_thread(void *arg)
{
    struct writer *writer = arg;
    writer->code =
        cox_variable_assign(writer->c, writer->v, writer->data, writer->bytes);
    atomic_store(&writer->returned, true);
    return NULL;
}

static uint64_t failed_checkpoints(struct cox_coordinator *c)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(c, &stats));
    return stats.checkpoints_failed;
}

/* A write larger than the whole log passes as soon as the log is not full. */
TEST(writes_wait_for_a_checkpoint_while_the_log_is_full)
{
    enum { ROWS = 1 << 16 };
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct writer writer = {.bytes = ROWS * sizeof(int64_t)};
    pthread_t thread;
    int64_t *data = calloc(ROWS, sizeof(*data));
    assert_non_null(data);
    char *dir = coxi_test_path("checkpoints");
    char *moved = coxi_test_path("moved");
    options.checkpoint_dir = dir;
    options.replay_log_bytes = 1 << 16;
    crew_open(&crew, 1, 1, NULL, &options);
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = ROWS;
    writer.c = crew.c;
    writer.data = data;
    assert_code(0, cox_variable_create(crew.c, &spec, &writer.v));
    assert_int_equal(0, rename(dir, moved));
    coxi_test_write(dir, "", 0);
    assert_code(0, cox_variable_assign(crew.c, writer.v, data, writer.bytes));
    data[0] = 7;
    assert_int_equal(0, pthread_create(&thread, NULL, writing_thread, &writer));
    while (failed_checkpoints(crew.c) < 2) {
        assert_false(atomic_load(&writer.returned));
    }
    assert_int_equal(0, unlink(dir));
    assert_int_equal(0, rename(moved, dir));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, writer.code);
    assert_code(0, cox_variable_read_rows(crew.c, writer.v, 0, 1, data, sizeof(*data)));
    assert_int_equal(7, data[0]);
    free(data);
    crew_close(&crew);
}

enum { LEFT_ROWS = 1 << 14 };

static struct cox_variable_spec left_spec(void)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = LEFT_ROWS;
    spec.shards = 2;
    return spec;
}

static struct cox_options left_options(void)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.replay_log_bytes = 1 << 16;
    return options;
}

/* Leaves a checkpoint with an unfinished write of v (7 in its last row) after an
 * unsettled call of hold_and_count of module hold. */
static void leave_a_write(void)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_variable *v;
    const struct cox_options options = left_options();
    const struct cox_variable_spec spec = left_spec();
    int64_t *data = calloc(LEFT_ROWS, sizeof(*data));
    assert_non_null(data);
    data[0] = data[LEFT_ROWS - 1] = 7;
    crew_open(&crew, 2, 1, "hold", &options);
    (void)crew_counter(&crew, "c0");
    assert_code(0, cox_variable_create(crew.c, &spec, &v));
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    struct writing write;
    writing_begin(&write, crew.c, v, data);
    assert_code(0, writing_rows(&write, 0, LEFT_ROWS / 2, data));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    writing_end(&write, true);
    crew_hold_end(&hold);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    free(data);
}

/* The older client's write waits for a step, and the step waits for its module.
 * Programs load modules after they have created their variables. */
TEST(a_variable_is_created_though_what_an_older_client_was_writing_fills_the_log)
{
    struct crew crew;
    struct cox_variable *v;
    int64_t last = 0;
    const struct cox_options options = left_options();
    const struct cox_variable_spec spec = left_spec();
    leave_a_write();
    crew_open(&crew, 2, 1, NULL, &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1"); /* a new one */
    assert_code(0, cox_variable_create(crew.c, &spec, &v));
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &crew.module));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(1, crew_read(&crew, c0));
    assert_code(
        0, cox_variable_read_rows(crew.c, v, LEFT_ROWS - 1, 1, &last, sizeof(last)));
    assert_int_equal(7, last);
    crew_close(&crew);
}

/* The program's call waits for the older client's write. */
TEST(module_that_is_missing_is_told_before_the_first_join)
{
    struct crew crew;
    struct cox_module *hold;
    struct cox_future *future;
    struct cox_options options = left_options();
    leave_a_write();
    struct diary *diary = diary_new();
    options.on_event = diary_note;
    options.event_arg = diary;
    crew_open(&crew, 2, 1, "counter", &options);
    atomic_store(&coxi_patience_ms, 200);
    assert_code(0,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, &future));
    const struct cox_event *event =
        diary_await(diary, COX_EVENT_MODULE_MISSING, "'hold_and_count' of module hold");
    assert_string_equal("module_missing", event->name);
    assert_int_equal(COX_EVENT_WARNING, event->level);
    (void)diary_await(diary, COX_EVENT_BLOCKED, "need 'hold_and_count' of module hold");
    atomic_store(&coxi_patience_ms, COXI_PATIENCE_MS);
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &hold));
    assert_code(0, cox_future_wait(future, 30000));
    cox_future_free(future);
    diary_close(&crew, diary);
}

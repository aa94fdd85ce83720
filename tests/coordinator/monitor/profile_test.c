/* Where the time of steps goes, and what bounds a run: each cause is made to last twice as
 * long as all that came before it, however slow the machine is. */
#include "coxswain/profile.h"

#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "coordinator/monitor/profile.h"
#include "data/sources.h"
#include "tests/coordinator/datasets/dataset.h"
#include "tests/test.h"

enum { LEAST_MS = 50, PATIENT_MS = 60000 };

static bool is_past(void *arg)
{
    return coxi_now_ns() > *(uint64_t *)arg;
}

/* Lets twice the time pass that has passed since `begun_ns`. */
static void outlast(uint64_t begun_ns)
{
    uint64_t now = coxi_now_ns();
    uint64_t until = now + 2 * (now - begun_ns) + (uint64_t)LEAST_MS * 1000000;
    coxi_test_until(is_past, &until, "the time");
}

static struct cox_profile profile_of(struct crew *crew)
{
    struct cox_profile profile = COX_PROFILE_INIT;
    assert_code(0, cox_profile(crew->c, NULL, &profile));
    return profile;
}

static void assert_bound(struct crew *crew, enum cox_bound bound, const char *word,
                         const char *advice)
{
    struct cox_profile profile = profile_of(crew);
    if (profile.bound != (int)bound || strstr(profile.advice, word) != profile.advice ||
        strstr(profile.advice, advice) == NULL) {
        fail_msg("bound by %d: %s", profile.bound, profile.advice);
    }
    assert_true(profile.step.sum_us >=
                profile.data.sum_us + profile.pull.sum_us + profile.compute.sum_us);
}

static void open_one(struct crew *crew, const char *module)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 1;
    options.peer_timeout_ms = PATIENT_MS;
    options.speculate = -1;
    crew_open(crew, 1, 1, module, &options);
}

TEST(a_step_that_computes_for_long_bounds_its_run)
{
    struct crew crew;
    struct crew_hold hold;
    open_one(&crew, "hold");
    uint64_t begun_ns = coxi_now_ns();
    crew_hold(&hold, &crew, "hold", false);
    crew_hold_wait(&hold);
    outlast(begun_ns);
    crew_hold_release(&hold);
    assert_code(0, cox_join(crew.c, -1));
    assert_bound(&crew, COX_BOUND_COMPUTE, "compute-bound: ", "add workers");
    crew_close(&crew);
}

TEST(a_step_that_waits_for_a_stopped_ps_is_bound_by_it)
{
    struct crew crew;
    struct crew_hold hold;
    open_one(&crew, "hold");
    (void)crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    uint64_t begun_ns = coxi_now_ns();
    crew_hold(&hold, &crew, "hold_and_carry", false);
    crew_hold_wait(&hold);
    pid_t ps = crew_ps_process(&crew, 0);
    crew_stop(ps);
    crew_hold_release(&hold);
    outlast(begun_ns);
    assert_int_equal(0, kill(ps, SIGCONT));
    assert_code(0, cox_join(crew.c, -1));
    assert_bound(&crew, COX_BOUND_PS, "ps-bound: ", "add ps");
    assert_true(profile_of(&crew).pull.p99_us >= LEAST_MS * 900);
    crew_close(&crew);
}

/* ---- a file that the client reads for its workers, and that can be held */

static atomic_bool is_held;
static atomic_bool is_wanted;

int __real_coxi_source_open(const char *name, struct coxi_source *ret);
int __wrap_coxi_source_open(const char *name, struct coxi_source *ret);

int __wrap_coxi_source_open(const char *name, struct coxi_source *ret)
{
    atomic_store(&is_wanted, true);
    while (atomic_load(&is_held)) {
        (void)sched_yield();
    }
    return __real_coxi_source_open(name, ret);
}

static bool file_is_wanted(void *arg)
{
    (void)arg;
    return atomic_load(&is_wanted);
}

TEST(a_step_that_waits_for_its_records_is_bound_by_data)
{
    struct rows rows;
    struct cox_future *future;
    struct cox_dataset_spec spec = rows_spec();
    spec.source = COX_SOURCE_CLIENT;
    rows_open(&rows, 1, NULL, &spec);
    atomic_store(&is_held, true);
    atomic_store(&is_wanted, false);
    uint64_t begun_ns = coxi_now_ns();
    assert_code(0, rows_next(&rows, "count_first", &future));
    coxi_test_until(file_is_wanted, NULL, "the step to want its records");
    outlast(begun_ns);
    atomic_store(&is_held, false);
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    assert_bound(&rows.crew, COX_BOUND_DATA, "data-bound: ", "faster disk");
    rows_close(&rows);
}

TEST(a_program_that_schedules_late_is_bound_by_latency)
{
    struct crew crew;
    open_one(&crew, "hold");
    uint64_t begun_ns = coxi_now_ns();
    crew_schedule(&crew, crew_function(&crew, "nothing"), 1, 0);
    assert_code(0, cox_join(crew.c, -1));
    outlast(begun_ns);
    crew_schedule(&crew, crew_function(&crew, "nothing"), 1, 0);
    assert_code(0, cox_join(crew.c, -1));
    assert_bound(&crew, COX_BOUND_LATENCY, "latency-bound: ", "schedule more");
    assert_true(profile_of(&crew).idle_us >= LEAST_MS * 1000);
    crew_close(&crew);
}

/* ---- the rule */

static void assert_rule(enum cox_bound bound, const struct coxi_part_sums *sums,
                        const char *part)
{
    char text[320];
    assert_int_equal(bound, coxi_profile_bound(sums, text, sizeof(text)));
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' lacks '%s'", text, part);
    }
}

TEST(the_longest_part_of_the_slots_time_bounds_the_run)
{
    struct coxi_part_sums sums = {.n = 1};
    assert_rule(COX_BOUND_UNKNOWN, &sums, "");
    sums.part_us[COXI_PART_COMPUTE] = 40;
    assert_rule(COX_BOUND_COMPUTE, &sums, "for 100 % of their time");
    sums.part_us[COXI_PART_PULL] = 30;
    sums.blocked_us = 20; /* commits are the ps's, too */
    assert_rule(COX_BOUND_PS, &sums, "for 56 % of their time (compute 44 %, ps 56 %");
    sums.part_us[COXI_PART_DATA] = 60;
    assert_rule(COX_BOUND_DATA, &sums, "data 40 %");
    sums.idle_us = 100;
    assert_rule(COX_BOUND_LATENCY, &sums, "give each closure more work");
    sums.starved_us = 51;
    assert_rule(COX_BOUND_LATENCY, &sums, "schedule more closures");
    sums.part_us[COXI_PART_COMMIT] = 1000; /* no slot waits for it */
    assert_rule(COX_BOUND_LATENCY, &sums, "schedule more closures");
}

TEST(short_steps_that_wait_for_the_ps_should_have_more_work)
{
    struct coxi_part_sums sums = {.n = 10};
    sums.part_us[COXI_PART_PULL] = 9990;
    assert_rule(COX_BOUND_PS, &sums, "give each more work");
    sums.part_us[COXI_PART_PULL] = 10000;
    assert_rule(COX_BOUND_PS, &sums, "idle 0 %): add ps, pull fewer rows");
}

/* ---- what others read */

static json_t *json_of(struct crew *crew)
{
    struct coxi_buffer out = {0};
    assert_code(0, coxi_buffer_append_raw(&out, "{", 1));
    assert_code(0, coxi_profile_json(crew->c, &out));
    assert_code(0, coxi_buffer_append_raw(&out, "}", 1));
    json_t *json = json_loadb((const char *)out.data, out.len, 0, NULL);
    coxi_buffer_fini(&out);
    assert_non_null(json);
    return json;
}

TEST(profiles_are_told_for_each_function)
{
    enum { CARRIES = 5, NOTHINGS = 2 };
    struct crew crew;
    struct cox_profile profile = COX_PROFILE_INIT;
    open_one(&crew, "hold");
    (void)crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    assert_int_equal(COX_BOUND_UNKNOWN, profile_of(&crew).bound);
    json_t *json = json_of(&crew);
    assert_int_equal(0, json_object_size(json_object_get(json, "profile")));
    assert_string_equal("", json_string_value(json_object_get(json, "bound")));
    json_decref(json);
    crew_schedule(&crew, crew_function(&crew, "carry"), CARRIES, 0);
    crew_schedule(&crew, crew_function(&crew, "nothing"), NOTHINGS, 0);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(CARRIES + NOTHINGS, profile_of(&crew).steps);
    assert_code(0, cox_profile(crew.c, crew_function(&crew, "nothing"), &profile));
    assert_int_equal(NOTHINGS, profile.steps);
    assert_int_equal(0, profile.pull.sum_us);
    assert_int_equal(0, profile.commit.sum_us);
    assert_code(0, cox_profile(crew.c, crew_function(&crew, "carry"), &profile));
    assert_int_equal(CARRIES, profile.steps);
    assert_true(profile.commit.sum_us > 0);
    assert_true(profile.step.p50_us <= profile.step.p99_us);
    json = json_of(&crew);
    json_t *all = json_object_get(json, "profile");
    assert_int_equal(2, json_object_size(all));
    json_t *carry = json_object_get(all, "carry");
    static const char *const names[] = {"n",          "step_us",   "data_us", "pull_us",
                                        "compute_us", "commit_us", "p50_us",  "p99_us"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_true(json_is_integer(json_object_get(carry, names[i])));
    }
    assert_int_equal(CARRIES, json_integer_value(json_object_get(carry, "n")));
    assert_true(json_string_length(json_object_get(json, "bound")) > 0);
    json_decref(json);
    assert_code(COX_EINVAL, cox_profile(NULL, NULL, &profile));
    crew_close(&crew);
}

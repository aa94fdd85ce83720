/* Flushes: what a step sees after one, which updates are in which segment, and the
 * reports to the client. */
#include <string.h>

#include "tests/steps/follow.h"
#include "tests/test.h"
#include "tests/worker/rig.h"

enum { N_PS = 3 };

static void open_with_counters(struct rig *rig, uint32_t n_slots,
                               uint32_t commit_window, uint32_t counters[N_PS])
{
    static const char *const names[] = {"c0", "c1", "c2"};
    rig_open(rig, N_PS, n_slots, commit_window);
    for (uint32_t p = 0; p < N_PS; p++) {
        counters[p] = rig_counter(rig, names[p], p);
    }
}

static void push(struct rig *rig, uint64_t closure, uint32_t attempt,
                 const int64_t *script, size_t n)
{
    const struct cox_value arg = COX_VECTOR("script", COX_I64, n, script);
    rig_push(rig, closure, attempt, "follow", &arg, 1);
}

/* Runs a script alone. */
#define FOLLOW(rig, closure, attempt, code, ...)                                       \
    follow((rig), (closure), (attempt), (code), (const int64_t[]){__VA_ARGS__},        \
           sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static struct rig_done follow(struct rig *rig, uint64_t closure, uint32_t attempt,
                              int code, const int64_t *script, size_t n)
{
    push(rig, closure, attempt, script, n);
    return rig_expect(rig, closure, code);
}

static void assert_counters(struct rig *rig, const uint32_t counters[N_PS], int64_t c0,
                            int64_t c1, int64_t c2)
{
    assert_int_equal(c0, rig_read(rig, counters[0]));
    assert_int_equal(c1, rig_read(rig, counters[1]));
    assert_int_equal(c2, rig_read(rig, counters[2]));
}

/* ---- what a ps has applied, as text: "0:1,2 1!:1" is segment 0, which touched ps 1 and
 * 2, and segment 1, the last, which touched ps 1 */

static void tell(void *arg, const struct coxi_message *answer)
{
    char *text = arg;
    const struct coxi_voided *voided = &answer->voided;
    size_t touched = 0;
    text[0] = '\0';
    for (size_t i = 0; i < voided->n_segments; i++) {
        const struct coxi_voided_segment *segment = &voided->segments[i];
        (void)sprintf(text + strlen(text), "%s%u%s", i > 0 ? " " : "", segment->segment,
                      segment->last ? "!" : "");
        for (uint32_t k = 0; k < segment->touched_n; k++) {
            (void)sprintf(text + strlen(text), "%s%u", k > 0 ? "," : ":",
                          voided->touched[touched++]);
        }
    }
}

static void assert_applied(struct rig *rig, uint32_t ps, uint64_t closure,
                           const char *expected)
{
    char text[256];
    struct coxi_psc_request request = {0};
    struct coxi_message message = {.kind = COXI_VOID};
    message.void_ =
        (struct coxi_void){rig->session, closure, 0,
                           coxi_psc_incarnation(rig->client[ps])}; /* refuses nothing */
    assert_code(
        0, coxi_psc_call(rig->client[ps], &message, &request, COXI_VOIDED, tell, text));
    assert_string_equal(expected, text);
}

/* ---- the effects of a flush */

TEST(flush_lets_a_step_see_what_it_has_written)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    struct rig_done done = FOLLOW(&rig, 1, 1, 0, 0, FOLLOW_PULL);
    assert_int_equal(0, rig_result(&done, "seen"));
    done = FOLLOW(&rig, 2, 1, 0, 0, FOLLOW_FLUSH, FOLLOW_PULL, 0);
    assert_int_equal(2, rig_result(&done, "seen"));
    assert_counters(&rig, counters, 3, 0, 0);
    rig_close(&rig);
}

TEST(flush_ends_a_segment_and_the_return_the_last_one)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    struct rig_done done = FOLLOW(&rig, 1, 1, 0, 0, 1, FOLLOW_FLUSH, 2);
    const uint32_t all[] = {0, 1, 2};
    assert_int_equal(3, done.head.touched_n);
    assert_memory_equal(all, done.touched, sizeof(all));
    assert_applied(&rig, 0, 1, "0:0,1");
    assert_applied(&rig, 1, 1, "0:0,1");
    assert_applied(&rig, 2, 1, "1!:2");
    assert_counters(&rig, counters, 1, 1, 1);
    rig_close(&rig);
}

TEST(step_that_touches_nothing_after_its_flush_has_an_empty_last_segment)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    struct rig_done done = FOLLOW(&rig, 1, 1, 0, 1, 2, FOLLOW_FLUSH);
    assert_int_equal(2, done.head.touched_n);
    assert_int_equal(1, done.touched[0]);
    assert_int_equal(2, done.touched[1]);
    assert_applied(&rig, 0, 1, "");
    assert_applied(&rig, 1, 1, "0:1,2 1!:1");
    assert_applied(&rig, 2, 1, "0:1,2");
    assert_counters(&rig, counters, 0, 1, 1);
    rig_close(&rig);
}

TEST(flush_of_nothing_is_none)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    (void)FOLLOW(&rig, 1, 1, 0, FOLLOW_FLUSH, 0, FOLLOW_FLUSH, FOLLOW_FLUSH, 1);
    assert_applied(&rig, 0, 1, "0:0");
    assert_applied(&rig, 1, 1, "1!:1");
    struct rig_done done = FOLLOW(&rig, 2, 1, 0, FOLLOW_FLUSH);
    assert_int_equal(0, done.head.touched_n);
    assert_applied(&rig, 0, 2, "");
    rig_close(&rig);
}

TEST(step_that_fails_after_a_flush_tells_what_that_touched_and_runs_again_to_count_once)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    struct rig_done done =
        FOLLOW(&rig, 1, 1, COX_ESTEP, 0, 1, FOLLOW_FLUSH, 2, FOLLOW_FAIL);
    assert_int_equal(42, done.head.step_code);
    assert_string_equal("line 7 is odd", done.result);
    assert_int_equal(2, done.head.touched_n);
    assert_int_equal(0, done.touched[0]);
    assert_int_equal(1, done.touched[1]);
    assert_counters(&rig, counters, 1, 1, 0);
    done = FOLLOW(&rig, 1, 2, 0, 0, 1, FOLLOW_FLUSH, FOLLOW_PULL, 2);
    assert_int_equal(1, rig_result(&done, "seen"));
    assert_int_equal(3, done.head.touched_n);
    assert_counters(&rig, counters, 1, 1, 1);
    rig_close(&rig);
}

/* ---- flushes that fail */

TEST(step_whose_flush_has_failed_cannot_succeed_any_more)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    rig.incarnations[1]++;
    assert_code(0, rig_layout(&rig));
    struct rig_done done =
        FOLLOW(&rig, 1, 1, COX_EPSLOST, 0, 1, FOLLOW_FLUSH_BLINDLY, 2);
    assert_non_null(strstr(done.result, "ps 1"));
    assert_int_equal(2, done.head.touched_n); /* ps 0 may have it */
    assert_counters(&rig, counters, 1, 0, 0);
    done = FOLLOW(&rig, 2, 1, COX_EPSLOST, 1, FOLLOW_FLUSH_BLINDLY, 2,
                  FOLLOW_FLUSH_BLINDLY, FOLLOW_FAIL);
    assert_int_equal(1, done.head.touched_n);
    assert_counters(&rig, counters, 1, 0, 0);
    rig_close(&rig);
}

TEST(attempt_that_flushes_elsewhere_than_the_one_before_has_diverged)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    (void)FOLLOW(&rig, 1, 1, 0, 0, FOLLOW_FLUSH, 1);
    struct rig_done done = FOLLOW(&rig, 1, 2, COX_EDIVERGED, 0, 1, FOLLOW_FLUSH, 2);
    assert_int_equal(COX_EDIVERGED, done.head.step_code);
    (void)FOLLOW(&rig, 2, 1, 0, 0, FOLLOW_FLUSH, 0);
    /* its only segment differs from the first attempt's first one */
    (void)FOLLOW(&rig, 2, 2, COX_EDIVERGED, 0, 0);
    /* Ps 1 alone could not know: it had only another segment of closure 1. */
    assert_counters(&rig, counters, 3, 2, 0);
    rig_close(&rig);
}

TEST(flush_sends_nothing_of_an_update_that_was_refused)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    struct rig_done done =
        FOLLOW(&rig, 1, 1, COX_ESTEP, 0, FOLLOW_SPOIL, FOLLOW_FLUSH, 1);
    assert_int_equal(COX_EINVAL, done.head.step_code);
    assert_int_equal(0, done.head.touched_n);
    assert_counters(&rig, counters, 0, 0, 0);
    rig_close(&rig);
}

/* Adds 1 to c0 and flushes, n times, and then once more without. */
static struct rig_done flush_often(struct rig *rig, uint64_t closure, size_t n,
                                   int code)
{
    static int64_t script[2 * COXI_SEGMENTS_MAX + 2];
    for (size_t i = 0; i <= n; i++) {
        script[2 * i] = 0;
        script[2 * i + 1] = FOLLOW_FLUSH;
    }
    return follow(rig, closure, 1, code, script, 2 * n + 1);
}

TEST(step_flushes_as_often_as_there_are_segments_before_the_last)
{
    struct rig rig;
    uint32_t counters[N_PS];
    open_with_counters(&rig, 1, 1, counters);
    (void)flush_often(&rig, 1, COXI_SEGMENTS_MAX - 1, 0);
    assert_counters(&rig, counters, COXI_SEGMENTS_MAX, 0, 0);
    struct rig_done done = flush_often(&rig, 2, COXI_SEGMENTS_MAX, COX_ESTEP);
    assert_int_equal(COX_ELIMIT, done.head.step_code);
    assert_int_equal(1, done.head.touched_n);
    rig_close(&rig);
}

/* ---- many */

static void flush_many(uint32_t n_slots, uint32_t commit_window)
{
    enum { N = 300 };
    struct rig rig;
    uint32_t counters[N_PS];
    int64_t expected[N_PS] = {0};
    open_with_counters(&rig, n_slots, commit_window, counters);
    for (int64_t id = 1; id <= N; id++) {
        const int64_t script[] = {id % 3, FOLLOW_FLUSH, (id + 1) % 3,
                                  id % 3, FOLLOW_FLUSH, (id / 3) % 3};
        size_t n = id % 5 == 0 ? 2 : 6; /* one in five flushes and then ends */
        push(&rig, (uint64_t)id, 1, script, n);
        for (size_t i = 0; i < n; i++) {
            if (script[i] >= 0) {
                expected[script[i]]++;
            }
        }
    }
    for (int i = 0; i < N; i++) {
        struct rig_done done = rig_next(&rig);
        assert_int_equal(0, done.head.code);
    }
    assert_counters(&rig, counters, expected[0], expected[1], expected[2]);
    rig_close(&rig);
}

TEST(steps_that_flush_count_exactly_with_one_commit_under_way_at_a_time)
{
    flush_many(1, 1);
}

TEST(steps_that_flush_count_exactly_on_more_slots_than_the_window_has_places)
{
    flush_many(4, 1);
}

TEST(steps_that_flush_count_exactly_with_a_wide_window)
{
    flush_many(2, 256);
}

/* A worker tells the ps of which versions the values were that its steps have pulled. */
#include <string.h>

#include "tests/common/histogram.h"
#include "tests/test.h"
#include "tests/worker/counted.h"
#include "tests/worker/gate.h"

enum { N_PS = 2, D = 0, T = 1, FLUSHES = 3 };

static const int64_t yes = 1;

/* A dense variable "d" with two rows on each ps, and a table "t". */
static void open_rig(struct rig *rig)
{
    rig_open(rig, N_PS, 1, 16);
    const struct coxi_variable dense = dense_of("d", 4, 2);
    const struct coxi_variable table = table_of("t", 2);
    assert_int_equal(D, rig_create(rig, &dense, 0, N_PS));
    assert_int_equal(T, rig_create(rig, &table, 0, 0));
    assert_code(0, rig_layout(rig));
    assert_code(0, rig_load(rig, 1, "stale", true));
}

static void take(void *arg, const struct coxi_message *answer)
{
    *(struct coxi_histogram *)arg = answer->counts.stale;
}

/* What a ps has counted of a variable. */
static struct coxi_histogram seen(struct rig *rig, uint32_t ps,
                                  enum coxi_stale_of stale_of, uint32_t index)
{
    struct coxi_histogram histogram;
    struct coxi_psc_request request = {.answer_len = 0};
    struct coxi_message message = {.kind = COXI_COUNT};
    message.count = (struct coxi_count){.stale_of = stale_of, .index = index};
    assert_code(0, coxi_psc_call(rig->client[ps], &message, &request, COXI_COUNTS, take,
                                 &histogram));
    return histogram;
}

/* Asserts that a ps has counted `n` gradients of a variable with this sum. */
static void assert_seen(struct rig *rig, uint32_t ps, uint32_t variable, uint64_t n,
                        uint64_t sum)
{
    struct coxi_histogram h = seen(rig, ps, COXI_STALE_VARIABLE, variable);
    assert_int_equal(n, histogram_total(&h));
    assert_int_equal(sum, h.sum);
}

static struct call train(const char *variable, const int64_t *flushes)
{
    struct call call = {.n = 0};
    call_text(&call, "variable", variable);
    call_number(&call, "flushes", flushes);
    return call;
}

/* The sum of 0 to n. */
static uint64_t sum_to(uint64_t n)
{
    return n * (n + 1) / 2;
}

TEST(commits_tell_the_versions_of_what_was_pulled)
{
    static const uint64_t rows[2] = {3, 0}; /* one on each ps */
    static const int64_t flushes = FLUSHES;
    static const int64_t one = 1;
    static const int64_t cached = COX_PULL_CACHED;
    struct rig rig;
    uint64_t closure = 1;
    open_rig(&rig);
    /* All rows, pulled at once, begun first, and cached; then listed rows. */
    for (uint64_t i = 0; i < 4; i++) {
        struct call call = train("d", &flushes);
        if (i == 1) {
            call_number(&call, "begun", &yes);
        } else if (i == 2) {
            call_number(&call, "flags", &cached);
        } else if (i == 3) {
            call_vector(&call, "keys", COX_I64, 2, rows);
        }
        for (uint64_t k = 0; k < 2; k++) {
            (void)call_run(&rig, closure++, "train", &call, 0);
            uint64_t n = 2 * i + k + 1;
            for (uint32_t ps = 0; ps < N_PS; ps++) {
                assert_seen(&rig, ps, D, n * (FLUSHES + 1), n * sum_to(FLUSHES));
            }
        }
    }
    struct call slice = train("d", &flushes); /* row 1, on the first ps */
    call_number(&slice, "begin", &one);
    call_number(&slice, "count", &one);
    (void)call_run(&rig, closure++, "train", &slice, 0);
    assert_seen(&rig, 0, D, 9 * (FLUSHES + 1), 9 * sum_to(FLUSHES));
    assert_seen(&rig, 1, D, 8 * (FLUSHES + 1), 8 * sum_to(FLUSHES));
    rig_close(&rig);
}

TEST(commits_tell_the_versions_of_tables)
{
    static const int64_t flushes = FLUSHES;
    struct rig rig;
    open_rig(&rig);
    uint64_t keys[N_PS] = {0}; /* one on each ps */
    for (uint32_t ps = 0; ps < N_PS; ps++) {
        while (coxi_key_ps(keys[ps], N_PS) != ps) {
            keys[ps]++;
        }
    }
    struct call call = train("t", &flushes);
    call_vector(&call, "keys", COX_I64, N_PS, keys);
    (void)call_run(&rig, 1, "train", &call, 0);
    struct call one = train("t", &flushes);
    call_vector(&one, "keys", COX_I64, 1, &keys[1]);
    (void)call_run(&rig, 2, "train", &one, 0);
    assert_seen(&rig, 0, T, FLUSHES + 1, sum_to(FLUSHES));
    assert_seen(&rig, 1, T, 2 * (FLUSHES + 1), 2 * sum_to(FLUSHES));
    assert_seen(&rig, 0, D, 0, 0);
    /* of this worker */
    struct coxi_histogram h = seen(&rig, 1, COXI_STALE_WORKER, rig.run->options.worker);
    assert_int_equal(2 * sum_to(FLUSHES), h.sum);
    h = seen(&rig, 1, COXI_STALE_WORKER, rig.run->options.worker + 1);
    assert_int_equal(0, h.counts[0]);
    rig_close(&rig);
}

TEST(the_last_pull_of_a_step_counts_and_none_of_another_step)
{
    static const int64_t flushes = FLUSHES;
    struct rig rig;
    open_rig(&rig);
    struct call again = train("d", &flushes);
    call_number(&again, "again", &yes);
    (void)call_run(&rig, 1, "train", &again, 0);
    assert_seen(&rig, 0, D, FLUSHES + 1, sum_to(FLUSHES - 1));
    struct call unpulled = train("d", &flushes);
    call_number(&unpulled, "unpulled", &yes);
    (void)call_run(&rig, 2, "train", &unpulled, 0);
    assert_seen(&rig, 0, D, FLUSHES + 1, sum_to(FLUSHES - 1));
    rig_close(&rig);
}

/* Runs a step that pushes ones FLUSHES + 1 times, after one pull; returns the value of
 * the row that it names `row` (of a table: of that key). */
static float compensate(struct rig *rig, uint64_t closure, const char *variable,
                        const struct call *call, uint64_t row)
{
    float value = 0;
    (void)call_run(rig, closure, "train", call, 0);
    call_pull(rig, closure + 1, variable, &row, 1, &value, 1);
    return value;
}

/* Creates another variable with SGD at rate 1, whose gradients are compensated by a
 * half. */
static void create_compensated(struct rig *rig, struct coxi_variable variable,
                               uint32_t n_shards)
{
    variable.staleness.compensation = 0.5F;
    (void)rig_create(rig, &variable, 0, n_shards);
    assert_code(0, rig_layout(rig));
}

TEST(compensated_gradients_take_along_what_was_pulled)
{
    static const int64_t flushes = FLUSHES;
    static const uint64_t keys[3] = {3, 0, 1};
    static const uint64_t others[5] = {0, 2, 1, 3, 0};
    static const uint64_t few[2] = {3, 0};
    static const int64_t one = 1;
    /* each gradient is 1 + w / 2, and moves w there from -2 by half of the way */
    const float compensated = -2 + 1.0F / 8;
    const float plain = -(FLUSHES + 1);
    static const char *const names[] = {"all",    "keys",       "table", "other",
                                        "tables", "slice",      "begun", "few",
                                        "none",   "accumulated"};
    enum { N = sizeof(names) / sizeof(*names) };
    for (size_t i = 0; i < N; i++) {
        struct rig rig;
        bool is_table = strncmp(names[i], "table", 5) == 0;
        open_rig(&rig);
        create_compensated(&rig, is_table ? table_of("c", 2) : dense_of("c", 4, 2),
                           is_table ? 0 : N_PS);
        struct call call = train("c", &flushes);
        uint64_t row = 0;
        if (i == 1 || i == 2 || i == 3 || i == 4 || i >= 7) {
            call_vector(&call, "keys", COX_I64, 3, keys);
        }
        if (i == 3 || i == 4) {
            call_vector(&call, "pulled", COX_I64, 5, others);
        } else if (i == 5) {
            call_number(&call, "begin", &one);
            call_number(&call, "count", &one);
            call_number(&call, "pull_all", &yes);
            row = 1;
        } else if (i == 6) {
            call_number(&call, "begun", &yes);
        } else if (i == 7) {
            call_vector(&call, "pulled", COX_I64, 2, few);
            row = 1; /* it was not pulled, nor was all of what its ps gets */
        } else if (i == 8) {
            call_number(&call, "unpulled", &yes);
        } else if (i == 9) {
            call_number(&call, "accumulated", &yes);
        }
        float found = compensate(&rig, 1, "c", &call, row);
        if (found != (i < 7 ? compensated : plain)) {
            fail_msg("%s: %g", names[i], (double)found);
        }
        rig_close(&rig);
    }
}

TEST(gradients_that_overflow_take_their_versions_along)
{
    struct rig rig;
    open_rig(&rig);
    const struct coxi_variable scale = scale_of_8();
    (void)rig_create(&rig, &scale, 0, 1);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    assert_code(0, rig_layout(&rig));
    const struct call none = {.n = 0};
    (void)call_run(&rig, 1, "overflow", &none, 0);
    assert_int_equal(1, rig_read(&rig, counter));
    assert_seen(&rig, 0, D, 0, 0);
    rig_close(&rig);
}

TEST(an_accumulated_gradient_is_as_stale_as_its_oldest_part)
{
    static const int64_t flushes = 1;
    const struct call train_twice = train("d", &flushes);
    struct call call = {.n = 0};
    struct rig rig;
    const char *gate = gate_make("gate");
    rig_open(&rig, N_PS, 2, 16);
    const struct coxi_variable dense = dense_of("d", 4, 2);
    assert_int_equal(D, rig_create(&rig, &dense, 0, N_PS));
    assert_code(0, rig_load(&rig, 1, "stale", true));
    call_text(&call, "path", gate);
    rig_push(&rig, 1, 1, "hold_and_accumulate", call.args, call.n);
    int fd = gate_pass(gate);
    (void)call_run(&rig, 2, "train", &train_twice,
                   0); /* counts 2, of which 1 is stale */
    gate_release(fd);
    (void)rig_expect(&rig, 1, 0);
    for (uint32_t ps = 0; ps < N_PS; ps++) {
        assert_seen(&rig, ps, D, 3, 1 + 2); /* it has missed both, and pulled again */
    }
    rig_close(&rig);
}

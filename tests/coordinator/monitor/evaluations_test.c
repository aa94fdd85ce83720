/* What evaluators report becomes records of the history, once. */
#include "coordinator/monitor/evaluations.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/test.h"

struct taken {
    struct coxi_evaluations *evaluations;
    struct coxi_records *records;
    unsigned numbers[16]; /* of the checkpoints that were evaluated */
    size_t n;
};

static void taken_open(struct taken *taken)
{
    *taken = (struct taken){0};
    assert_code(0, coxi_records_new(true, &taken->records));
    assert_code(
        0, coxi_evaluations_new(coxi_test_dir(), taken->records, &taken->evaluations));
}

static void taken_close(struct taken *taken)
{
    coxi_evaluations_free(taken->evaluations);
    coxi_records_free(taken->records);
}

static void note(void *arg, const struct coxi_record *record)
{
    struct taken *taken = arg;
    coxi_evaluations_note(taken->evaluations, record);
    if (record->kind == COXI_RECORD_EVAL) {
        assert_true(taken->n < 16);
        taken->numbers[taken->n++] = (unsigned)coxi_record_count(record, "checkpoint");
    }
}

static void take(struct taken *taken)
{
    uint64_t lost;
    taken->n = 0;
    coxi_evaluations_take(taken->evaluations);
    coxi_records_take(taken->records, note, taken, &lost);
    assert_int_equal(0, lost);
}

/* Makes the file anew, with evaluations of checkpoints from `first` on. */
static void report(unsigned first, unsigned n)
{
    char text[1024];
    size_t len = 0;
    for (unsigned i = 0; i < n; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "{\"checkpoint\": %u, \"auc\": 0.5}\n", first + i);
    }
    coxi_test_write(coxi_test_path("eval.jsonl"), text, len);
}

static void assert_taken(const struct taken *taken, unsigned first, size_t n)
{
    assert_int_equal(n, taken->n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(first + i, taken->numbers[i]);
    }
}

TEST(each_line_is_taken_over_once)
{
    struct taken taken;
    taken_open(&taken);
    take(&taken);
    assert_taken(&taken, 0, 0);
    report(1, 2);
    take(&taken);
    assert_taken(&taken, 1, 2);
    take(&taken);
    assert_taken(&taken, 0, 0);
    report(1, 3);
    take(&taken);
    assert_taken(&taken, 3, 1);
    taken_close(&taken);
}

TEST(a_file_that_is_shorter_now_is_read_from_its_beginning)
{
    struct taken taken;
    taken_open(&taken);
    report(1, 5);
    take(&taken);
    report(6, 2);
    take(&taken);
    assert_taken(&taken, 6, 2);
    report(6, 3);
    take(&taken);
    assert_taken(&taken, 8, 1);
    taken_close(&taken);
}

TEST(a_file_that_was_removed_is_read_from_its_beginning_when_there_is_another)
{
    struct taken taken;
    taken_open(&taken);
    report(1, 2);
    take(&taken);
    assert_int_equal(0, unlink(coxi_test_path("eval.jsonl")));
    take(&taken);
    assert_taken(&taken, 0, 0);
    report(3, 4);
    take(&taken);
    assert_taken(&taken, 3, 4);
    taken_close(&taken);
}

static void load(struct taken *taken, const char *fields)
{
    const struct coxi_record record = {.kind = COXI_RECORD_EVAL, .fields = fields};
    coxi_evaluations_load(taken->evaluations, &record);
}

/* The last record tells where, also if the file was replaced by a shorter one. */
TEST(the_next_client_goes_on_where_the_one_before_was)
{
    struct taken taken;
    taken_open(&taken);
    report(1, 3); /* lines of 30 bytes */
    load(&taken, "\"checkpoint\":7,\"offset\":3000");
    load(&taken, "\"checkpoint\":1,\"offset\":30");
    take(&taken);
    assert_taken(&taken, 2, 2);
    taken_close(&taken);
}

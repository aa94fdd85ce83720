/* See rounding.h. */
#include "tests/coordinator/rounding.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/test.h"

enum { ARGS = 6 };

void rounding_open(struct rounding *s, int n_workers,
                   const struct cox_rounds_spec *spec, struct cox_options *options)
{
    crew_open(&s->crew, ROUNDING_PS, n_workers, "rounds", options);
    for (int i = 0; i < ROUNDING_PS; i++) {
        char name[16];
        struct cox_variable_spec variable = COX_VARIABLE_SPEC_INIT;
        (void)snprintf(name, sizeof(name), "w%d", i);
        variable.name = name;
        variable.dtype = COX_F32;
        variable.rank = 1;
        variable.shape[0] = 1;
        variable.optimizer.kind = COX_SGD;
        variable.optimizer.learning_rate = 1;
        assert_code(0, cox_variable_create(s->crew.c, &variable, &s->w[i]));
    }
    s->advance = crew_function(&s->crew, "advance");
    assert_code(0, cox_rounds_create(s->crew.c, spec, &s->rounds));
}

void rounding_open_sum(struct rounding *s, uint32_t staleness)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    spec.staleness = staleness;
    spec.reduce = COX_REDUCE_SUM;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    rounding_open(s, 2, &spec, &options);
}

float rounding_value(struct rounding *s, int i)
{
    float value;
    assert_code(0, cox_variable_read(s->crew.c, s->w[i], &value, sizeof(value)));
    return value;
}

void rounding_assert(struct rounding *s, float expected)
{
    for (int i = 0; i < ROUNDING_PS; i++) {
        if (rounding_value(s, i) != expected) {
            fail_msg("w%d is %g, not %g", i, (double)rounding_value(s, i),
                     (double)expected);
        }
    }
}

void rounding_start(struct rounding *s, const struct rounding_asked *asked,
                    struct rounding_members *ret)
{
    static const uint8_t yes = 1;
    const struct cox_input input = {"input", asked->input, "w0"};
    struct cox_value args[ROUNDING_MEMBERS][ARGS];
    struct cox_call calls[ROUNDING_MEMBERS];
    struct cox_round_call members[ROUNDING_MEMBERS];
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        size_t n = 0;
        if (asked->weights[i] != 0) {
            args[i][n++] =
                (struct cox_value)COX_SCALAR("weight", COX_F64, &asked->weights[i]);
        }
        if (asked->path[i] != NULL) {
            args[i][n++] = (struct cox_value)COX_VECTOR(
                "path", COX_U8, strlen(asked->path[i]) + 1, asked->path[i]);
        }
        if (asked->flush[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("flush", COX_U8, &yes);
        }
        if (asked->fail[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("fail", COX_U8, &yes);
        }
        if (asked->half[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("half", COX_U8, &yes);
        }
        if (asked->other[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("other", COX_U8, &yes);
        }
        if (asked->stray[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("stray", COX_U8, &yes);
        }
        calls[i] = (struct cox_call)COX_CALL_INIT;
        calls[i].cursor = asked->cursors[i];
        calls[i].keep = asked->keep[i];
        calls[i].args = args[i];
        calls[i].n_args = n;
        calls[i].only_worker = asked->only[i];
        calls[i].inputs = &input;
        calls[i].n_inputs = asked->input != NULL;
        members[i] = (struct cox_round_call){s->advance, &calls[i]};
    }
    assert_code(0, cox_round_schedule(s->rounds, members, ROUNDING_MEMBERS,
                                      ret != NULL ? ret->futures : NULL,
                                      ret != NULL ? &ret->end : NULL));
}

void rounding_plain(struct rounding *s, struct rounding_members *ret)
{
    rounding_start(s, &(struct rounding_asked){.weights = {0}}, ret);
}

void rounding_free(struct rounding_members *members)
{
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        cox_future_free(members->futures[i]);
    }
    cox_future_free(members->end);
}

void rounding_assert_ended(const struct rounding_members *members, int code)
{
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_code(code, cox_future_wait(members->futures[i], 10000));
    }
}

float rounding_seen(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, name, &value));
    return *(const float *)value.data;
}

struct cox_stats rounding_stats(struct rounding *s)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(s->crew.c, &stats));
    return stats;
}

const char *rounding_gate(void)
{
    static int n;
    char name[32];
    (void)snprintf(name, sizeof(name), "gate-%d", n++);
    const char *path = coxi_test_path(name);
    assert_int_equal(0, mkfifo(path, 0600));
    return path;
}

int rounding_meet(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

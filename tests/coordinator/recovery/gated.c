/* See gated.h. */
#include "tests/coordinator/recovery/gated.h"

#include "tests/test.h"

void gated_open(struct gated *s, int n_ps, int n_workers, const char *module,
                const struct cox_options *options)
{
    struct cox_options o = COX_OPTIONS_INIT;
    o = options != NULL ? *options : o;
    o.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&s->crew, n_ps, n_workers, "hold", &o);
    s->other = s->crew;
    if (module != NULL) {
        assert_code(
            0, cox_module_load(s->crew.c, coxi_test_module(module), &s->other.module));
    }
    s->c0 = crew_counter(&s->crew, "c0");
    s->c1 = n_ps > 1 ? crew_counter(&s->crew, "c1") : NULL;
    assert_code(0, cox_checkpoint_save(s->crew.c, NULL, NULL));
}

void gated_join(struct gated *s)
{
    assert_code(0, cox_join(s->crew.c, GATED_SOON_MS));
}

void gated_pass(struct gated *s)
{
    crew_hold(&s->gate, &s->crew, "hold_and_count", false);
    crew_hold_wait(&s->gate);
    crew_hold_release(&s->gate);
    gated_join(s);
}

void gated_assign(struct gated *s, struct cox_variable *counter, int64_t value)
{
    assert_code(0, cox_variable_assign(s->crew.c, counter, &value, sizeof(value)));
}

void gated_run_many(struct gated *s, const char *step, int n)
{
    crew_schedule(&s->crew, crew_function(&s->crew, step), n, 0);
    gated_join(s);
}

struct cox_stats gated_stats(struct gated *s)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(s->crew.c, &stats));
    return stats;
}

bool gated_have_recovered(void *arg)
{
    const struct gated_count *wanted = arg;
    return gated_stats(wanted->s).ps_recovered >= wanted->n;
}

static bool have_been_lost(void *arg)
{
    const struct gated_count *wanted = arg;
    return gated_stats(wanted->s).workers_lost >= wanted->n;
}

bool gated_are_ready(void *arg)
{
    const struct gated_count *wanted = arg;
    return gated_stats(wanted->s).workers_ready == wanted->n;
}

void gated_lose_ps(struct gated *s, int index, uint64_t n)
{
    struct gated_count wanted = {s, n};
    crew_kill(crew_ps_process(&s->crew, index));
    coxi_test_until(gated_have_recovered, &wanted, "a ps that has come back");
}

void gated_lose_worker(struct gated *s, int index, uint64_t n)
{
    struct gated_count wanted = {s, n};
    crew_kill(crew_step_process(&s->crew, index));
    coxi_test_until(have_been_lost, &wanted, "the loss of a worker");
}

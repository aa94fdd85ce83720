/* A client that goes on from a checkpoint sets the ps back to it, and loses one of them in the
 * middle. Linked so that giving ps what a checkpoint has (coordinator/recovery_internal.h) goes
 * through here. */
#include <stdatomic.h>

#include "tests/client/crew.h"
#include "tests/client/inside.h"
#include "tests/test.h"

enum { N_PS = 2 };

struct coxi_recovery_target;

static atomic_bool cuts;

int __real_coxi_recovery_fill(struct coxi_recovery *rec,
                              struct coxi_recovery_target *targets, size_t n);
int __wrap_coxi_recovery_fill(struct coxi_recovery *rec,
                              struct coxi_recovery_target *targets, size_t n);

/* The first time, ps 1 gets out of reach: its process stays. */
int __wrap_coxi_recovery_fill(struct coxi_recovery *rec,
                              struct coxi_recovery_target *targets, size_t n)
{
    if (atomic_exchange(&cuts, false)) {
        inside_cut_off(inside_recovers(rec), 1);
    }
    return __real_coxi_recovery_fill(rec, targets, n);
}

static void open_counting(struct crew *crew, struct cox_variable *counters[N_PS])
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.checkpoint_incremental = 10;
    crew_open(crew, N_PS, 1, "counter", &options);
    counters[0] = crew_counter(crew, "c0");
    counters[1] = crew_counter(crew, "c1");
}

static void count(struct crew *crew, int n)
{
    crew_schedule(crew, crew_function(crew, "count"), n, N_PS);
    assert_code(0, cox_join(crew->c, -1));
}

TEST(a_ps_that_is_out_of_reach_while_it_is_set_back_is_set_back_all_the_same)
{
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_counting(&crew, counters);
    count(&crew, 10);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    count(&crew, 5);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    atomic_store(&cuts, true);
    open_counting(&crew, counters);
    assert_false(atomic_load(&cuts));
    for (int i = 0; i < N_PS; i++) {
        assert_int_equal(15, crew_read(&crew, counters[i]));
    }
    count(&crew, 2);
    assert_int_equal(17, crew_read(&crew, counters[1]));
    crew_close(&crew);
}

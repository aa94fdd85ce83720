/*
 * A client that resumes sets the ps back to the checkpoint, and loses one of them
 * meanwhile. Calls of coxi_recovery_fill, and of coxi_ps_round_add, which sends its
 * requests, go through this file (ld --wrap).
 */
#include <stdatomic.h>

#include "coordinator/recovery/recovery_internal.h"
#include "net/ps_round.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

enum { N_PS = 2 };

static atomic_bool cuts; /* cut the connection before any request */
static atomic_bool
    cuts_chain; /* cut it when ps 0 has loaded the first file of a chain */
static struct cox_coordinator *opening;

__typeof__(coxi_recovery_fill) __real_coxi_recovery_fill, __wrap_coxi_recovery_fill;

/* The first time, cuts the connection to ps 1, whose process stays. */
int __wrap_coxi_recovery_fill(struct coxi_recovery *rec,
                              struct coxi_recovery_target *targets, size_t n)
{
    opening = rec->c;
    if (atomic_exchange(&cuts, false)) {
        inside_cut_off(opening, 1);
    }
    return __real_coxi_recovery_fill(rec, targets, n);
}

__typeof__(coxi_ps_round_add) __real_coxi_ps_round_add, __wrap_coxi_ps_round_add;

/* A ps restores in the order of requests, and ignores a repeated one. So when a
 * repeated request for the first file is answered, that file was loaded. */
static void await_first_file(struct coxi_psc *psc, const struct coxi_message *second)
{
    struct coxi_message first = *second;
    struct coxi_psc_request request = {0};
    first.restore.at = 0;
    assert_code(0, coxi_psc_call(psc, &first, &request, COXI_STATUS, NULL, NULL));
}

/* Cuts the connection to ps 0 between two files of the chain. */
void __wrap_coxi_ps_round_add(struct coxi_ps_round *round, struct coxi_psc *psc,
                              const struct coxi_message *message,
                              struct coxi_ps_round_call *call)
{
    if (message->kind == COXI_RESTORE && message->restore.at == 1 &&
        coxi_psc_index(psc) == 0 && atomic_exchange(&cuts_chain, false)) {
        await_first_file(psc, message);
        inside_cut_off(opening, 0);
    }
    __real_coxi_ps_round_add(round, psc, message, call);
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

/* ---- a chain of checkpoints */

static struct cox_variable *spread_variable(struct crew *crew)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *v;
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = N_PS;
    spec.shards = N_PS;
    assert_code(0, cox_variable_create(crew->c, &spec, &v));
    return v;
}

static void assign(struct crew *crew, struct cox_variable *v, int64_t value)
{
    const int64_t rows[N_PS] = {value, value};
    assert_code(0, cox_variable_assign(crew->c, v, rows, sizeof(rows)));
}

TEST(a_ps_that_was_given_only_a_part_of_a_chain_of_checkpoints_is_given_all_of_it)
{
    struct crew crew;
    struct cox_variable *counters[N_PS];
    int64_t rows[N_PS];
    open_counting(&crew, counters);
    struct cox_variable *v = spread_variable(&crew);
    assign(&crew, v, 1);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    assign(&crew, v, 2);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    atomic_store(&cuts_chain, true);
    open_counting(&crew, counters);
    assert_false(atomic_load(&cuts_chain));
    assert_code(0,
                cox_variable_read(crew.c, spread_variable(&crew), rows, sizeof(rows)));
    assert_int_equal(2, rows[0]);
    assert_int_equal(2, rows[1]);
    crew_close(&crew);
}

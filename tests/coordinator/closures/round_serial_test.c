/* Synchronous rounds against a serial program on the same examples, and against
 * themselves on other clusters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rand.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { DIM = 16, ROW = DIM + 1, BATCH = 8, MEMBERS = 4, ROUNDS = 500 };

static const float rate = 0.05F;

/* The examples of a closure. */
static void make_rows(uint64_t closure, float ret[BATCH * ROW])
{
    uint64_t state = closure * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < BATCH; i++) {
        float *row = &ret[(size_t)i * ROW];
        row[DIM] = 1;
        for (int k = 0; k < DIM; k++) {
            row[k] = (float)(2 * coxi_rand_unit(&state) - 1);
            row[DIM] += row[k] * (float)(k + 1) / DIM;
        }
    }
}

/* The same in one loop: the mean of the gradients of a round's closures. */
static void train_serially(double w[DIM])
{
    memset(w, 0, DIM * sizeof(*w));
    for (uint64_t r = 0; r < ROUNDS; r++) {
        double gradient[DIM] = {0};
        for (uint64_t m = 0; m < MEMBERS; m++) {
            float rows[BATCH * ROW];
            make_rows(r * MEMBERS + m, rows);
            for (int i = 0; i < BATCH; i++) {
                const float *row = &rows[(size_t)i * ROW];
                double error = -row[DIM];
                for (int k = 0; k < DIM; k++) {
                    error += w[k] * row[k];
                }
                for (int k = 0; k < DIM; k++) {
                    gradient[k] += 2 * error * row[k] / (BATCH * MEMBERS);
                }
            }
        }
        for (int k = 0; k < DIM; k++) {
            w[k] -= rate * gradient[k];
        }
    }
}

static void schedule(struct cox_rounds *rounds, struct cox_function *fit, uint64_t r)
{
    float rows[MEMBERS][BATCH * ROW];
    struct cox_value args[MEMBERS];
    struct cox_call calls[MEMBERS];
    struct cox_round_call members[MEMBERS];
    for (uint64_t m = 0; m < MEMBERS; m++) {
        make_rows(r * MEMBERS + m, rows[m]);
        args[m] = (struct cox_value)COX_VECTOR("rows", COX_F32, (uint64_t)BATCH * ROW,
                                               rows[m]);
        calls[m] = (struct cox_call)COX_CALL_INIT;
        calls[m].args = &args[m];
        calls[m].n_args = 1;
        members[m] = (struct cox_round_call){fit, &calls[m]};
    }
    assert_code(0, cox_round_schedule(rounds, members, MEMBERS, NULL, NULL));
}

static void train_in_rounds(int n_ps, int n_workers, float w[DIM])
{
    struct crew crew;
    struct cox_variable *variable;
    struct cox_rounds *rounds;
    struct cox_rounds_spec in_order = COX_ROUNDS_SPEC_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    crew_open(&crew, n_ps, n_workers, "rounds", NULL);
    spec.name = "w";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = DIM;
    spec.shards = (uint32_t)n_ps;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = rate;
    assert_code(0, cox_variable_create(crew.c, &spec, &variable));
    assert_code(0, cox_rounds_create(crew.c, &in_order, &rounds));
    for (uint64_t r = 0; r < ROUNDS; r++) {
        schedule(rounds, crew_function(&crew, "fit"), r);
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_variable_read(crew.c, variable, w, DIM * sizeof(*w)));
    crew_close(&crew);
}

TEST(rounds_train_like_a_serial_program_and_alike_on_every_cluster)
{
    static const int clusters[][2] = {{1, 1}, {1, 4}, {3, 2}};
    double expected[DIM];
    float first[DIM];
    train_serially(expected);
    train_in_rounds(1, 2, first);
    for (int k = 0; k < DIM; k++) {
        double difference = fabs(first[k] - expected[k]) / fabs(expected[k]);
        if (difference > 1e-6) {
            fail_msg("w[%d] is %.9g, not %.9g", k, (double)first[k], expected[k]);
        }
    }
    for (size_t i = 0; i < sizeof(clusters) / sizeof(clusters[0]); i++) {
        float w[DIM];
        train_in_rounds(clusters[i][0], clusters[i][1], w);
        assert_memory_equal(first, w, sizeof(w));
    }
}

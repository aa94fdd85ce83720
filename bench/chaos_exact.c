/* See chaos_exact.h. The optimizers' state is not read: it has gone into the values by the
 * end of the next round. */
#include "bench/chaos_exact.h"

#include <string.h>

#include "bench/chaos.h"
#include "bench/chaos_client.h"
#include "common/hash.h"

/* All values of the model. */
struct values {
    float dense[CHAOS_EXACT_WEIGHTS];
    float rows[CHAOS_EXACT_KEYS * CHAOS_EXACT_DIM];
};

int chaos_exact_create(struct chaos_client *client)
{
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec rows = COX_TABLE_SPEC_INIT;
    if (!client->config->deterministic) {
        return 0;
    }
    dense.name = CHAOS_EXACT;
    dense.dtype = COX_F32;
    dense.rank = 1;
    dense.shape[0] = CHAOS_EXACT_WEIGHTS;
    dense.shards = (uint32_t)client->config->ps;
    dense.initializer.kind = COX_UNIFORM;
    dense.initializer.a = -1;
    dense.initializer.b = 1;
    dense.optimizer.kind = COX_MOMENTUM;
    dense.optimizer.learning_rate = 0.05F;
    dense.optimizer.momentum = 0.9F;
    rows.name = CHAOS_EXACT_ROWS;
    rows.dim = CHAOS_EXACT_DIM;
    rows.initializer = dense.initializer;
    rows.optimizer.kind = COX_ADAGRAD;
    rows.optimizer.learning_rate = 0.05F;
    rows.optimizer.initial_accumulator = 0.1F;
    int r = cox_variable_create(client->c, &dense, &client->exact);
    return r != 0 ? r : cox_table_create(client->c, &rows, &client->exact_rows);
}

void chaos_exact_sum(struct chaos_client *client)
{
    static struct values values;
    uint32_t bits[sizeof(values) / sizeof(uint32_t)];
    uint64_t keys[CHAOS_EXACT_KEYS];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < CHAOS_EXACT_KEYS; i++) {
        keys[i] = i;
    }
    int r =
        cox_variable_read(client->c, client->exact, values.dense, sizeof(values.dense));
    r = r != 0 ? r
               : cox_table_read(client->c, client->exact_rows, keys, CHAOS_EXACT_KEYS,
                                values.rows);
    if (chaos_client_check(client, r) != 0) {
        return;
    }
    memcpy(bits, &values, sizeof(values));
    for (size_t i = 0; i < sizeof(bits) / sizeof(*bits); i++) {
        sum = coxi_hash_key(sum ^ bits[i]);
    }
    client->result.checksum = sum;
}

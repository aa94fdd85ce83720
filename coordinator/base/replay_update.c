/* See replay_update.h. */
#include "coordinator/base/replay_update.h"

#include <stdlib.h>
#include <string.h>

size_t coxi_replay_update_bytes(const struct coxi_variable *variable, enum coxi_op op,
                                uint64_t count)
{
    return op == COXI_OP_RATE ? sizeof(struct coxi_rate)
                              : count * coxi_variable_row_bytes(variable);
}

struct coxi_replay_update *coxi_replay_update_new(const struct coxi_variable *variable,
                                                  enum coxi_op op, uint64_t begin,
                                                  uint64_t count, const void *data)
{
    size_t bytes = coxi_replay_update_bytes(variable, op, count);
    struct coxi_replay_update *update = malloc(sizeof(*update) + bytes);
    if (update != NULL) {
        *update = (struct coxi_replay_update){variable, op, begin, count, bytes};
        if (bytes > 0) {
            memcpy(update->data, data, bytes);
        }
    }
    return update;
}

bool coxi_replay_update_is_on(const struct coxi_replay_update *update, uint32_t ps)
{
    const struct coxi_shard *shard = coxi_variable_shard(update->variable, ps);
    if (update->op == COXI_OP_RATE) {
        return update->variable->kind == COXI_KIND_TABLE || shard != NULL;
    }
    return shard != NULL &&
           coxi_shard_part(shard, update->begin, update->count).count > 0;
}

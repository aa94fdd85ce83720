/* What the client itself has written, as the replay log keeps it. Any thread. */
#ifndef COXI_COORDINATOR_BASE_REPLAY_UPDATE_H
#define COXI_COORDINATOR_BASE_REPLAY_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

/* An update of the client's own: `count` rows from `begin` on. A rate (COXI_OP_RATE)
 * has no rows, and is for every ps that has a part of the variable. */
struct coxi_replay_update {
    const struct coxi_variable *variable; /* lives until close */
    enum coxi_op op;
    uint64_t begin;
    uint64_t count;
    size_t bytes;
    uint8_t data[];
};

/* Makes an update; copies `data`. NULL: no memory. Free it with free(). */
struct coxi_replay_update *coxi_replay_update_new(const struct coxi_variable *variable,
                                                  enum coxi_op op, uint64_t begin,
                                                  uint64_t count, const void *data);

/* True if ps `ps` holds rows of the update, or must get the rate. */
bool coxi_replay_update_is_on(const struct coxi_replay_update *update, uint32_t ps);

/* Bytes of the data of an update of `count` rows. */
size_t coxi_replay_update_bytes(const struct coxi_variable *variable, enum coxi_op op,
                                uint64_t count);

#endif

/*
 * See copies.h. A copy is never older than its version says. If steps of several slots
 * pull a variable at the same time, the newest values stay.
 *
 * Cost: one copy of the values each way, under the lock of that variable.
 */
#include "worker/copies.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/sync.h"

struct held {
    uint64_t incarnation;
    uint64_t version;        /* 0: no values */
    struct coxi_sight sight; /* of a step that might have seen these values */
};

struct coxi_copy {
    struct coxi_copy *next;
    const struct coxi_variable *variable;
    size_t row_bytes;
    struct coxi_mutex lock; /* guards the rest; leaf */
    uint8_t *values;
    struct held shards[];
};

void coxi_copies_init(struct coxi_copies *copies, size_t bytes_max)
{
    *copies = (struct coxi_copies){.bytes_max = bytes_max};
    coxi_mutex_init(&copies->lock);
}

static void copy_free(struct coxi_copy *copy)
{
    if (copy != NULL) {
        coxi_mutex_fini(&copy->lock);
        free(copy->values);
        free(copy);
    }
}

void coxi_copies_fini(struct coxi_copies *copies)
{
    while (copies->first != NULL) {
        struct coxi_copy *copy = copies->first;
        copies->first = copy->next;
        copy_free(copy);
    }
    coxi_mutex_fini(&copies->lock);
}

static struct coxi_copy *copy_new(const struct coxi_variable *v)
{
    struct coxi_copy *copy =
        calloc(1, sizeof(*copy) + v->n_shards * sizeof(*copy->shards));
    if (copy == NULL) {
        return NULL;
    }
    coxi_mutex_init(&copy->lock);
    copy->variable = v;
    copy->row_bytes = coxi_variable_row_bytes(v);
    copy->values = coxi_aligned_new(coxi_variable_bytes(v));
    if (copy->values == NULL) {
        copy_free(copy);
        return NULL;
    }
    return copy;
}

struct coxi_copy *coxi_copies_add(struct coxi_copies *copies,
                                  const struct coxi_variable *v)
{
    size_t bytes = coxi_variable_bytes(v);
    struct coxi_copy *copy = NULL;
    coxi_lock(&copies->lock);
    if (bytes <= copies->bytes_max - copies->bytes) {
        copy = copy_new(v);
    }
    if (copy != NULL) {
        copies->bytes += bytes;
        copy->next = copies->first;
        copies->first = copy;
    }
    coxi_unlock(&copies->lock);
    return copy;
}

static uint8_t *shard_values(const struct coxi_copy *copy, size_t i, size_t *ret_len)
{
    const struct coxi_shard *shard = &copy->variable->shards[i];
    *ret_len = shard->count * copy->row_bytes;
    return copy->values + shard->begin * copy->row_bytes;
}

uint64_t coxi_copy_version(struct coxi_copy *copy, size_t i, uint64_t incarnation)
{
    coxi_lock(&copy->lock);
    struct held held = copy->shards[i];
    coxi_unlock(&copy->lock);
    return held.version != 0 && held.incarnation == incarnation ? held.version : 1;
}

uint64_t coxi_copy_take(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                        const struct coxi_sight *sight, void *to)
{
    size_t len;
    const uint8_t *values = shard_values(copy, i, &len);
    const struct held *held = &copy->shards[i];
    coxi_lock(&copy->lock);
    bool is_same = sight->view != 0 && held->sight.view == sight->view &&
                   held->sight.after == sight->after &&
                   held->incarnation == incarnation;
    uint64_t version = is_same ? held->version : 0;
    if (version != 0) {
        memcpy(to, values, len);
    }
    coxi_unlock(&copy->lock);
    return version;
}

bool coxi_copy_read(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                    const struct coxi_sight *sight, void *to)
{
    size_t len;
    const uint8_t *values = shard_values(copy, i, &len);
    coxi_lock(&copy->lock);
    bool is_there = copy->shards[i].incarnation == incarnation;
    if (is_there) {
        memcpy(to, values, len);
        copy->shards[i].sight = *sight;
    }
    coxi_unlock(&copy->lock);
    return is_there;
}

void coxi_copy_write(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                     uint64_t version, const struct coxi_sight *sight, const void *from)
{
    size_t len;
    uint8_t *values = shard_values(copy, i, &len);
    coxi_lock(&copy->lock);
    struct held *held = &copy->shards[i];
    if (held->incarnation != incarnation || held->version < version) {
        memcpy(values, from, len);
        *held = (struct held){incarnation, version, *sight};
    } else {
        held->sight = *sight; /* newer values show all that these do */
    }
    coxi_unlock(&copy->lock);
}

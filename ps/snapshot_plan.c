/* See snapshot_plan.h. Cost: a few hundred bytes for each tensor. */
#include "ps/snapshot_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"

/* ---- cuts */

static int cut_part(const struct coxi_part *part, struct coxi_planned *ret)
{
    *ret = (struct coxi_planned){.part = *part,
                                 .n_slots = part->layout.n_slots,
                                 .n_states = part->layout.n_slots + part->layout.n_row};
    if (part->table == NULL) {
        return coxi_dense_cut_new(part->dense, &ret->dense);
    }
    ret->dim = coxi_table_dim(part->variable);
    return coxi_table_cut_new(part->table, &ret->table);
}

int coxi_plan_cut(const struct coxi_store *store, struct coxi_plan *plan)
{
    int r = 0;
    plan->parts = calloc(store->n_parts + 1, sizeof(*plan->parts));
    if (plan->parts == NULL) {
        return coxi_error_memory("a snapshot");
    }
    for (size_t i = 0; r == 0 && i < store->n_parts; i++) {
        const struct coxi_part *part = &store->parts[i];
        if (part->table != NULL || part->dense != NULL) {
            r = cut_part(part, &plan->parts[plan->n_parts]);
            plan->n_parts += r == 0 ? 1 : 0;
        }
    }
    return r;
}

void coxi_plan_fini(struct coxi_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        free(plan->parts[i].removed);
    }
    free(plan->parts);
    free(plan->tensors);
    free(plan->names);
    *plan = (struct coxi_plan){0};
}

/* ---- tensors */

void coxi_part_tensor_name(const struct coxi_part *part, const char *suffix,
                           char ret[COXI_TENSOR_NAME_MAX])
{
    const struct coxi_variable *v = part->variable;
    int used = snprintf(ret, COXI_TENSOR_NAME_MAX, "%s", v->name);
    if (part->table == NULL && v->n_shards > 1) {
        used += snprintf(ret + used, COXI_TENSOR_NAME_MAX - (size_t)used, "/part_%td",
                         part->shard - v->shards);
    }
    if (suffix != NULL) {
        (void)snprintf(ret + used, COXI_TENSOR_NAME_MAX - (size_t)used, "/%s", suffix);
    }
}

/* The suffix of the tensor's name after the variable's name and part; NULL: none. */
static const char *suffix_of(const struct coxi_part *part, size_t content)
{
    static const char *const names[] = {
        [COXI_CONTENT_VALUES] = "values",   [COXI_CONTENT_KEYS] = "keys",
        [COXI_CONTENT_LAST] = "last",       [COXI_CONTENT_MADE] = "made",
        [COXI_CONTENT_UPDATES] = "updates", [COXI_CONTENT_STEP] = "step",
        [COXI_CONTENT_REMOVED] = "removed", [COXI_CONTENT_RATE] = "rate",
    };
    if (content >= COXI_CONTENT_STATE) {
        return part->layout.states[content - COXI_CONTENT_STATE].name;
    }
    return content == COXI_CONTENT_VALUES && part->table == NULL ? NULL
                                                                 : names[content];
}

/* Sets the tensor's type, shape and size. */
static void describe(const struct coxi_planned *planned, size_t content,
                     struct coxi_st_tensor *tensor)
{
    const struct coxi_variable *v = planned->part.variable;
    bool wide = content != COXI_CONTENT_VALUES && content < COXI_CONTENT_STATE;
    bool per_row = content >= COXI_CONTENT_STATE + planned->n_slots;
    tensor->dtype = wide ? "U64" : coxi_dtype_name(v->dtype);
    tensor->bytes = wide ? sizeof(uint64_t) : coxi_dtype_size(v->dtype);
    if (planned->table != NULL) {
        tensor->rank = 2;
        tensor->shape[0] = coxi_table_cut_rows(planned->table);
        tensor->shape[1] = planned->dim;
    } else {
        tensor->rank = v->rank;
        memcpy(tensor->shape, v->shape, sizeof(tensor->shape));
        tensor->shape[0] = planned->part.shard->count;
    }
    if (wide || per_row) {
        tensor->rank = 1;
    }
    if (content == COXI_CONTENT_STEP) {
        tensor->shape[0] = 1;
    } else if (content == COXI_CONTENT_RATE) {
        tensor->dtype = coxi_dtype_name(COX_F64);
        tensor->shape[0] = COXI_RATE_NUMBERS;
    } else if (content == COXI_CONTENT_REMOVED) {
        tensor->shape[0] = planned->n_removed;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        tensor->bytes *= tensor->shape[i];
    }
}

static void add_tensor(struct coxi_plan *plan, struct coxi_planned *planned,
                       size_t content)
{
    size_t at = plan->n_tensors++;
    coxi_part_tensor_name(&planned->part, suffix_of(&planned->part, content),
                          plan->names[at]);
    plan->tensors[at] = (struct coxi_st_tensor){.name = plan->names[at]};
    describe(planned, content, &plan->tensors[at]);
    planned->tensors[content] = at;
}

/* Adds the tensors of a part whose elements have `size` bytes. */
static void plan_part(struct coxi_plan *plan, struct coxi_planned *planned, size_t size,
                      bool changed)
{
    const struct coxi_part *part = &planned->part;
    if (planned->table == NULL && planned->dense == NULL) {
        return;
    }
    if (changed && size == sizeof(uint64_t) && part->table != NULL) {
        add_tensor(plan, planned, COXI_CONTENT_REMOVED);
    }
    if (size == sizeof(uint64_t) && part->table != NULL) {
        add_tensor(plan, planned, COXI_CONTENT_KEYS);
        if (coxi_table_ages(part->table)) {
            add_tensor(plan, planned, COXI_CONTENT_LAST);
            add_tensor(plan, planned, COXI_CONTENT_MADE);
            add_tensor(plan, planned, COXI_CONTENT_UPDATES);
        }
    }
    if (size == sizeof(uint64_t) &&
        part->variable->optimizer.kind != COXI_OPTIMIZER_NONE) {
        add_tensor(plan, planned, COXI_CONTENT_STEP);
        planned->has_step = true;
        planned->step = planned->table != NULL ? coxi_table_cut_step(planned->table)
                                               : coxi_dense_cut_step(planned->dense);
    }
    if (size == sizeof(double) && part->rated) {
        add_tensor(plan, planned, COXI_CONTENT_RATE);
        planned->has_rate = true;
        planned->rate = coxi_rate_of(&part->variable->optimizer);
    }
    if (size == coxi_dtype_size(part->variable->dtype)) {
        add_tensor(plan, planned, COXI_CONTENT_VALUES);
        for (size_t i = 0; i < planned->n_states; i++) {
            add_tensor(plan, planned, COXI_CONTENT_STATE + i);
        }
    }
}

/* Bytes for a block of a table's rows, or for a piece of a dense variable. */
static size_t room_of(const struct coxi_planned *planned)
{
    if (planned->table == NULL) {
        return COXI_DENSE_CUT_ROOM;
    }
    struct coxi_cut_layout layout = coxi_table_cut_layout(planned->table);
    return layout.n_most * layout.stride;
}

/* Copies the list of dropped keys, because the table keeps it only until the next
 * cut. */
static int copy_removed(struct coxi_planned *planned)
{
    size_t n;
    const uint64_t *keys =
        coxi_table_track_removed(coxi_table_tracked(planned->part.table), &n);
    planned->removed = malloc((n + 1) * sizeof(*keys));
    if (planned->removed == NULL) {
        return coxi_error_memory("a snapshot");
    }
    if (n > 0) {
        memcpy(planned->removed, keys, n * sizeof(*keys));
    }
    planned->n_removed = n;
    return 0;
}

int coxi_plan_tensors(struct coxi_plan *plan, bool changed)
{
    size_t n = plan->n_parts * COXI_CONTENTS + 1;
    plan->tensors = calloc(n, sizeof(*plan->tensors));
    plan->names = calloc(n, sizeof(*plan->names));
    if (plan->tensors == NULL || plan->names == NULL) {
        return coxi_error_memory("a snapshot");
    }
    plan->room_bytes = COXI_DENSE_CUT_ROOM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < plan->n_parts; i++) {
        size_t room = room_of(&plan->parts[i]);
        plan->room_bytes = plan->room_bytes > room ? plan->room_bytes : room;
        r = changed && plan->parts[i].table != NULL ? copy_removed(&plan->parts[i]) : 0;
    }
    /* Large elements first, which keeps every tensor aligned to its element size. */
    for (size_t size = 8; r == 0 && size > 0; size /= 2) {
        for (size_t i = 0; i < plan->n_parts; i++) {
            plan_part(plan, &plan->parts[i], size, changed);
        }
    }
    return r;
}

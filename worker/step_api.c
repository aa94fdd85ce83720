/*
 * The functions behind coxswain/step.h: what a step may ask and do. Updates are
 * collected, sorted by ps; a pull is sent to every ps that it needs, and waited for.
 *
 * Threads: the step's (a slot); answers to a pull come on a ps client's thread.
 *
 * Cost: no allocation once an attempt's buffers have grown; one copy of what is pushed;
 * what is pulled from one ps alone is received in the step's own memory.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/layout.h"
#include "common/sync.h"
#include "worker/attempt_internal.h"

enum { RESULTS_MAX = 1 << 30 };

/* Where a part of an answer to a pull goes. */
struct piece {
    uint8_t *to;      /* dense: here; table: the caller's rows */
    size_t row_bytes; /* dense: all of it, count is 1 */
    size_t count;
    size_t positions; /* table: its rows' places begin here in `positions` */
    bool scattered;
};

/* ---- errors of a step's calls */

/* Keeps the thread's error text as the step's, and returns the code. */
static int failed(struct coxi_attempt *attempt, int code)
{
    (void)snprintf(attempt->text, sizeof(attempt->text), "%s", coxi_error_text());
    return code;
}

static const char *api_error(struct cox_step *step)
{
    return ((struct coxi_attempt *)step)->text;
}

static int api_fail(struct cox_step *step, int code, const char *format, va_list args)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    (void)vsnprintf(attempt->text, sizeof(attempt->text), format, args);
    attempt->step_code = code;
    attempt->step_failed = true;
    return code != 0 ? code : COX_ESTEP;
}

/* ---- what it is */

static size_t api_arguments(struct cox_step *step, const struct cox_value **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    if (!attempt->args_ready) {
        /* Packed by the client; a frame that was damaged has not come this far. */
        attempt->n_args = 0;
        (void)coxi_values_unpack(attempt->packed_args, attempt->packed_args_len,
                                 attempt->args, &attempt->n_args);
        attempt->args_ready = true;
    }
    *ret = attempt->args;
    return attempt->n_args;
}

static uint64_t api_seed(struct cox_step *step)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    /* Of resources: those that closures never have. */
    uint64_t number = attempt->making != NULL ? UINT64_MAX - attempt->head.attempt
                                              : attempt->head.closure;
    return coxi_hash_key(attempt->run->session.run ^ coxi_hash_key(number));
}

static uint64_t api_closure(struct cox_step *step)
{
    return ((struct coxi_attempt *)step)->head.closure;
}

static uint32_t api_attempt(struct cox_step *step)
{
    const struct coxi_attempt *attempt = (const struct coxi_attempt *)step;
    return attempt->making != NULL ? 0 : attempt->head.attempt;
}

static uint32_t api_worker(struct cox_step *step)
{
    return ((struct coxi_attempt *)step)->run->options.worker;
}

static int api_cancelled(struct cox_step *step)
{
    return coxi_running_cancelled(((struct coxi_attempt *)step)->running) ? 1 : 0;
}

static int api_variable(struct cox_step *step, const char *name,
                        struct cox_variable **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct cox_variable *found = coxi_run_variable(attempt->run, name);
    if (found == NULL) {
        return failed(attempt,
                      coxi_error(COX_ENOENT, "no variable is called '%s'", name));
    }
    *ret = found;
    return 0;
}

static int api_shape(struct cox_step *step, const struct cox_variable *variable,
                     uint32_t *ret_dtype, uint32_t *ret_rank,
                     uint64_t ret_shape[COX_RANK_MAX])
{
    (void)step;
    const struct coxi_variable *v = variable->description;
    *ret_dtype = v->dtype;
    *ret_rank = v->rank;
    memcpy(ret_shape, v->shape, sizeof(v->shape));
    return 0;
}

/* What a closure alone may do. */
static int check_closure(const struct coxi_attempt *attempt, const char *what)
{
    return attempt->making == NULL
               ? 0
               : coxi_error(COX_EINVAL, "resource '%s': its function %s",
                            attempt->making->name, what);
}

static int api_result(struct cox_step *step, const struct cox_value *value)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "has no results");
    if (r == 0) {
        r = coxi_values_add(&attempt->results, value);
    }
    if (r == 0 && attempt->results.len > RESULTS_MAX) {
        r = coxi_error(COX_ELIMIT, "the results have more than %d bytes", RESULTS_MAX);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

/* ---- pulls */

static int add_piece(struct coxi_target *target, uint32_t variable, uint64_t begin,
                     uint64_t count, const struct piece *piece)
{
    struct coxi_pull_item item = {variable, begin, count, 0};
    int r = coxi_buffer_append_raw(&target->items, &item, sizeof(item));
    if (r == 0) {
        r = coxi_buffer_append_raw(&target->pieces, piece, sizeof(*piece));
    }
    target->answer_len += piece->count * piece->row_bytes;
    return r;
}

static int pull_dense(struct coxi_attempt *attempt, const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    size_t row_bytes = coxi_variable_row_bytes(v);
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->n_shards; i++) {
        const struct coxi_shard *shard = &v->shards[i];
        struct piece piece = {
            .to = (uint8_t *)pull->values + shard->begin * row_bytes,
            .row_bytes = shard->count * row_bytes,
            .count = 1,
        };
        r = add_piece(&attempt->targets[shard->ps], v->id, shard->begin, shard->count,
                      &piece);
    }
    return r;
}

/* Counts the keys of each ps, into its n_rows. */
static void count_rows(struct coxi_attempt *attempt, const uint64_t *keys,
                       size_t n_keys)
{
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        attempt->targets[p].n_rows = 0;
    }
    for (size_t i = 0; i < n_keys; i++) {
        attempt->targets[coxi_key_ps(keys[i], attempt->n_targets)].n_rows++;
    }
}

/* Sorts the keys by ps, remembering where each row belongs. */
static int pull_rows(struct coxi_attempt *attempt, const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    int r = 0;
    if (pull->n_keys > UINT32_MAX) {
        return coxi_error(COX_ELIMIT, "more than %u keys in one pull", UINT32_MAX);
    }
    count_rows(attempt, pull->keys, pull->n_keys);
    for (uint32_t p = 0; r == 0 && p < attempt->n_targets; p++) {
        struct coxi_target *target = &attempt->targets[p];
        struct piece piece = {
            .to = pull->values,
            .row_bytes = coxi_variable_row_bytes(v),
            .count = target->n_rows,
            .positions = target->keys.len / sizeof(uint64_t),
            .scattered = attempt->n_targets > 1,
        };
        if (target->n_rows == 0) {
            continue;
        }
        r = coxi_buffer_reserve(&target->keys, target->n_rows * sizeof(uint64_t));
        if (r == 0) {
            r = coxi_buffer_reserve(&target->positions,
                                    target->n_rows * sizeof(uint32_t));
        }
        if (r == 0) {
            r = add_piece(target, v->id, 0, target->n_rows, &piece);
        }
    }
    for (size_t i = 0; r == 0 && i < pull->n_keys; i++) {
        struct coxi_target *target =
            &attempt->targets[coxi_key_ps(pull->keys[i], attempt->n_targets)];
        uint32_t position = (uint32_t)i;
        memcpy(target->keys.data + target->keys.len, &pull->keys[i], sizeof(uint64_t));
        memcpy(target->positions.data + target->positions.len, &position,
               sizeof(position));
        target->keys.len += sizeof(uint64_t);
        target->positions.len += sizeof(position);
    }
    return r;
}

/* Moves an answer to where its pieces belong. */
static void scatter(const struct coxi_target *target, const uint8_t *from)
{
    const struct piece *pieces = (const struct piece *)(void *)target->pieces.data;
    const uint32_t *positions = (const uint32_t *)(void *)target->positions.data;
    for (size_t i = 0; i < target->pieces.len / sizeof(*pieces); i++) {
        const struct piece *piece = &pieces[i];
        size_t bytes = piece->count * piece->row_bytes;
        if (!piece->scattered) {
            memcpy(piece->to, from, bytes);
        }
        for (size_t row = 0; piece->scattered && row < piece->count; row++) {
            memcpy(piece->to + positions[piece->positions + row] * piece->row_bytes,
                   from + row * piece->row_bytes, piece->row_bytes);
        }
        from += bytes;
    }
}

static void pull_done(struct coxi_psc_request *request, int code,
                      const struct coxi_message *answer, void *payload, size_t len)
{
    struct coxi_target *target = (struct coxi_target *)request;
    const char *text = coxi_error_text();
    if (code == 0 && answer->kind != COXI_PULLED) {
        code = COX_EPROTO;
        text = "the ps answered a pull with something else";
    } else if (code == 0 && answer->status.code != 0) {
        code = answer->status.code;
        text = answer->status.message;
    } else if (code == 0 && len != target->answer_len) {
        code = COX_EPROTO;
        text = "the ps answered a pull with another number of bytes";
    } else if (code == 0 && request->into == NULL) {
        scatter(target, payload);
    }
    coxi_attempt_answered(target->attempt, code, text);
}

static int submit_pull(struct coxi_attempt *attempt, uint32_t ps)
{
    struct coxi_target *target = &attempt->targets[ps];
    const struct piece *first = (const struct piece *)(void *)target->pieces.data;
    bool direct = target->pieces.len == sizeof(*first) && !first->scattered;
    target->segment = (struct iovec){target->keys.data, target->keys.len};
    target->request = (struct coxi_psc_request){
        .payload = &target->segment,
        .n_payload = target->keys.len > 0 ? 1 : 0,
        .into = direct ? first->to : NULL,
        .into_len = direct ? target->answer_len : 0,
        .answer_len = target->answer_len,
        .done = pull_done,
    };
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull.session = attempt->run->session;
    message.pull.incarnation = atomic_load(&attempt->run->ps_incarnations[ps]);
    message.pull.items = (const struct coxi_pull_item *)(void *)target->items.data;
    message.pull.n_items = target->items.len / sizeof(struct coxi_pull_item);
    return coxi_psc_submit(attempt->run->ps[ps], &message, &target->request, false);
}

/* Sends every target its pull and waits for the answers. */
static int exchange(struct coxi_attempt *attempt)
{
    attempt->n_pending = 1;
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        if (attempt->targets[p].items.len == 0) {
            continue;
        }
        coxi_lock(&attempt->lock);
        attempt->n_pending++;
        coxi_unlock(&attempt->lock);
        int r = submit_pull(attempt, p);
        if (r != 0) {
            coxi_attempt_answered(attempt, r, coxi_error_text());
        }
    }
    int r = coxi_attempt_wait(attempt);
    if (r == COX_EPSLOST || r == COX_EFENCED) {
        attempt->lost = r;
    }
    return r;
}

static int check_pull(const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    bool is_table = v->kind == COXI_KIND_TABLE;
    if (is_table && pull->keys == NULL && pull->n_keys > 0) {
        return coxi_error(COX_EINVAL, "a pull of table '%s' needs keys", v->name);
    }
    if (!is_table && pull->keys != NULL) {
        return coxi_error(COX_EINVAL, "'%s' is dense and has no keys", v->name);
    }
    if (pull->values == NULL && (!is_table || pull->n_keys > 0)) {
        return coxi_error(COX_EINVAL, "a pull of '%s' has no place for its values",
                          v->name);
    }
    return 0;
}

/*
 * A cancelled attempt pulls nothing more. A pull that is under way is waited for all the
 * same: its answer may be on its way into the step's memory. A ps that lives answers
 * soon; for others there is the grace.
 */
static int api_pull(struct cox_step *step, const struct cox_pull *pulls, size_t n_pulls)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = coxi_attempt_check(attempt);
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        struct coxi_target *target = &attempt->targets[p];
        target->items.len = target->keys.len = 0;
        target->positions.len = target->pieces.len = 0;
        target->answer_len = 0;
    }
    for (size_t i = 0; r == 0 && i < n_pulls; i++) {
        r = check_pull(&pulls[i]);
        if (r == 0) {
            r = pulls[i].variable->description->kind == COXI_KIND_TABLE
                    ? pull_rows(attempt, &pulls[i])
                    : pull_dense(attempt, &pulls[i]);
        }
    }
    if (r == 0) {
        coxi_run_flush_reports(attempt->run); /* this may take a while */
        r = exchange(attempt);
    }
    if (r == 0) {
        r = coxi_attempt_check(attempt);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

/* ---- updates: collected per ps in the form in which they are sent */

static int add_update(struct coxi_target *target, const struct coxi_variable *v,
                      uint32_t op, uint64_t begin, uint64_t count)
{
    struct coxi_update update = {v->id, op, begin, count};
    return coxi_buffer_append_raw(&target->updates, &update, sizeof(update));
}

static int update_dense(struct coxi_attempt *attempt, const struct coxi_variable *v,
                        uint32_t op, const uint8_t *values)
{
    size_t row_bytes = coxi_variable_row_bytes(v);
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->n_shards; i++) {
        const struct coxi_shard *shard = &v->shards[i];
        struct coxi_target *target = &attempt->targets[shard->ps];
        r = coxi_buffer_append(&target->update_payload,
                               values + shard->begin * row_bytes,
                               shard->count * row_bytes);
        if (r == 0) {
            r = add_update(target, v, op, shard->begin, shard->count);
        }
    }
    return r;
}

/* For each ps its keys, then their values. */
static int update_rows(struct coxi_attempt *attempt, const struct coxi_variable *v,
                       uint32_t op, const uint64_t *keys, size_t n_keys,
                       const uint8_t *values)
{
    size_t row_bytes = coxi_variable_row_bytes(v);
    int r = 0;
    count_rows(attempt, keys, n_keys);
    for (uint32_t p = 0; r == 0 && p < attempt->n_targets; p++) {
        struct coxi_target *target = &attempt->targets[p];
        if (target->n_rows == 0) {
            continue;
        }
        struct coxi_buffer *payload = &target->update_payload;
        target->key_at = payload->len;
        target->value_at = payload->len + target->n_rows * sizeof(*keys);
        r = coxi_buffer_append(payload, NULL,
                               target->n_rows * (sizeof(*keys) + row_bytes));
        if (r == 0) {
            r = add_update(target, v, op, 0, target->n_rows);
        }
    }
    for (size_t i = 0; r == 0 && i < n_keys; i++) {
        struct coxi_target *target =
            &attempt->targets[coxi_key_ps(keys[i], attempt->n_targets)];
        uint8_t *payload = target->update_payload.data;
        memcpy(payload + target->key_at, &keys[i], sizeof(*keys));
        memcpy(payload + target->value_at, values + i * row_bytes, row_bytes);
        target->key_at += sizeof(*keys);
        target->value_at += row_bytes;
    }
    return r;
}

/* What the variable's rules say of it. */
static int check_op(const struct coxi_variable *v, uint32_t op)
{
    if (op == COXI_OP_GRADIENT && v->optimizer.kind == COXI_OPTIMIZER_NONE) {
        return coxi_error(COX_EINVAL, "'%s' takes no gradients: it has no optimizer",
                          v->name);
    }
    if (op == COXI_OP_ADD && (v->dtype == COX_BF16 || v->dtype == COX_F16)) {
        return coxi_error(COX_EINVAL, "'%s' takes no additions in its type %s", v->name,
                          coxi_dtype_name(v->dtype));
    }
    return op > COXI_OP_ASSIGN ? coxi_error(COX_EINVAL, "%u is no update", op) : 0;
}

static int check_update(const struct coxi_variable *v, uint32_t op,
                        const uint64_t *keys, size_t n_keys, const void *values)
{
    bool is_table = v->kind == COXI_KIND_TABLE;
    if (!is_table && keys != NULL) {
        return coxi_error(COX_EINVAL, "'%s' is dense and has no keys", v->name);
    }
    if (is_table && keys == NULL && (n_keys > 0 || values != NULL)) {
        return coxi_error(COX_EINVAL, "table '%s' is updated by keys", v->name);
    }
    if (values == NULL && (!is_table || n_keys > 0)) {
        return coxi_error(COX_EINVAL, "an update of '%s' has no values", v->name);
    }
    return check_op(v, op);
}

static int api_update(struct cox_step *step, struct cox_variable *variable, uint32_t op,
                      const uint64_t *keys, size_t n_keys, const void *values)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    const struct coxi_variable *v = variable->description;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = check_update(v, op, keys, n_keys, values);
    }
    if (r == 0 && v->kind == COXI_KIND_DENSE) {
        r = update_dense(attempt, v, op, values);
    }
    if (r == 0 && v->kind == COXI_KIND_TABLE) {
        r = update_rows(attempt, v, op, keys, n_keys, values);
    }
    if (r != 0) {
        /* A part of it may be collected: the step cannot succeed any more. */
        attempt->broken = r;
    }
    return r == 0 ? 0 : failed(attempt, r);
}

static int api_flush(struct cox_step *step)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_attempt_flush(attempt);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

/* ---- resources */

static int api_keep(struct cox_step *step, void *value, void (*release)(void *value))
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct coxi_kept *kept = attempt->making;
    if (kept == NULL || kept->kept) {
        return failed(
            attempt,
            coxi_error(COX_EINVAL, kept == NULL
                                       ? "only a resource's function keeps something"
                                       : "a resource's function keeps one thing"));
    }
    kept->kept = true;
    kept->value = value;
    kept->release = release;
    return 0;
}

/* The resource that this step was handed under the name before, or NULL. */
static struct coxi_kept *find_used(const struct coxi_attempt *attempt, const char *name)
{
    struct coxi_kept **used = (struct coxi_kept **)(void *)attempt->used.data;
    for (size_t i = 0; i < attempt->used.len / sizeof(struct coxi_kept *); i++) {
        if (strcmp(used[i]->name, name) == 0) {
            return used[i];
        }
    }
    return NULL;
}

/* Looks it up, and notes that it is in use until the step returns. */
static int use(struct coxi_attempt *attempt, const char *name, struct coxi_kept **ret)
{
    struct coxi_resources *resources = &attempt->run->resources;
    struct coxi_kept *kept = NULL;
    if (attempt->used.len / sizeof(struct coxi_kept *) == COXI_RESOURCES_MAX) {
        return coxi_error(COX_ELIMIT, "a step uses more than %d resources",
                          COXI_RESOURCES_MAX);
    }
    int r = coxi_resources_use(resources, name, &kept);
    if (r != 0) {
        return r;
    }
    r = coxi_buffer_append_raw(&attempt->used, &kept, sizeof(struct coxi_kept *));
    if (r != 0) {
        coxi_resources_unuse(resources, kept);
        return r;
    }
    *ret = kept;
    return 0;
}

static int api_resource(struct cox_step *step, const char *name, void **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct coxi_kept *kept = find_used(attempt, name);
    int r = kept != NULL ? 0 : use(attempt, name, &kept);
    if (r == 0 && kept->code != 0) {
        attempt->unmade = kept;
        r = coxi_attempt_unmade(attempt);
    }
    if (r != 0) {
        return failed(attempt, r);
    }
    *ret = kept->value;
    return 0;
}

const struct cox_step_api coxi_step_api = {
    .size = sizeof(coxi_step_api),
    .error = api_error,
    .fail = api_fail,
    .arguments = api_arguments,
    .seed = api_seed,
    .closure = api_closure,
    .attempt = api_attempt,
    .worker = api_worker,
    .variable = api_variable,
    .shape = api_shape,
    .pull = api_pull,
    .update = api_update,
    .result = api_result,
    .cancelled = api_cancelled,
    .flush = api_flush,
    .keep = api_keep,
    .resource = api_resource,
};

/*
 * Readers (coxswain/reader.h): read the values of a run without being its client. A
 * reader asks each ps which run it serves and which variables it has, and uses that
 * view for pulls until a ps says that the view is out of date; then it asks again.
 *
 * Threads: one uses a reader; a loop of its own sends heartbeats and checks deadlines.
 * Cost: a round trip to every ps whenever the run has changed or a name is not known.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/ps_watch.h"
#include "common/clock.h"
#include "common/defaults.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/metric.h"
#include "common/structs.h"
#include "net/ps_round.h"
#include "net/pulls.h"

enum { COXI_DEFAULTS_READER_OPTIONS(COXI_DEFAULT_NUMBER) };

enum {
    PEER_TIMEOUT_MS = 10000,
    CONNECT_MS = 2000,
    TICK_MS = 50,
    CHECK_MS = 100,
    LOOK_MS = 50, /* pause between two looks for a run */
};

/* The run as the ps describe it. */
struct view {
    struct coxi_session session; /* without a token */
    size_t n_answers;
    struct coxi_variable **variables; /* owned */
    size_t n;
    int code; /* the reason why the answers make no view, or 0 */
};

struct cox_reader {
    struct cox_reader_options options;
    struct cox_cluster *cluster;
    struct coxi_links *links;
    struct coxi_key key; /* the run's, its readers', or none */
    struct coxi_loop *loop;
    _Atomic(struct coxi_psc *) *ps;
    uint32_t n_ps;
    struct view view;
    /* variables of earlier views that were missing in the next view */
    struct view before;
    bool attached; /* no ps has said that the view is out of date */
};

static void view_fini(struct view *view)
{
    for (size_t i = 0; i < view->n; i++) {
        coxi_variable_free(view->variables[i]);
    }
    free(view->variables);
    *view = (struct view){0};
}

/* ---- attaching */

static const struct coxi_variable *find(const struct view *view, const char *name)
{
    for (size_t i = 0; i < view->n; i++) {
        if (strcmp(view->variables[i]->name, name) == 0) {
            return view->variables[i];
        }
    }
    return NULL;
}

/* Adds a variable, unless another ps has described it already. */
static int note_variable(struct view *view, const struct coxi_variable *v)
{
    if (find(view, v->name) != NULL) {
        return 0;
    }
    if ((view->n & (view->n + 1)) == 0) { /* the array has room for 2^k - 1 variables */
        struct coxi_variable **more =
            realloc(view->variables, (2 * view->n + 1) * sizeof(void *));
        if (more == NULL) {
            return coxi_error_memory("a list of variables");
        }
        view->variables = more;
    }
    int r = coxi_variable_check(v, COXI_PS_MAX);
    r = r == 0 ? coxi_variable_copy(v, &view->variables[view->n]) : r;
    view->n += r == 0 ? 1 : 0;
    return r;
}

static void take_layout(void *arg, const struct coxi_message *answer)
{
    struct view *view = arg;
    const struct coxi_layout *layout = &answer->layout;
    if (view->n_answers++ == 0) {
        view->session = layout->session;
    } else if (!coxi_session_equal(&view->session, &layout->session)) {
        view->code = COX_EFENCED;
    }
    for (size_t i = 0; view->code == 0 && i < layout->n_variables; i++) {
        struct coxi_variable v;
        view->code =
            coxi_layout_variable(layout, i, &v) ? note_variable(view, &v) : COX_EPROTO;
    }
}

/*
 * Remembers the variables of the old view that are missing in the next one: the new
 * client may not have created them yet, even if the reader looks again several times.
 */
static int remember(struct cox_reader *reader, const struct view *next)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < reader->view.n; i++) {
        const struct coxi_variable *v = reader->view.variables[i];
        if (find(next, v->name) == NULL && reader->before.n < COXI_VARIABLES_MAX) {
            r = note_variable(&reader->before, v);
        }
    }
    return r;
}

/* Why the answers of the ps make no view. */
static int say_no_view(int code)
{
    if (code == COX_ENOMEM) {
        return coxi_error_memory("a list of variables");
    }
    return coxi_error(code, code == COX_EFENCED
                                ? "the ps serve different runs or clients"
                                : "a ps has sent an answer that cannot be used");
}

/* Asks all ps for a view. */
static int attach(struct cox_reader *reader, int timeout_ms)
{
    struct view view = {0};
    struct coxi_message message = {.kind = COXI_DESCRIBE};
    struct coxi_ps_round round;
    struct coxi_ps_round_call *calls = calloc(reader->n_ps, sizeof(*calls));
    if (calls == NULL) {
        return coxi_error_memory("a reader");
    }
    coxi_ps_round_begin(&round);
    for (uint32_t p = 0; p < reader->n_ps; p++) {
        calls[p] = (struct coxi_ps_round_call){
            .expect = COXI_LAYOUT, .take = take_layout, .arg = &view};
        calls[p].request.timeout_ms = timeout_ms;
        coxi_ps_round_add(&round, reader->ps[p], &message, &calls[p]);
    }
    int r = coxi_ps_round_end(&round);
    free(calls);
    if (r == 0 && view.code != 0) {
        r = say_no_view(view.code);
    }
    r = r == 0 ? remember(reader, &view) : r;
    if (r != 0) {
        view_fini(&view);
        return r;
    }
    view_fini(&reader->view);
    reader->view = view;
    reader->attached = true;
    return 0;
}

/* True if the error may pass: a ps is being started, or another client takes over. */
static bool may_pass(int code)
{
    return code == COX_ENOENT || code == COX_EPSLOST || code == COX_EFENCED;
}

static int left_ms(uint64_t end_ms)
{
    uint64_t now = coxi_now_ms();
    return now < end_ms ? (int)(end_ms - now) : 1;
}

/* Something to do with a variable. */
struct use {
    int (*use)(const struct coxi_pull_from *from, const struct coxi_variable *v,
               void *arg);
    void *arg;
};

static int use_variable(struct cox_reader *reader, const char *name, int timeout_ms,
                        const struct use *use, bool *was_there)
{
    const struct coxi_pull_from from = {reader->view.session, reader->ps, reader->n_ps,
                                        timeout_ms};
    const struct coxi_variable *v = find(&reader->view, name);
    *was_there = *was_there || v != NULL;
    return v != NULL ? use->use(&from, v, use->arg)
                     : coxi_error(COX_ENOENT, "run %016llx has no variable called '%s'",
                                  (unsigned long long)reader->view.session.run, name);
}

/* Waits for a ps, but not in vain for one that has another key. */
static int await_one(struct coxi_psc *ps, uint64_t end_ms)
{
    int r;
    while ((r = coxi_psc_check(ps)) == 0) {
        int left = left_ms(end_ms);
        r = coxi_psc_wait(ps, left < CHECK_MS ? left : CHECK_MS);
        if (r != COX_ETIMEDOUT || left <= CHECK_MS) {
            break;
        }
    }
    int last = r == COX_ETIMEDOUT ? coxi_psc_check_last(ps) : 0;
    return last != 0 ? last : r;
}

/* Does `use` with the variable called `name` (NULL: only attaches), again and again
 * until it succeeds or cannot succeed any more. */
static int follow(struct cox_reader *reader, const char *name, const struct use *use)
{
    uint64_t end_ms = coxi_now_ms() + (uint64_t)reader->options.timeout_ms;
    bool was_there = name != NULL && (find(&reader->view, name) != NULL ||
                                      find(&reader->before, name) != NULL);
    for (;;) {
        bool is_new = !reader->attached;
        int r = is_new ? attach(reader, left_ms(end_ms)) : 0;
        if (r == 0 && name != NULL) {
            r = use_variable(reader, name, left_ms(end_ms), use, &was_there);
        }
        bool is_unknown = r == COX_ENOENT && reader->attached && is_new && !was_there;
        if (r == 0 || !may_pass(r) || is_unknown || coxi_now_ms() >= end_ms) {
            return r;
        }
        reader->attached = false;
        if (is_new) {
            /* Nobody tells a reader of new runs: look again after a while. */
            (void)poll(NULL, 0, LOOK_MS);
        }
    }
}

/* ---- life */

static void on_tick(void *arg)
{
    struct cox_reader *reader = arg;
    coxi_links_tick(reader->links);
    for (uint32_t p = 0; p < reader->n_ps; p++) {
        coxi_psc_tick(reader->ps[p]);
    }
}

static int connect_all(struct cox_reader *reader)
{
    reader->ps = calloc(reader->cluster->n_ps, sizeof(*reader->ps));
    if (reader->ps == NULL) {
        return coxi_error_memory("a reader");
    }
    for (uint32_t p = 0; p < reader->cluster->n_ps; p++) {
        const struct coxi_psc_options options = {
            .address = reader->cluster->ps[p],
            .index = p,
            .self = {.role = COXI_ROLE_TOOL},
            .links = reader->links,
            .connect_ms = CONNECT_MS,
            .key = &reader->key,
            .reconnect_ms = -1,
            .request_ms = reader->options.timeout_ms,
            .local_path = true,
        };
        struct coxi_psc *psc;
        int r = coxi_psc_open(&options, &psc);
        if (r != 0) {
            return r;
        }
        reader->ps[p] = psc;
        reader->n_ps = p + 1;
    }
    return 0;
}

static int wait_for_all(struct cox_reader *reader)
{
    uint64_t end_ms = coxi_now_ms() + (uint64_t)reader->options.timeout_ms;
    int r = 0;
    for (uint32_t p = 0; r == 0 && p < reader->n_ps; p++) {
        r = await_one(reader->ps[p], end_ms);
    }
    return r;
}

/* Finds the addresses of a cluster in etcd. */
static int find_all(struct cox_reader *reader)
{
    struct coxi_ps_watch *watch = NULL;
    if (reader->cluster->etcd == NULL) {
        return 0;
    }
    int r = coxi_ps_watch_start(
        &(struct coxi_ps_watch_options){.cluster = reader->cluster}, &watch);
    r = r == 0 ? coxi_ps_watch_wait(watch, reader->options.timeout_ms) : r;
    r = r == 0 ? coxi_ps_watch_take(watch, reader->cluster) : r;
    coxi_ps_watch_stop(watch);
    return r;
}

static int start(struct cox_reader *reader, const struct cox_cluster *cluster)
{
    int r = coxi_cluster_copy(cluster, &reader->cluster);
    r = r == 0 ? find_all(reader) : r;
    if (r == 0) {
        r = coxi_links_new(PEER_TIMEOUT_MS, &reader->links);
    }
    if (r == 0) {
        r = connect_all(reader);
    }
    if (r == 0) {
        r = coxi_loop_new(TICK_MS, on_tick, reader, &reader->loop);
    }
    if (r == 0) {
        r = coxi_loop_start(reader->loop, "cox:reader");
    }
    if (r == 0) {
        r = wait_for_all(reader);
    }
    return r == 0 ? follow(reader, NULL, NULL) : r;
}

int cox_reader_open(const struct cox_cluster *cluster,
                    const struct cox_reader_options *options, struct cox_reader **ret)
{
    struct cox_reader_options o = COX_READER_OPTIONS_INIT;
    if (cluster == NULL || ret == NULL || cluster->local) {
        return coxi_error(COX_EINVAL,
                          "cox_reader_open needs a cluster with addresses; a local one "
                          "is started by its client, for itself");
    }
    int r =
        options != NULL ? coxi_struct_copy(&o, COXI_STRUCT_READER_OPTIONS, options) : 0;
    if (r != 0) {
        return r;
    }
    struct cox_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return coxi_error_memory("a reader");
    }
    reader->options = o;
    reader->options.timeout_ms = o.timeout_ms > 0 ? o.timeout_ms : DEFAULT_timeout_ms;
    r = coxi_key_open(o.key_file, "cox_reader_options.key_file", &reader->key);
    if (r == 0) {
        r = coxi_key_set_seal(&reader->key, o.seal, "cox_reader_options.seal");
    }
    r = r == 0 ? start(reader, cluster) : r;
    if (r != 0) {
        cox_reader_close(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

void cox_reader_close(struct cox_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    if (reader->loop != NULL) {
        coxi_loop_stop(reader->loop);
        coxi_loop_free(reader->loop);
    }
    for (uint32_t p = 0; p < reader->n_ps; p++) {
        coxi_psc_close(reader->ps[p]);
    }
    free(reader->ps);
    coxi_links_free(reader->links);
    cox_cluster_free(reader->cluster);
    view_fini(&reader->view);
    view_fini(&reader->before);
    coxi_key_wipe(&reader->key);
    free(reader);
}

uint64_t cox_reader_run(const struct cox_reader *reader)
{
    return reader != NULL ? reader->view.session.run : 0;
}

/* ---- reading */

static int use_description(const struct coxi_pull_from *from,
                           const struct coxi_variable *v, void *arg)
{
    struct cox_reader_variable *ret = arg;
    (void)from;
    ret->table = v->kind == COXI_KIND_TABLE;
    ret->dtype = v->dtype;
    ret->rank = v->rank;
    memcpy(ret->shape, v->shape, sizeof(ret->shape));
    ret->metric = v->metric;
    return 0;
}

int cox_reader_describe(struct cox_reader *reader, const char *name,
                        struct cox_reader_variable *ret)
{
    struct cox_reader_variable found = COX_READER_VARIABLE_INIT;
    if (reader == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_reader_describe needs a reader and a name");
    }
    int r = follow(reader, name, &(struct use){use_description, &found});
    return r != 0 ? r : coxi_struct_return(ret, COXI_STRUCT_READER_VARIABLE, &found);
}

struct dense_read {
    void *data;
    size_t bytes;
};

static int use_dense(const struct coxi_pull_from *from, const struct coxi_variable *v,
                     void *arg)
{
    const struct dense_read *read = arg;
    if (v->kind != COXI_KIND_DENSE || coxi_variable_bytes(v) != read->bytes) {
        return coxi_error(COX_EINVAL, "'%s' is %s of %zu bytes, not a dense one of %zu",
                          v->name,
                          v->kind == COXI_KIND_DENSE ? "a variable" : "a table, rows",
                          v->kind == COXI_KIND_DENSE ? coxi_variable_bytes(v)
                                                     : coxi_variable_row_bytes(v),
                          read->bytes);
    }
    return coxi_pull_rows(from, v, 0, coxi_variable_rows(v), read->data);
}

int cox_reader_read(struct cox_reader *reader, const char *name, void *ret_data,
                    size_t bytes)
{
    struct dense_read read = {ret_data, bytes};
    if (reader == NULL || name == NULL || ret_data == NULL) {
        return coxi_error(COX_EINVAL, "cox_reader_read needs a name and a place");
    }
    return follow(reader, name, &(struct use){use_dense, &read});
}

struct rows_read {
    const uint64_t *keys;
    size_t n_keys;
    uint32_t dim;
    float *rows;
};

static int use_rows(const struct coxi_pull_from *from, const struct coxi_variable *v,
                    void *arg)
{
    const struct rows_read *read = arg;
    if (v->kind != COXI_KIND_TABLE || coxi_table_dim(v) != read->dim) {
        return coxi_error(COX_EINVAL, "'%s' is no table of dim %u", v->name, read->dim);
    }
    return coxi_pull_keys(from, v, read->keys, read->n_keys, read->rows);
}

int cox_reader_lookup(struct cox_reader *reader, const char *table,
                      const uint64_t *keys, size_t n_keys, uint32_t dim,
                      float *ret_rows)
{
    struct rows_read read = {keys, n_keys, dim, ret_rows};
    if (reader == NULL || table == NULL ||
        (n_keys > 0 && (keys == NULL || ret_rows == NULL))) {
        return coxi_error(COX_EINVAL, "cox_reader_lookup needs keys and a place");
    }
    return follow(reader, table, &(struct use){use_rows, &read});
}

struct metric_read {
    double value;
    double weight;
};

static int use_metric(const struct coxi_pull_from *from, const struct coxi_variable *v,
                      void *arg)
{
    double numbers[COXI_METRIC_MAX];
    struct metric_read *read = arg;
    if (v->metric == COXI_METRIC_NONE) {
        return coxi_error(COX_EINVAL, "'%s' is no metric", v->name);
    }
    int r = coxi_pull_rows(from, v, 0, v->shape[0], numbers);
    return r == 0 ? coxi_metric_read(v->metric, numbers, v->shape[0], &read->value,
                                     &read->weight)
                  : r;
}

int cox_reader_metric(struct cox_reader *reader, const char *name, double *ret_value,
                      double *ret_weight)
{
    struct metric_read read = {0};
    if (reader == NULL || name == NULL || ret_value == NULL) {
        return coxi_error(COX_EINVAL, "cox_reader_metric needs a name and a place");
    }
    int r = follow(reader, name, &(struct use){use_metric, &read});
    if (r == 0) {
        *ret_value = read.value;
        if (ret_weight != NULL) {
            *ret_weight = read.weight;
        }
    }
    return r;
}

/*
 * Reads variables and tables, and tables' counters: from the calling thread straight to
 * the ps, all of them at the same time. A read waits until every ps is UP. If a ps was
 * lost meanwhile and came back, the whole read is repeated, because that ps may have
 * answered before all of its values were restored.
 */
#include <stdlib.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/structs.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/gate.h"
#include "coordinator/variables/content.h"
#include "coordinator/variables/registry.h"
#include "net/ps_client.h"
#include "net/pulls.h"

int coxi_content_check(const struct coxi_variable *v, uint64_t begin, uint64_t count,
                       size_t bytes)
{
    uint64_t rows = coxi_variable_rows(v);
    if (begin > rows || count > rows - begin) {
        return coxi_error(COX_EINVAL,
                          "variable '%s' has %llu rows, not %llu and %llu more",
                          v->name, (unsigned long long)rows, (unsigned long long)begin,
                          (unsigned long long)count);
    }
    if (bytes != count * coxi_variable_row_bytes(v)) {
        return coxi_error(COX_EINVAL, "variable '%s': %llu row%s %zu bytes, not %zu",
                          v->name, (unsigned long long)count,
                          count == 1 ? " of it takes" : "s of it take",
                          (size_t)count * coxi_variable_row_bytes(v), bytes);
    }
    return 0;
}

/*
 * True if the read must be repeated, because a ps was lost since it began, when
 * `n_losses` losses were known: that ps may have answered before all of its values were
 * restored. Waits until every ps is UP again. If the run ends instead, sets `*code` to
 * the error that ended it.
 */
static bool read_again(struct cox_coordinator *c, int *code, uint64_t n_losses)
{
    if (*code != 0 || coxi_ps_losses(c) == n_losses) {
        return coxi_ps_again(c, code);
    }
    *code = coxi_ps_wait(c);
    return *code == 0;
}

/* Begins a read when every ps is UP; *ret is for read_again. */
static int begin_read(struct cox_coordinator *c, uint64_t *ret)
{
    *ret = coxi_ps_losses(c);
    return coxi_ps_wait(c);
}

/* Reads by once(c, arg); calls it again if a ps was lost meanwhile. */
static int read_whole(struct cox_coordinator *c,
                      int (*once)(struct cox_coordinator *c, void *arg), void *arg)
{
    uint64_t n_losses;
    int r;
    do {
        r = begin_read(c, &n_losses);
        r = r == 0 ? once(c, arg) : r;
    } while (read_again(c, &r, n_losses));
    return r;
}

/* The ps from which the client reads. */
static struct coxi_pull_from source(struct cox_coordinator *c)
{
    return (struct coxi_pull_from){c->session, c->ps.clients, c->ps.n, 0};
}

/* ---- dense variables */

struct row_read {
    const struct coxi_variable *variable;
    uint64_t begin;
    uint64_t count;
    void *ret_data;
};

static int read_rows(struct cox_coordinator *c, void *arg)
{
    const struct row_read *read = arg;
    const struct coxi_pull_from from = source(c);
    return coxi_pull_rows(&from, read->variable, read->begin, read->count,
                          read->ret_data);
}

int coxi_content_read(struct cox_coordinator *c, const struct coxi_variable *v,
                      uint64_t begin, uint64_t count, void *ret_data)
{
    COXI_CALL_AS(c, "the read of a variable");
    int r = coxi_gate_wait(c);
    if (r != 0) {
        return r;
    }
    return read_whole(c, read_rows, &(struct row_read){v, begin, count, ret_data});
}

int cox_variable_read_rows(struct cox_coordinator *c, struct cox_variable *variable,
                           uint64_t begin, uint64_t count, void *ret_data, size_t bytes)
{
    if (c == NULL || variable == NULL || variable->entry.c != c ||
        (ret_data == NULL && count > 0)) {
        return coxi_error(COX_EINVAL, "cox_variable_read_rows needs a variable of this "
                                      "coordinator and a place for its elements");
    }
    const struct coxi_variable *v = variable->entry.description;
    int r = coxi_content_check(v, begin, count, bytes);
    return r == 0 ? coxi_content_read(c, v, begin, count, ret_data) : r;
}

int cox_variable_read(struct cox_coordinator *c, struct cox_variable *variable,
                      void *ret_data, size_t bytes)
{
    if (variable == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_read needs a variable");
    }
    return cox_variable_read_rows(c, variable, 0,
                                  coxi_variable_rows(variable->entry.description),
                                  ret_data, bytes);
}

/* ---- tables */

struct key_read {
    const struct coxi_variable *table;
    const uint64_t *keys;
    size_t n_keys;
    float *ret_rows;
};

static int read_keys(struct cox_coordinator *c, void *arg)
{
    const struct key_read *read = arg;
    const struct coxi_pull_from from = source(c);
    return coxi_pull_keys(&from, read->table, read->keys, read->n_keys, read->ret_rows);
}

int cox_table_read(struct cox_coordinator *c, struct cox_table *table,
                   const uint64_t *keys, size_t n_keys, float *ret_rows)
{
    if (c == NULL || table == NULL || table->entry.c != c ||
        (n_keys > 0 && (keys == NULL || ret_rows == NULL))) {
        return coxi_error(COX_EINVAL,
                          "cox_table_read needs a table of this coordinator, "
                          "keys, and a place for their rows");
    }
    COXI_CALL(c);
    int r = coxi_gate_wait(c);
    if (r != 0) {
        return r;
    }
    return read_whole(
        c, read_keys,
        &(struct key_read){table->entry.description, keys, n_keys, ret_rows});
}

/* ---- counters */

static void take_counts(void *arg, const struct coxi_message *answer)
{
    *(struct coxi_counts *)arg = answer->counts;
}

struct counting {
    const struct coxi_count *count;
    struct coxi_ps_round_call *calls; /* by ps, as `counts` */
    struct coxi_counts *counts;
};

static int count_once(struct cox_coordinator *c, void *arg)
{
    const struct counting *counting = arg;
    struct coxi_ps_round round;
    struct coxi_message message = {.kind = COXI_COUNT, .count = *counting->count};
    coxi_ps_round_begin(&round);
    for (uint32_t p = 0; p < c->ps.n; p++) {
        counting->calls[p] = (struct coxi_ps_round_call){
            .expect = COXI_COUNTS, .take = take_counts, .arg = &counting->counts[p]};
        coxi_ps_round_add(&round, c->ps.clients[p], &message, &counting->calls[p]);
    }
    return coxi_ps_round_end(&round);
}

int coxi_content_counts(struct cox_coordinator *c, const struct coxi_count *count,
                        void (*add)(void *arg, const struct coxi_counts *counts),
                        void *arg)
{
    struct coxi_ps_round_call *calls = calloc(c->ps.n, sizeof(*calls));
    struct coxi_counts *counts = calloc(c->ps.n, sizeof(*counts));
    int r = calls == NULL || counts == NULL
                ? coxi_error_memory("counters")
                : read_whole(c, count_once, &(struct counting){count, calls, counts});
    for (uint32_t p = 0; r == 0 && p < c->ps.n; p++) {
        add(arg, &counts[p]);
    }
    free(calls);
    free(counts);
    return r;
}

static void add_table(void *arg, const struct coxi_counts *counts)
{
    struct cox_table_stats *stats = arg;
    const struct coxi_table_counters *table = &counts->table;
    stats->rows += table->rows;
    stats->bytes += table->bytes;
    stats->lookups += table->lookups;
    stats->hits += table->hits;
    stats->admitted += table->admitted;
    stats->evicted += table->evicted;
    stats->updates += table->updates;
}

int cox_table_stats(struct cox_coordinator *c, struct cox_table *table,
                    struct cox_table_stats *ret)
{
    struct cox_table_stats stats = COX_TABLE_STATS_INIT;
    if (c == NULL || table == NULL || table->entry.c != c || ret == NULL) {
        return coxi_error(COX_EINVAL,
                          "cox_table_stats needs a table of this coordinator");
    }
    COXI_CALL(c);
    const struct coxi_count count = {.table =
                                         coxi_maybe_of(table->entry.description->id)};
    int r = coxi_content_counts(c, &count, add_table, &stats);
    return r != 0 ? r : coxi_struct_return(ret, COXI_STRUCT_TABLE_STATS, &stats);
}

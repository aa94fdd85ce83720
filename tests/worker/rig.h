/*
 * The inside of a worker for tests: parameter servers, slots and a run in this process,
 * and the client's end of the control connection. The run has the module "probe" as 0;
 * steps are found in all loaded modules.
 */
#ifndef COXI_TESTS_WORKER_RIG_H
#define COXI_TESTS_WORKER_RIG_H

#include <stdatomic.h>

#include "common/layout.h"
#include "net/ps_round.h"
#include "ps/service.h"
#include "tests/ps/caller.h"
#include "worker/run.h"
#include "worker/slots.h"

enum {
    RIG_CACHE = 1 << 20,
    RIG_KEPT = 1 << 20,
    RIG_ROWS = 1 << 20,
    RIG_PS_MAX = 17,
    RIG_STREAMS_MAX = 3, /* most ps over streams; more ps use shared memory */
    RIG_VARIABLES_MAX = 4
};

struct rig {
    uint32_t n_ps;
    struct coxi_ps *ps[RIG_PS_MAX]; /* NULL: the test has ended it */
    struct coxi_psc *client[RIG_PS_MAX];
    uint64_t incarnations[RIG_PS_MAX]; /* as the layout says */
    bool lost[RIG_PS_MAX];
    char addresses[RIG_PS_MAX][256];
    struct coxi_session session;
    struct coxi_links *links;
    struct coxi_loop *loop;
    struct coxi_slots *slots;
    struct coxi_run *run;
    atomic_bool run_freed;
    struct coxi_link *control; /* the worker's end of the control connection */
    struct caller *caller;     /* the client's end */

    struct coxi_variable variables[RIG_VARIABLES_MAX];
    struct coxi_shard shards[RIG_VARIABLES_MAX][RIG_PS_MAX];
    uint32_t n_variables;
    /* what closures are dispatched with that are in a round; zeroed: they are in none */
    struct coxi_round_head round;

    const struct coxi_message *done; /* rig_next is reading it; or NULL */
    size_t done_at;
    size_t kept_at;
    size_t payload_at;
};

void rig_open(struct rig *rig, uint32_t n_ps, uint32_t n_slots, uint32_t commit_window);
void rig_close(struct rig *rig);

/* A connection: the worker's end (for coxi_run_set_data), and the other. */
struct coxi_link *rig_connect(struct caller **ret);

/* Creates a variable like `variable`. Its rows are cut into n_shards shards, one on
 * each ps from first_ps on (a table: 0 shards). Returns its id. */
uint32_t rig_create(struct rig *rig, const struct coxi_variable *variable,
                    uint32_t first_ps, uint32_t n_shards);

/* Creates a variable of one I64 on ps `ps`; _spread: of `n_ps` F32, one on each ps.
 * Returns its id. */
uint32_t rig_counter(struct rig *rig, const char *name, uint32_t ps);
uint32_t rig_spread(struct rig *rig, const char *name);

/* Sends the run its layout, from the fields of the struct; returns the code. */
int rig_layout(struct rig *rig);

/* Loads module `name` as `id`; returns the code that the client receives. */
int rig_load(struct rig *rig, uint32_t id, const char *name, bool with_bytes);

/* The value of a counter, read as a client reads it. */
int64_t rig_read(struct rig *rig, uint32_t variable);

/* Closures for one dispatch. */
struct rig_batch {
    uint32_t timeout_ms; /* of closures that are added; 0: none */
    bool alone;          /* the first closure must run alone */
    struct coxi_buffer heads;
    struct coxi_buffer args;
};

void rig_batch_add(struct rig *rig, struct rig_batch *batch, uint64_t closure,
                   uint32_t attempt, const char *function, const struct cox_value *args,
                   size_t n_args);
int rig_batch_push(struct rig *rig, struct rig_batch *batch); /* frees it */

/* Dispatches one closure by itself. */
void rig_push(struct rig *rig, uint64_t closure, uint32_t attempt, const char *function,
              const struct cox_value *args, size_t n_args);

/* Adds `value` to the counter called `name`. */
void rig_push_add(struct rig *rig, uint64_t closure, uint32_t attempt, const char *name,
                  int64_t value);

/* The next report of a closure's end that the client gets. Valid until the next
 * call. */
struct rig_done {
    struct coxi_done_head head;
    const uint32_t *touched;
    const void *result; /* an error: its text; kept: the number of bytes, a u64 */
    bool kept;
};
struct rig_done rig_next(struct rig *rig);

/* Asserts that the next closure to end is `closure`, with `code`. */
struct rig_done rig_expect(struct rig *rig, uint64_t closure, int code);

/* The result `name`; _result: an I64. */
struct cox_value rig_value(const struct rig_done *done, const char *name);
int64_t rig_result(const struct rig_done *done, const char *name);

#endif

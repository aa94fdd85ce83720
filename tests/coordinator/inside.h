/* What tests of the client must see of its inside. */
#ifndef COXI_TESTS_COORDINATOR_INSIDE_H
#define COXI_TESTS_COORDINATOR_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coxswain/coxswain.h"

/* True if a thread waits for the future. */
bool inside_is_waited_for(struct cox_future *future);

/* Offers a result to the future of a closure that is not settled, on the loop; true if
 * it is copied. */
bool inside_keeps(struct cox_coordinator *c, struct cox_future *future,
                  const void *result, size_t len);

/* How many futures the closure still holds as inputs. */
size_t inside_inputs(struct cox_coordinator *c, struct cox_future *future);

/* True if all ps are being asked about the closure, or will be; the closure is not
 * settled. */
bool inside_is_voiding(struct cox_coordinator *c, struct cox_future *future);

/* Emits `n` warnings of one code. */
void inside_tell(struct cox_coordinator *c, int n);

/* Emits an error (run_over), an information (worker_back) and a debug event
 * (checkpoint_saved). */
void inside_tell_levels(struct cox_coordinator *c);

/* How often ps were lost. */
uint64_t inside_losses(struct cox_coordinator *c);

/* A call that belongs to no coordinator, for a replay log (NULL: no memory); and its
 * release. */
struct coxi_closure;
struct coxi_closure *inside_call(uint64_t id);
void inside_let_go(struct coxi_closure *call);

/* A replay log for such calls; adds a call that is done. */
struct coxi_replay_log;
int inside_log_new(uint32_t n_ps, uint64_t bytes_max, struct coxi_replay_log **ret);
int inside_log_call(struct coxi_replay_log *log, struct coxi_closure *call,
                    const uint32_t *touched, size_t n_touched);

/* True if closures, writes and reads must first check for work that an older client has
 * left (closures/gate.h). */
bool inside_has_gate(struct cox_coordinator *c);

/* How many workers take closures. Asks no ps. */
uint32_t inside_ready(struct cox_coordinator *c);

/* Behaves as if `n` closures that touch nothing had run, on the loop; the ps know of
 * all that was settled before. */
void inside_skip_ids(struct cox_coordinator *c, uint64_t n);

/* The incarnations of the ps. */
void inside_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* Breaks the client's connections to a ps, so that it takes the ps for lost. */
void inside_cut_off(struct cox_coordinator *c, uint32_t ps);

/* The coordinator of a recovery. */
struct coxi_recovery;
struct cox_coordinator *inside_recovers(const struct coxi_recovery *rec);

/* Loads a variable from the checkpoint `path` into ps of these incarnations. */
int inside_load(struct cox_coordinator *c, struct cox_variable *variable,
                const char *path, const uint64_t *incarnations);

/*
 * An assignment of the client's own, in separate steps that a checkpoint may come
 * between. _begin: it has an id, and no ps was asked. _refuse: makes ps `ps` refuse it.
 * _rows: writes rows; returns what cox_variable_assign would return. _end: ends it with
 * the result of the last write; `dies`: gives it up, as a client does that dies.
 */
struct coxi_operation;
struct coxi_operation *inside_write_begin(struct cox_coordinator *c,
                                          struct cox_variable *variable,
                                          const void *data);
struct coxi_operation *inside_rate_begin(struct cox_coordinator *c,
                                         struct cox_variable *variable, float rate);
int inside_write_refuse(struct coxi_operation *operation, uint32_t ps);
int inside_write_rows(struct coxi_operation *operation, struct cox_variable *variable,
                      uint64_t begin, uint64_t count, const void *rows);
void inside_write_end(struct coxi_operation *operation, bool dies);

/* Makes the log say that only these rows were written. */
void inside_write_narrow(struct coxi_operation *operation, const uint64_t ranges[][2],
                         size_t n);

/* Makes ps `ps` refuse the client's next own operation. */
int inside_refuse_next(struct cox_coordinator *c, uint32_t ps);

#endif

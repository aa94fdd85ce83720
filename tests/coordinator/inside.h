/* What tests of the client look at inside it. */
#ifndef COXI_TESTS_COORDINATOR_INSIDE_H
#define COXI_TESTS_COORDINATOR_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coxswain/coxswain.h"

/* Some thread waits for the future. */
bool inside_is_waited_for(struct cox_future *future);

/* Offers the future of a closure that is not settled a result, on the loop; true if it is
 * copied. */
bool inside_keeps(struct cox_coordinator *c, struct cox_future *future,
                  const void *result, size_t len);

/* How many futures that a closure took it still holds on to. */
size_t inside_inputs(struct cox_coordinator *c, struct cox_future *future);

/* All ps are being asked about it, or are to be: of a closure that is not settled. */
bool inside_is_voiding(struct cox_coordinator *c, struct cox_future *future);

/* Tells `n` warnings of one code. */
void inside_tell(struct cox_coordinator *c, int n);

/* Tells an error (run_over), an information (worker_back) and one for debugging
 * (checkpoint_saved). */
void inside_tell_levels(struct cox_coordinator *c);

/* How often a ps has been lost. */
uint64_t inside_losses(struct cox_coordinator *c);

/* A call of no coordinator, for the log to keep; and letting go of it. NULL: no memory. */
struct coxi_closure;
struct coxi_closure *inside_call(uint64_t id);
void inside_let_go(struct coxi_closure *call);

/* A replay log of such calls, and one that is done. */
struct coxi_replay_log;
int inside_log_new(uint32_t n_ps, uint64_t bytes_max, struct coxi_replay_log **ret);
int inside_log_call(struct coxi_replay_log *log, struct coxi_closure *call,
                    const uint32_t *touched, size_t n_touched);

/* Closures, writes and reads go past what an older client has left (closures/gate.h). */
bool inside_has_gate(struct cox_coordinator *c);

/* How many workers take closures. Asks no ps. */
uint32_t inside_ready(struct cox_coordinator *c);

/* As if `n` closures that touch nothing had run, on the loop: the ps have been told what
 * was settled before. */
void inside_skip_ids(struct cox_coordinator *c, uint64_t n);

/* The incarnations of the ps. */
void inside_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* Breaks the client's connections to a ps, which it takes for lost then. */
void inside_cut_off(struct cox_coordinator *c, uint32_t ps);

/* Whose recovery that is. */
struct coxi_recovery;
struct cox_coordinator *inside_recovers(const struct coxi_recovery *rec);

/* Loads what the checkpoint `path` has of a variable into ps of those incarnations. */
int inside_load(struct cox_coordinator *c, struct cox_variable *variable,
                const char *path, const uint64_t *incarnations);

/*
 * An assignment of the client's own in parts, as a moment of it that a checkpoint may meet. It
 * begins: has an id, and no ps has been asked. Ps `ps` is made to refuse it. Rows are written:
 * what cox_variable_assign would return. It ends, as what was written last says; or it is given up
 * by a client that has died (`dies`).
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

/* Has the log say that only these rows were written. */
void inside_write_narrow(struct coxi_operation *operation, const uint64_t ranges[][2],
                         size_t n);

/* Has ps `ps` refuse the next operation of the client's own. */
int inside_refuse_next(struct cox_coordinator *c, uint32_t ps);

#endif

/*
 * Rounds: synchronous training, with as much overlap as you allow.
 *
 *     struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
 *     cox_rounds_create(c, &spec, &rounds);
 *     for (i = 0; i < n_rounds; i++) {
 *         struct cox_round_call calls[4] = {{train, &call_a}, {train, &call_b}, ...};
 *         cox_round_schedule(rounds, calls, 4, NULL, NULL);
 *     }
 *     cox_join(c, -1);
 *
 * The closures of a round run at the same time, and see the variables as of the end of
 * an earlier round. What they push waits on the ps. When the round is complete, the ps
 * add up the gradients of its closures, and each optimizer makes one step with the sum.
 * The sum does not depend on the order in which the closures ended.
 *
 * A round is applied once and as a whole, or not at all: whatever dies meanwhile, each
 * closure counts once in its round. A closure of a round is done when its round is
 * applied. If so many of them fail that the round cannot be complete any more, the
 * others are cancelled, and nothing of the round is applied.
 */
#ifndef COXSWAIN_ROUND_H
#define COXSWAIN_ROUND_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_call;
struct cox_coordinator;
struct cox_dataset;
struct cox_function;
struct cox_future;
struct cox_rounds;

/* What becomes of the gradients of a round's closures, each times the closure's weight
 * (cox_step_weight in coxswain/step.h). */
enum cox_reduce {
    COX_REDUCE_MEAN = 0, /* their sum, divided by the sum of the weights */
    COX_REDUCE_SUM = 1,
};

/* In cox_rounds_spec.staleness: no round waits for another. */
#define COX_STALENESS_ANY UINT32_MAX

enum {
    COX_ROUND_MAX = 4096,     /* closures in a round */
    COX_STALENESS_MAX = 4096, /* the largest bound but COX_STALENESS_ANY */
};

/* A sequence of rounds. Initialize it with COX_ROUNDS_SPEC_INIT. */
struct cox_rounds_spec {
    size_t size;

    /*
     * The bound k of stale synchronous parallel training (Ho et al., NIPS 2013): the
     * closures of a round see all rounds but the k before it, unless these have failed.
     * Up to k later rounds may be applied before it. 0: one round after the other. At
     * most COX_STALENESS_MAX, or COX_STALENESS_ANY.
     */
    uint32_t staleness;

    /*
     * Backup closures (Chen et al., ICLR workshop 2016): a round of n closures is
     * complete with n - backups of them. Those that are not done by then are settled
     * with COX_ELATE, and nothing of them is applied; cox_join and cox_schedule report
     * no error for them. Those that run go on, and are not cancelled. Must be less than n.
     */
    uint32_t backups;

    uint32_t reduce; /* enum cox_reduce */

    /*
     * 1: the rounds leave the same bits in every run, for any number of workers and
     * ps, whichever of workers, ps and client die meanwhile, and however often. Needs
     * staleness 0 and no backups. After the loss of a ps all ps are set back to the
     * last checkpoint, and the rounds since then are done again. docs/modes.md says
     * what else this takes of a program, and what it costs.
     */
    uint32_t deterministic;
};
#define COX_ROUNDS_SPEC_INIT COX_INIT(cox_rounds_spec)

/* One closure of a round; `call` as for cox_schedule. */
struct cox_round_call {
    struct cox_function *function;
    const struct cox_call *call;
};

/*
 * Makes a sequence of rounds, which lives as long as the coordinator. A program may have
 * several, say one for each group of variables; their rounds do not wait for each other.
 * The first rounds wait for rounds that an older client has left. Any thread.
 * COX_EINVAL: also for a combination that cannot be deterministic; COX_ENOMEM.
 */
COX_API int cox_rounds_create(struct cox_coordinator *c,
                              const struct cox_rounds_spec *spec,
                              struct cox_rounds **ret);

/*
 * Schedules the next round of the sequence, with n closures (1 to COX_ROUND_MAX).
 * Waits for room as cox_schedule does, once for all of them, and returns its errors;
 * then nothing was scheduled. `futures`: NULL, or receives the futures of the n
 * closures. `ret_end`: NULL, or receives a future of the round: done when the round is
 * applied; otherwise it has the error of the first closure that failed. Free each future
 * with cox_future_free. cox_future_cancel of that future cancels the round, unless it is
 * complete. Any thread.
 *
 * A step of a round may do what any step may. Its updates, also those that it has
 * flushed, wait for the end of the round, so no pull sees them before. Updates that are
 * no gradients are applied one after the other, in the order of the closures, before the
 * sums of the gradients. The place of a round in schedules of learning rates is that of
 * the first of its closures that counts.
 *
 * Closures of a deterministic sequence may not `keep` their results (COX_EINVAL), and
 * have one argument or input fewer than others (COX_ELIMIT).
 */
COX_API int cox_round_schedule(struct cox_rounds *rounds,
                               const struct cox_round_call *calls, size_t n,
                               struct cox_future **futures,
                               struct cox_future **ret_end);

/*
 * The same with the next n tasks of a data set (coxswain/dataset.h): each closure of the
 * round runs `function` with one of them, and with `call` as for cox_schedule_next. Let
 * steps give the number of their records as cox_step_weight, if tasks differ in size.
 *
 * A round has tasks of one epoch. It waits until there are n, and the last round of an
 * epoch, which it schedules when no other task of the epoch is left, has fewer closures.
 * Such a round is complete with n - backups of them, or with all if there are not more.
 * Of `futures` (room for n) those without a closure are NULL. An epoch begins when each
 * task of the one before is over.
 *
 * A task is done when its closure counts in a round that is applied. A closure that came
 * late (COX_ELATE), was cancelled, or was in a round that has failed gives its task
 * back, and a later round gets it: if it came late, when no other task is left, or after
 * a rest (100 ms, twice as long each time, at most 10 s). None of these is a failure of the task; nor is a step
 * that flushes and fails any worse than one that fails, because nothing of a round is
 * applied before all of it is. If a closure fails and its round cannot be complete
 * without it, the tasks of the others come again.
 *
 * COX_EEOF, and the errors of tasks that have failed: as cox_schedule_next. COX_EINVAL,
 * also: the rounds are deterministic. Other errors: those of cox_schedule_next and
 * cox_round_schedule.
 */
COX_API int cox_round_schedule_next(struct cox_rounds *rounds,
                                    struct cox_function *function,
                                    struct cox_dataset *dataset,
                                    const struct cox_call *call, size_t n,
                                    struct cox_future **futures,
                                    struct cox_future **ret_end);

#ifdef __cplusplus
}
#endif
#endif

/*
 * The applied set: which segments of which closures this ps has applied. It makes a
 * commit that comes twice count once (docs/exactly-once.md, rules 6 and 7).
 *
 * All closures up to the watermark are settled and need no record. Each closure above
 * it has an entry in a ring that covers at most COXI_APPLIED_WINDOW ids: which of its
 * segments are applied (ps/marks.h), and which of its attempts are voided.
 */
#ifndef COXI_PS_APPLIED_H
#define COXI_PS_APPLIED_H

#include <stddef.h>
#include <stdint.h>

#include "common/applied_list.h"
#include "common/buffer.h"
#include "net/message.h"

enum {
    COXI_APPLIED_WINDOW = 1 << 20, /* closures above the watermark */
};

/* The highest closure and watermark. A window above it does not wrap, and nobody
 * schedules as many closures. */
#define COXI_CLOSURE_MAX (UINT64_MAX / 2)

struct coxi_applied;

int coxi_applied_new(struct coxi_applied **ret);
void coxi_applied_free(struct coxi_applied *applied); /* takes NULL */

/* Checks the numbers of a commit, which come from a peer. COX_ELIMIT: no commit with them
 * can be applied. Any thread. */
int coxi_applied_check(const struct coxi_commit *commit);

/*
 * Asks to apply a commit. 0: apply it, then call coxi_applied_end; other calls for the
 * same closure wait until then. COX_EEXIST: the segment was applied before.
 * COX_EDIVERGED: it was applied with another `last` or `touched`. COX_ECANCELLED: the
 * attempt is voided. COX_ELIMIT: the closure is beyond the window or the segment beyond
 * its maximum, it touched more than COXI_PS_MAX ps, or the set has no room for that
 * (ps/marks.h). COX_ENOMEM. Any thread.
 */
int coxi_applied_begin(struct coxi_applied *applied, const struct coxi_commit *commit);

/* Ends coxi_applied_begin: the commit was applied, or it failed and leaves no
 * record. */
void coxi_applied_end(struct coxi_applied *applied, uint64_t closure, int failed);

/* COX_EEXIST: the set has a segment of the closure, or its watermark is not below it.
 * COX_ELIMIT: the closure is beyond the window. 0 otherwise. Any thread. */
int coxi_applied_ask(struct coxi_applied *applied, uint64_t closure);

/*
 * Refuses attempts of the closure up to `attempt` from now on (docs/exactly-once.md,
 * rule 8), and appends what is applied of the closure: struct coxi_voided_segment to
 * *segments, the ps that each segment touched to *touched. Appends nothing for a
 * closure at or below the watermark, because it is settled. COX_ELIMIT, COX_ENOMEM. Any
 * thread.
 */
int coxi_applied_void(struct coxi_applied *applied, uint64_t closure, uint32_t attempt,
                      struct coxi_buffer *segments, struct coxi_buffer *touched);

/* Moves the watermark on; a lower one is ignored. COX_ELIMIT: it is above
 * COXI_CLOSURE_MAX. Any thread. */
int coxi_applied_advance(struct coxi_applied *applied, uint64_t watermark);

/* Copies the set to a list, which the caller frees with _fini. No coxi_applied_begin
 * may be open (a snapshot ensures that). COX_ENOMEM. */
int coxi_applied_list(struct coxi_applied *applied, struct coxi_applied_list *ret);

/*
 * Fills a new set from the list, whose intervals refer into `touched` (the codec checks
 * that). COX_EFORMAT: the list describes no set; COX_ENOMEM. After an error the set
 * must not be used.
 */
int coxi_applied_load(struct coxi_applied *applied,
                      const struct coxi_applied_list *list);

#endif

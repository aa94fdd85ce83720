/*
 * Marks: a mark says which segments of a closure are applied on this ps, and for each
 * segment whether it was the last one and which ps it touched. Similar steps touch the
 * same ps, so many closures have equal marks. Equal marks are stored once, and a
 * closure costs the applied set only the mark's number.
 *
 * Not thread-safe: under the applied set's lock.
 */
#ifndef COXI_PS_MARKS_H
#define COXI_PS_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COXI_MARK_NONE = 0 };

struct coxi_marks;

/* A segment that is in a mark, or will be added to one. */
struct coxi_segment {
    uint32_t segment;
    bool last;
    const uint32_t *touched;
    size_t n_touched;
};

/* `bytes_max`: the most memory of all marks. COX_ENOMEM. */
int coxi_marks_new(size_t bytes_max, struct coxi_marks **ret);
void coxi_marks_free(struct coxi_marks *marks); /* takes NULL */

/* Finds or makes the mark that has the segments of `mark`, and `segment` in addition.
 * The caller must drop it. COX_ELIMIT: bytes_max would be passed; COX_ENOMEM. */
int coxi_marks_with(struct coxi_marks *marks, uint32_t mark,
                    const struct coxi_segment *segment, uint32_t *ret);

/* Adds n uses of a mark. A negative n takes uses away, but at least one must stay. */
void coxi_marks_use(struct coxi_marks *marks, uint32_t mark, int64_t n);

/* Ends a use of `mark`. */
void coxi_marks_drop(struct coxi_marks *marks, uint32_t mark);

/* Gives the next segment of a mark, in rising order; *at is 0 before the first. False:
 * there are no more. *ret is valid while the mark is used. */
bool coxi_marks_next(const struct coxi_marks *marks, uint32_t mark, uint32_t *at,
                     struct coxi_segment *ret);

/* False: `mark` does not have segment number `segment`. */
bool coxi_marks_find(const struct coxi_marks *marks, uint32_t mark, uint32_t segment,
                     struct coxi_segment *ret);

#endif

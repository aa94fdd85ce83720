/*
 * What is known of an applied closure: its segments here, each with whether it was the
 * last and which ps it touched. Equal ones are kept once, for steps that are alike
 * touch alike; so a closure costs the applied set one number.
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

/* A segment of a mark, or to be added to one. */
struct coxi_segment {
    uint32_t segment;
    bool last;
    const uint32_t *touched;
    size_t n_touched;
};

int coxi_marks_new(struct coxi_marks **ret);
void coxi_marks_free(struct coxi_marks *marks); /* takes NULL */

/*
 * The mark that has what `mark` has and `segment`, which `mark` has not. The caller owns
 * a use of it. COX_ENOMEM.
 */
int coxi_marks_with(struct coxi_marks *marks, uint32_t mark,
                    const struct coxi_segment *segment, uint32_t *ret);

/* A use of `mark` less. */
void coxi_marks_drop(struct coxi_marks *marks, uint32_t mark);

/*
 * The next segment of a mark, in their order: *at is 0 before the first. False: that was
 * the last. Valid while the mark is used.
 */
bool coxi_marks_next(const struct coxi_marks *marks, uint32_t mark, uint32_t *at,
                     struct coxi_segment *ret);

/* False: `mark` does not have segment number `segment`. */
bool coxi_marks_find(const struct coxi_marks *marks, uint32_t mark, uint32_t segment,
                     struct coxi_segment *ret);

#endif

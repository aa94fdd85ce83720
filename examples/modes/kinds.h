/* The modes of training that the example compares. */
#ifndef MODES_KINDS_H
#define MODES_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KINDS = 10 };

struct kind {
    const char *name;   /* in --modes */
    const char *label;  /* in the table and the legends */
    const char *step;   /* a step of steps.c */
    bool merges;        /* a closure has --merged batches, otherwise one */
    bool rounds;        /* closures are in rounds, with these two bounds */
    uint32_t staleness; /* of cox_rounds_spec */
    uint32_t backups;   /* of cox_rounds_spec */
    uint32_t action;    /* enum cox_staleness_action */
    bool compensates;   /* --lambda is the variables' delay_compensation */
    int colour;         /* of its curve: 0 to 5 */
    bool dashed;        /* its curve */
};

extern const struct kind kinds[KINDS];

/* Fills `ret` with which modes a list like "async,sync" has. False: a name is none of a
 * mode, or there are none. */
bool kinds_parse(const char *list, bool ret[KINDS]);

#endif

/* See kinds.h. */
#include "kinds.h"

#include <string.h>

#include <coxswain/coxswain.h>

const struct kind kinds[KINDS] = {
    {.name = "async", .label = "asynchronous", .step = "train"},
    {.name = "sync",
     .label = "synchronous",
     .step = "train",
     .rounds = true,
     .colour = 1},
    {.name = "backups",
     .label = "synchronous, 1 backup",
     .step = "train",
     .rounds = true,
     .backups = 1,
     .colour = 1,
     .dashed = true},
    {.name = "bound1",
     .label = "bounded, k = 1",
     .step = "train",
     .rounds = true,
     .staleness = 1,
     .colour = 2},
    {.name = "bound3",
     .label = "bounded, k = 3",
     .step = "train",
     .rounds = true,
     .staleness = 3,
     .colour = 2,
     .dashed = true},
    {.name = "local",
     .label = "local steps",
     .step = "local",
     .merges = true,
     .colour = 3},
    {.name = "accumulate",
     .label = "accumulation",
     .step = "accumulate",
     .merges = true,
     .colour = 3,
     .dashed = true},
    {.name = "scale",
     .label = "stale ones scaled",
     .step = "train",
     .action = COX_STALENESS_SCALE,
     .colour = 4},
    {.name = "drop",
     .label = "stale ones dropped",
     .step = "train",
     .action = COX_STALENESS_DROP,
     .colour = 4,
     .dashed = true},
    {.name = "compensate",
     .label = "delay compensation",
     .step = "train",
     .compensates = true,
     .colour = 5},
};

bool kinds_parse(const char *list, bool ret[KINDS])
{
    memset(ret, 0, KINDS * sizeof(*ret));
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int i = 0;
        while (i < KINDS &&
               (strlen(kinds[i].name) != n || strncmp(kinds[i].name, at, n) != 0)) {
            i++;
        }
        if (i == KINDS) {
            return false;
        }
        ret[i] = true;
        at += n;
        if (*at == '\0') {
            return true;
        }
    }
}

/* See seen.h. Two tables, of which the older is emptied when the newer is half full. */
#include "net/seen.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"

enum { CELLS = 2 * COXI_SEEN_MIN };

struct coxi_seen {
    struct coxi_mutex lock; /* leaf */
    /* open addressing; 0: empty */
    uint64_t cells[2][CELLS] COXI_GUARDED_BY(lock);
    uint32_t n COXI_GUARDED_BY(lock); /* in the newer table */
    int newer COXI_GUARDED_BY(lock);
};

int coxi_seen_new(struct coxi_seen **ret)
{
    struct coxi_seen *seen = calloc(1, sizeof(*seen));
    if (seen == NULL) {
        return coxi_error_memory("handshakes");
    }
    coxi_mutex_init(&seen->lock);
    *ret = seen;
    return 0;
}

void coxi_seen_free(struct coxi_seen *seen)
{
    if (seen != NULL) {
        coxi_mutex_fini(&seen->lock);
        free(seen);
    }
}

/* The cell of the tag in a table that is at most half full, or the empty one for it. */
static size_t find(const uint64_t cells[CELLS], uint64_t tag)
{
    size_t at = tag % CELLS;
    while (cells[at] != 0 && cells[at] != tag) {
        at = (at + 1) % CELLS;
    }
    return at;
}

bool coxi_seen_before(struct coxi_seen *seen, const uint8_t tag[8])
{
    uint64_t number;
    memcpy(&number, tag, sizeof(number));
    number += number == 0;
    coxi_lock(&seen->lock);
    bool before = seen->cells[0][find(seen->cells[0], number)] == number ||
                  seen->cells[1][find(seen->cells[1], number)] == number;
    if (!before && seen->n == COXI_SEEN_MIN) {
        seen->newer = 1 - seen->newer;
        memset(seen->cells[seen->newer], 0, sizeof(seen->cells[0]));
        seen->n = 0;
    }
    if (!before) {
        uint64_t *cells = seen->cells[seen->newer];
        cells[find(cells, number)] = number;
        seen->n++;
    }
    coxi_unlock(&seen->lock);
    return before;
}

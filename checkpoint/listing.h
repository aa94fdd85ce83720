/* Which checkpoints a directory, or a place in a store, has. Any thread. */
#ifndef COXI_CHECKPOINT_LISTING_H
#define COXI_CHECKPOINT_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coxi_listed {
    uint64_t number;
    /* it is being written or deleted, or its process died while it did so */
    bool unfinished;
};

/* Lists the checkpoints of a directory by rising numbers; free() the list. LATEST may
 * still name an older one than the newest. COX_ENOENT: there is no such directory;
 * COX_EIO. */
int coxi_checkpoints_list(const char *dir, struct coxi_listed **ret, size_t *ret_n);

#endif

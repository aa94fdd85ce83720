/* Waiting for the disk, by those who may have to give up. Any thread. */
#ifndef COXI_COMMON_DISK_H
#define COXI_COMMON_DISK_H

#include <stdatomic.h>

/*
 * fsync, but for a thread that has said when it gives up: then it returns -1 with errno
 * ECANCELED within GIVE_UP_MS of that, and the bytes may be on disk later, or not.
 */
int coxi_disk_sync(int fd);

/*
 * The calling thread gives up waiting in coxi_disk_sync when `flag` is true; NULL: never. The
 * flag has to outlive that. (A disk that does not answer cannot be made to: what waits for it
 * then is a thread of nobody's.)
 */
void coxi_disk_give_up_when(const atomic_bool *flag);

#endif

/* Waiting for the disk, for threads that may have to give up. Any thread. */
#ifndef COXI_COMMON_DISK_H
#define COXI_COMMON_DISK_H

#include <stdatomic.h>

/*
 * fsync, but for a thread that has said when it gives up: then it returns -1 with errno
 * ECANCELED within GIVE_UP_MS of that, and the bytes may be on disk later, or not.
 */
int coxi_disk_sync(int fd);

/*
 * From now on the calling thread gives up waiting in coxi_disk_sync when `flag` is
 * true; NULL: never. The flag must outlive that. Nobody can make a dead disk answer, so
 * then a detached thread goes on waiting for it.
 */
void coxi_disk_give_up_when(const atomic_bool *flag);

#endif

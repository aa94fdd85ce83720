/* Waiting for the disk, for threads that may have to give up. Any thread. */
#ifndef COXI_COMMON_DISK_H
#define COXI_COMMON_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * fsync; but a thread that has set a flag with coxi_disk_give_up_when gives up within
 * GIVE_UP_MS of that flag. Then it returns -1 with errno ECANCELED, and the bytes may
 * or may not be on disk later.
 */
int coxi_disk_sync(int fd);

/*
 * From now on the calling thread gives up waiting in coxi_disk_sync when `flag` is
 * true; NULL: never. The flag must live until the next call of this function. Because
 * nobody can make a dead disk answer, a detached thread then goes on waiting for the
 * disk.
 */
void coxi_disk_give_up_when(const atomic_bool *flag);

/* The calling thread's flag; NULL: none. For threads that it starts, which work for it. */
const atomic_bool *coxi_disk_flag(void);

/* From now on the calling thread also gives up at that time (coxi_now_ms), but not in
 * coxi_disk_sync; UINT64_MAX: never. */
void coxi_disk_give_up_at(uint64_t end_ms);

/* True if the calling thread gives up now: for other waits for what files are kept on. */
bool coxi_disk_gives_up(void);

#endif

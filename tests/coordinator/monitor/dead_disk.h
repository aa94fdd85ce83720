/* A disk that does not answer: the writes of coxi_fd_write to some files do not end. */
#ifndef COXI_TESTS_COORDINATOR_MONITOR_DEAD_DISK_H
#define COXI_TESTS_COORDINATOR_MONITOR_DEAD_DISK_H

#include <stdbool.h>

/* From now on, of files whose path contains `part`, which must live on. */
void dead_disk_begin(const char *part);

/* It answers again. */
void dead_disk_end(void);

/* For coxi_test_until: a write waits; no thread of this process has the name `arg`. */
bool dead_disk_is_waiting(void *arg);
bool dead_disk_has_left(void *arg);

#endif

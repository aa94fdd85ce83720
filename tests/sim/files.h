/*
 * The simulated disk: one file system that all processes share, in the memory of a run.
 * Bytes that a process wrote stay when it is killed, as with a kernel; its descriptors,
 * and the locks on them, are dropped.
 */
#ifndef COXI_SIM_FILES_H
#define COXI_SIM_FILES_H

#include <stddef.h>
#include <stdint.h>

struct sim_proc;

/* Begins with an empty disk that has the directory "/sim". */
void sim_files_begin(void);

void sim_files_put(const char *path, const void *bytes, size_t len);

/* Drops the descriptors of a process that has died. */
void sim_files_drop(const struct sim_proc *proc);

/* From now until `until`, writes fail with `error` (errno). */
void sim_files_fail(int error, uint64_t until);

/* From now until `until`, each write takes `slow_ns`. */
void sim_files_slow(uint64_t slow_ns, uint64_t until);

/* Kills the process at its n-th operation from now on that changes the disk, before
 * that operation is done. */
void sim_files_kill_at(struct sim_proc *proc, uint64_t n);

/* Calls `seen` before each operation that changes the disk ("mkdir", "fsync" ...); it
 * returns by how many ns the operation takes longer. NULL: calls nothing. `seen` must
 * neither wait nor kill. */
void sim_files_watch(uint64_t (*seen)(struct sim_proc *proc, const char *what,
                                      const char *path));

/* Opens a directory; returns its descriptor, or -1 with errno. */
int sim_files_open_directory(const char *path);

/* The path of an open descriptor, or NULL. */
const char *sim_files_path(int fd);

/* Copies of the paths of `dir` (if it exists) and of everything below it; returns how
 * many. */
size_t sim_files_list(const char *dir, char ***ret);

#endif

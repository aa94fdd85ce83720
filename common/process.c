/* See process.h. */
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"

/* Fields of /proc/PID/stat, counted from 0 after the program's name. */
enum { STAT_THREADS = 17, STAT_BEGAN = 19, STAT_VIRTUAL = 20, STAT_FIELDS = 21 };

/* Reads a file of /proc. False: it cannot be read. */
static bool read_proc(const char *path, char *ret, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = coxi_fd_read(fd, ret, room - 1);
    ret[n > 0 ? n : 0] = '\0';
    (void)close(fd);
    return n > 0;
}

bool coxi_process_read(int pid, struct coxi_process *ret)
{
    char path[64];
    char text[1024];
    uint64_t fields[STAT_FIELDS] = {0};
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    /* the name before the fields may have spaces and brackets */
    char *at = read_proc(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    if (at == NULL || at[1] == '\0' || at[2] == '\0') {
        return false;
    }
    char state = at[2];
    at += 3;
    for (size_t i = 1; i < STAT_FIELDS; i++) {
        fields[i] = strtoull(at, &at, 10);
    }
    *ret = (struct coxi_process){.state = state,
                                 .n_threads = fields[STAT_THREADS],
                                 .began_ticks = fields[STAT_BEGAN],
                                 .virtual_bytes = fields[STAT_VIRTUAL]};
    return true;
}

uint64_t coxi_process_resident_bytes(int pid)
{
    char path[64];
    char text[256];
    char *pages = text;
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    if (!read_proc(path, text, sizeof(text))) {
        return 0;
    }
    (void)strtoull(text, &pages, 10);
    return strtoull(pages, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- which one it is */

bool coxi_process_self(struct coxi_process_id *ret)
{
    struct coxi_process_id id = {.pid = (int)getpid()};
    struct coxi_process process;
    struct stat pid_namespace;
    if (!coxi_process_read(id.pid, &process) ||
        stat("/proc/self/ns/pid", &pid_namespace) != 0 ||
        !read_proc("/proc/sys/kernel/random/boot_id", id.boot, sizeof(id.boot))) {
        return false;
    }
    id.boot[strcspn(id.boot, "\n")] = '\0';
    id.began_ticks = process.began_ticks;
    id.pid_namespace = pid_namespace.st_ino;
    *ret = id;
    return true;
}

/* A process whose first thread has ended looks like one that has ended, while others go on. */
static bool has_ended(const struct coxi_process *process)
{
    return process->state == 'X' || (process->state == 'Z' && process->n_threads <= 1);
}

enum coxi_process_life coxi_process_look(const struct coxi_process_id *id)
{
    struct coxi_process_id self;
    struct coxi_process process;
    if (!coxi_process_self(&self) || strcmp(id->boot, self.boot) != 0 ||
        id->pid_namespace != self.pid_namespace || id->pid <= 0) {
        return COXI_PROCESS_UNKNOWN;
    }
    if (!coxi_process_read(id->pid,
                           &process)) { /* /proc may hide those of other users */
        return kill(id->pid, 0) != 0 && errno == ESRCH ? COXI_PROCESS_GONE
                                                       : COXI_PROCESS_UNKNOWN;
    }
    return process.began_ticks == id->began_ticks && !has_ended(&process)
               ? COXI_PROCESS_LIVES
               : COXI_PROCESS_GONE;
}

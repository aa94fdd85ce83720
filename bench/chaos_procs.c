/*
 * The descendants of this process, from /proc. A process that was found may end at any
 * time, and its number may be another's then. So a process is pinned, and looked at
 * again, before it gets a signal. Cost of a look: a read for each process of the host.
 */
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "common/clock.h"

enum {
    ALL_MAX = 8192,
    SOCKETS_MAX = 1024,
    DEATH_MS = 2000, /* from kill -9 to the end of the process */
};

/* Reads a file of /proc/<pid>; false: the process is gone. */
static bool read_file(pid_t pid, const char *name, char *ret, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    size_t n = fread(ret, 1, size - 1, file);
    (void)fclose(file);
    for (size_t i = 0; i < n; i++) {
        if (ret[i] == '\0') {
            ret[i] = ' '; /* between arguments */
        }
    }
    ret[n] = '\0';
    return n > 0;
}

/* Looks at a process; false: there is none, or it has ended. */
static bool look(pid_t pid, struct chaos_proc *ret)
{
    char text[512];
    if (!read_file(pid, "stat", text, sizeof(text))) {
        return false;
    }
    const char *name = strchr(text, '(');
    const char *end = strrchr(text, ')'); /* the name itself may contain one */
    if (name == NULL || end == NULL || strlen(end) < 5 || end[2] == 'Z' ||
        end[2] == 'X') {
        return false;
    }
    *ret = (struct chaos_proc){.pid = pid};
    ret->parent = (pid_t)strtol(end + 4, NULL, 10);
    size_t len = (size_t)(end - name) - 1;
    memcpy(ret->name, name + 1, len < sizeof(ret->name) ? len : sizeof(ret->name) - 1);
    return true;
}

static size_t all(struct chaos_proc *ret)
{
    size_t n = 0;
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while (dir != NULL && n < ALL_MAX && (entry = readdir(dir)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0]) &&
            look((pid_t)strtol(entry->d_name, NULL, 10), &ret[n])) {
            n++;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n;
}

size_t chaos_procs(struct chaos_proc ret[CHAOS_PROCS_MAX])
{
    struct chaos_proc *procs = malloc(ALL_MAX * sizeof(*procs));
    size_t n_all = procs != NULL ? all(procs) : 0;
    size_t n = 0;
    pid_t parent = getpid();
    for (size_t done = 0;; parent = ret[done++].pid) {
        for (size_t i = 0; i < n_all && n < CHAOS_PROCS_MAX; i++) {
            if (procs[i].parent == parent) {
                ret[n++] = procs[i];
            }
        }
        if (done == n) {
            break;
        }
    }
    free(procs);
    return n;
}

bool chaos_proc_is(pid_t pid, const char *program)
{
    struct chaos_proc proc;
    return look(pid, &proc) && strcmp(proc.name, program) == 0;
}

/* True if this is the daemon of that program and index. */
static bool is_daemon(const struct chaos_proc *proc, const char *program,
                      uint32_t index)
{
    char text[8192];
    char option[32];
    if (strcmp(proc->name, program) != 0 ||
        !read_file(proc->pid, "cmdline", text, sizeof(text))) {
        return false;
    }
    (void)snprintf(option, sizeof(option), " --index=%u ", index);
    return strstr(text, option) != NULL;
}

void chaos_procs_worker(uint32_t index, struct chaos_worker *ret)
{
    static _Thread_local struct chaos_proc procs[CHAOS_PROCS_MAX];
    size_t n = chaos_procs(procs);
    *ret = (struct chaos_worker){0};
    for (size_t i = 0; i < n; i++) {
        if (!is_daemon(&procs[i], "coxswain-worker", index)) {
            continue;
        }
        if (ret->supervisor.pid == 0) {
            ret->supervisor = procs[i];
        } else if (procs[i].parent == ret->supervisor.pid) {
            ret->step = procs[i];
        }
    }
}

struct chaos_proc chaos_procs_ps(uint32_t index)
{
    static _Thread_local struct chaos_proc procs[CHAOS_PROCS_MAX];
    size_t n = chaos_procs(procs);
    for (size_t i = 0; i < n; i++) {
        if (is_daemon(&procs[i], "coxswain-ps", index)) {
            return procs[i];
        }
    }
    return (struct chaos_proc){0};
}

struct chaos_proc chaos_procs_child(pid_t pid)
{
    return (struct chaos_proc){.pid = pid, .parent = getpid()};
}

int chaos_proc_pin(const struct chaos_proc *proc)
{
    struct chaos_proc now;
    int fd = proc->pid > 0 ? pidfd_open(proc->pid, 0) : -1;
    if (fd >= 0 && (!look(proc->pid, &now) || now.parent != proc->parent)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Lists its file descriptors that are sockets, from /proc. */
static size_t sockets(pid_t pid, int ret[SOCKETS_MAX])
{
    char path[64];
    char target[32];
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    int dir_fd = dir != NULL ? dirfd(dir) : -1;
    struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while (dir_fd >= 0 && n < SOCKETS_MAX && (entry = readdir(dir)) != NULL) {
        ssize_t len = readlinkat(dir_fd, entry->d_name, target, sizeof(target) - 1);
        if (len > 0 && strncmp(target, "socket:", strlen("socket:")) == 0) {
            ret[n++] = (int)strtol(entry->d_name, NULL, 10);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n;
}

/* Shuts the socket down if it is an end of a connection. */
static bool cut(int socket)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    return getpeername(socket, (struct sockaddr *)&peer, &len) == 0 &&
           shutdown(socket, SHUT_RDWR) == 0;
}

bool chaos_proc_reset(const struct chaos_proc *proc, uint64_t draw)
{
    int fds[SOCKETS_MAX];
    int pin = chaos_proc_pin(proc);
    size_t n = pin >= 0 ? sockets(proc->pid, fds) : 0;
    bool done = false;
    for (size_t i = 0; i < n && !done; i++) {
        int socket = pidfd_getfd(pin, fds[(draw + i) % n], 0);
        done = socket >= 0 && cut(socket);
        if (socket >= 0) {
            (void)close(socket);
        }
    }
    if (pin >= 0) {
        (void)close(pin);
    }
    return done;
}

void chaos_pins_take(struct chaos_pins *ret)
{
    static _Thread_local struct chaos_proc procs[CHAOS_PROCS_MAX];
    size_t n = chaos_procs(procs);
    ret->n = 0;
    for (size_t i = 0; i < n; i++) {
        int fd = chaos_proc_pin(&procs[i]);
        if (fd >= 0) {
            ret->fds[ret->n++] = fd;
        }
    }
}

size_t chaos_pins_end(struct chaos_pins *pins, int patience_ms)
{
    size_t n_ended = 0;
    uint64_t end_ms = coxi_now_ms() + (uint64_t)patience_ms;
    for (size_t i = 0; i < pins->n; i++) {
        struct pollfd gone = {.fd = pins->fds[i], .events = POLLIN};
        uint64_t now_ms = coxi_now_ms();
        if (poll(&gone, 1, now_ms < end_ms ? (int)(end_ms - now_ms) : 0) <= 0) {
            n_ended += pidfd_send_signal(gone.fd, SIGKILL, NULL, 0) == 0;
            (void)poll(&gone, 1, DEATH_MS);
        }
        (void)close(gone.fd);
    }
    pins->n = 0;
    return n_ended;
}

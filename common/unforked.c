/*
 * See unforked.h. nng does not reveal the descriptors of its sockets. So the child
 * finds these sockets by their local address, which is the same for a listener and for
 * all connections that it accepted.
 *
 * Invariant: the list is consistent in the child, because fork() waits for its lock. The
 * child takes no memory: another thread may have held the allocator's lock, which nobody
 * gives back in the child.
 * Cost: nothing, except one or two system calls for each open file in the child.
 */
#include "common/unforked.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/sync.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct coxi_mutex lock = COXI_MUTEX_INIT; /* leaf */
static struct coxi_unforked *held COXI_GUARDED_BY(lock);

union address {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* True if a socket has the address `url`, which is ipc:///path or ends with :port. */
static bool is_at(const union address *own, const char *url)
{
    static const char ipc[] = "ipc://";
    const char *port = strrchr(url, ':') + 1;
    switch (own->any.sa_family) {
    case AF_UNIX:
        return strncmp(url, ipc, strlen(ipc)) == 0 &&
               strcmp(url + strlen(ipc), own->local.sun_path) == 0;
    case AF_INET:
        return strtoul(port, NULL, 10) == ntohs(own->in.sin_port);
    case AF_INET6:
        return strtoul(port, NULL, 10) == ntohs(own->in6.sin6_port);
    default:
        return false;
    }
}

static void close_if_held(int fd) COXI_REQUIRES(lock)
{
    union address own;
    memset(&own, 0, sizeof(own));
    socklen_t len = sizeof(own) - 1; /* the last byte stays 0 and ends a path */
    bool is_socket = getsockname(fd, &own.any, &len) == 0;
    for (const struct coxi_unforked *what = held; what != NULL; what = what->next) {
        if (what->url != NULL ? is_socket && is_at(&own, what->url) : what->fd == fd) {
            (void)close(fd);
            return;
        }
    }
}

static void before(void) COXI_ACQUIRES(lock)
{
    coxi_lock(&lock);
}

static void after(void) COXI_RELEASES(lock)
{
    coxi_unlock(&lock);
}

/* Closes what is held of the open files; `dir` lists them. */
static void close_listed(int dir) COXI_REQUIRES(lock)
{
    _Alignas(struct dirent64) char entries[2048];
    ssize_t len;
    while ((len = getdents64(dir, entries, sizeof(entries))) > 0) {
        ssize_t at = 0;
        while (at < len) {
            const struct dirent64 *entry =
                (const struct dirent64 *)(void *)(entries + at);
            int fd = (int)strtol(entry->d_name, NULL, 10);
            if (entry->d_name[0] != '.' && fd != dir) {
                close_if_held(fd);
            }
            at += entry->d_reclen;
        }
    }
}

static void in_child(void) COXI_RELEASES(lock)
{
    int dir =
        held != NULL ? open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0) {
        close_listed(dir);
        (void)close(dir);
    }
    for (; held != NULL; held = held->next) {
        /* a child of this child may have other files with these numbers */
        held->at = NULL;
    }
    after();
}

static void watch_forks(void)
{
    (void)pthread_atfork(before, after, in_child);
}

void coxi_unforked_hold(struct coxi_unforked *what)
{
    (void)pthread_once(&once, watch_forks);
    coxi_lock(&lock);
    what->next = held;
    what->at = &held;
    if (held != NULL) {
        held->at = &what->next;
    }
    held = what;
    coxi_unlock(&lock);
}

void coxi_unforked_drop(struct coxi_unforked *what)
{
    coxi_lock(&lock);
    if (what->at != NULL) {
        *what->at = what->next;
        if (what->next != NULL) {
            what->next->at = what->at;
        }
        what->at = NULL;
    }
    coxi_unlock(&lock);
}

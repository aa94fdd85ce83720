/* See dead_disk.h. */
#include "tests/coordinator/monitor/dead_disk.h"

#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER; /* held: it does not answer */
static _Atomic(const char *) dead_part;                  /* NULL: all answers */
static atomic_int n_waiting;

static bool is_dead(int fd)
{
    char link[64];
    char path[4096] = "";
    const char *part = atomic_load(&dead_part);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return part != NULL && readlink(link, path, sizeof(path) - 1) > 0 &&
           strstr(path, part) != NULL;
}

int __real_coxi_fd_write(int fd, const void *bytes, size_t len);
int __wrap_coxi_fd_write(int fd, const void *bytes, size_t len);

int __wrap_coxi_fd_write(int fd, const void *bytes, size_t len)
{
    if (is_dead(fd)) {
        (void)atomic_fetch_add(&n_waiting, 1);
        (void)pthread_mutex_lock(&disk);
        (void)pthread_mutex_unlock(&disk);
        (void)atomic_fetch_sub(&n_waiting, 1);
    }
    return __real_coxi_fd_write(fd, bytes, len);
}

void dead_disk_begin(const char *part)
{
    (void)pthread_mutex_lock(&disk);
    atomic_store(&dead_part, part);
}

void dead_disk_end(void)
{
    atomic_store(&dead_part, NULL);
    (void)pthread_mutex_unlock(&disk);
}

bool dead_disk_is_waiting(void *arg)
{
    (void)arg;
    return atomic_load(&n_waiting) > 0;
}

bool dead_disk_has_left(void *arg)
{
    glob_t all;
    bool left = true;
    char wanted[32];
    (void)snprintf(wanted, sizeof(wanted), "%s\n", (const char *)arg);
    assert_int_equal(0, glob("/proc/self/task/*/comm", 0, NULL, &all));
    for (size_t i = 0; i < all.gl_pathc; i++) {
        char name[32] = "";
        FILE *file = fopen(all.gl_pathv[i], "r");
        bool is_read = file != NULL && fgets(name, sizeof(name), file) != NULL;
        left = left && !(is_read && strcmp(name, wanted) == 0);
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    globfree(&all);
    return left;
}

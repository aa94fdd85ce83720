/*
 * Counts what runs while somebody asks for it: calls of instrumented functions, and locks that are
 * taken. Preloaded into each process of a cluster whose programs were compiled with
 * -finstrument-functions; scripts/path reads the files that it leaves.
 *
 * $COX_VISITS names a folder. Counting is on while its file `on`, which all processes map, begins
 * with a 1. Each process writes `PID.visits` when it ends: lines of
 *
 *     call|lock PATH OFFSET COUNT
 *
 * with the program or library that has the code, and the place in it. Any thread; a process that
 * is killed leaves nothing.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PLACES = 1 << 16,
    DEPTH = 256,
    COXI_LOCK_BYTES = 128 /* its code takes no more */
};

struct table {
    _Atomic(uintptr_t) places[PLACES];
    atomic_ulong counts[PLACES];
};

static struct table calls;
static struct table locks;
static _Atomic(const volatile char *) on;
static int (*real_lock)(pthread_mutex_t *);

/* The functions that this thread is in; those below DEPTH are not kept. */
static _Thread_local uintptr_t stack[DEPTH];
static _Thread_local size_t depth;

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

/* A table has more entries than a program has places to count. With a full table the
 * search would never end. */
static void count(struct table *table, uintptr_t place)
{
    const volatile char *flag = atomic_load(&on);
    if (flag == NULL || *flag != '1') {
        return;
    }
    size_t i = (place * 0x9E3779B97F4A7C15U) >> 48;
    for (;; i = (i + 1) % PLACES) {
        uintptr_t there = 0;
        if (atomic_compare_exchange_strong(&table->places[i], &there, place) ||
            there == place) {
            atomic_fetch_add(&table->counts[i], 1);
            return;
        }
    }
}

void __cyg_profile_func_enter(void *function, void *from)
{
    (void)from;
    if (depth < DEPTH) {
        stack[depth] = (uintptr_t)function;
    }
    depth++;
    count(&calls, (uintptr_t)function);
}

void __cyg_profile_func_exit(void *function, void *from)
{
    (void)function;
    (void)from;
    depth--;
}

/* Counted for the function that calls coxi_lock, unless a library's own lock is taken. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (real_lock == NULL) {
        *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    }
    uintptr_t from = (uintptr_t)__builtin_return_address(0);
    if (depth >= 2 && depth <= DEPTH && from - stack[depth - 1] < COXI_LOCK_BYTES) {
        count(&locks, stack[depth - 2]);
    }
    return real_lock(mutex);
}

static void write_table(FILE *file, const char *kind, struct table *table)
{
    for (size_t i = 0; i < PLACES; i++) {
        uintptr_t place = atomic_load(&table->places[i]);
        Dl_info info;
        if (place != 0 && dladdr((void *)place, &info) != 0) {
            (void)fprintf(file, "%s %s %lx %lu\n", kind, info.dli_fname,
                          (unsigned long)(place - (uintptr_t)info.dli_fbase),
                          atomic_load(&table->counts[i]));
        }
    }
}

__attribute__((constructor)) static void begin(void)
{
    char path[4096];
    const char *folder = getenv("COX_VISITS");
    if (folder == NULL) {
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/on", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        void *flag = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
        if (flag != MAP_FAILED) {
            atomic_store(&on, (const volatile char *)flag);
        }
        (void)close(fd);
    }
}

__attribute__((destructor)) static void end(void)
{
    char path[4096];
    const char *folder = getenv("COX_VISITS");
    if (folder == NULL || atomic_load(&on) == NULL) {
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%ld.visits", folder, (long)getpid());
    FILE *file = fopen(path, "we");
    if (file != NULL) {
        write_table(file, "call", &calls);
        write_table(file, "lock", &locks);
        (void)fclose(file);
    }
}

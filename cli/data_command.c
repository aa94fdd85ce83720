/* See data_command.h. */
#include "cli/data_command.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "net/daemon.h"

/* ---- signals */

atomic_bool coxi_data_interrupted;
static atomic_int signalled;
static struct coxi_mutex lock = COXI_MUTEX_INIT; /* comes before those of sources */
static const struct coxi_source *watched COXI_GUARDED_BY(lock);

static void *await_signals(void *arg)
{
    const sigset_t *set = arg;
    int signum;
    while (sigwait(set, &signum) == 0) {
        atomic_store(&signalled, signum);
        atomic_store(&coxi_data_interrupted, true);
        coxi_lock(&lock);
        if (watched != NULL) {
            coxi_source_cancel(watched);
        }
        coxi_unlock(&lock);
    }
    return NULL;
}

void coxi_data_watch(const struct coxi_source *source)
{
    coxi_lock(&lock);
    watched = source;
    if (source != NULL && atomic_load(&coxi_data_interrupted)) {
        coxi_source_cancel(source);
    }
    coxi_unlock(&lock);
}

int coxi_data_catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static sigset_t set;
    pthread_t thread;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            (void)sigaddset(&set, signals[i]);
        }
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    int r = coxi_thread_start(&thread, "signals", await_signals, &set);
    if (r == 0) {
        (void)pthread_detach(thread); /* it ends with the process */
    }
    return r;
}

int coxi_data_check_interrupted(void)
{
    return atomic_load(&coxi_data_interrupted)
               ? coxi_error(COX_ECANCELLED, "interrupted")
               : 0;
}

/* ---- names */

/* The part of a name before its ending, behind which the number comes. */
static size_t stem_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    const char *dot = *base != '\0' ? strchr(base + 1, '.') : NULL;
    return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

int coxi_data_part_name(const char *name, uint64_t i, uint64_t n, char ret[PATH_MAX])
{
    size_t stem = stem_of(name);
    return n == 1 ? coxi_path(ret, "%s", name)
                  : coxi_path(ret, "%.*s-%05" PRIu64 "%s", (int)stem, name, i,
                              name + stem);
}

/* The number in the name `found` of a file of the set; `base` is the set's name. -1: it is
 * none of them. */
static int64_t part_number(const char *base, const char *found)
{
    size_t stem = stem_of(base);
    char expected[PATH_MAX];
    uint64_t number =
        strlen(found) > stem ? strtoull(found + stem + 1, NULL, 10) : UINT64_MAX;
    if (number > INT64_MAX || coxi_data_part_name(base, number, 2, expected) != 0) {
        return -1;
    }
    return strcmp(expected, found) == 0 ? (int64_t)number : -1;
}

static int leftover(const char *name, uint64_t lowest, uint64_t n)
{
    char first[PATH_MAX];
    char more[40] = "";
    int r = coxi_data_part_name(name, lowest, 2, first);
    if (n > 1) {
        (void)snprintf(more, sizeof(more), " and %" PRIu64 " more", n - 1);
    }
    return r != 0
               ? r
               : coxi_error(COX_EINVAL,
                            "%s%s %s of an earlier set with more files, and a "
                            "pattern would find old and new files: remove %s, or "
                            "name another output",
                            first, more, n > 1 ? "are" : "is", n > 1 ? "them" : "it");
}

int coxi_data_parts_check(const char *name, uint64_t n)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    char dir[PATH_MAX];
    uint64_t lowest = UINT64_MAX;
    uint64_t old = 0;
    int r = slash != NULL ? coxi_path(dir, "%.*s", (int)(base - name), name)
                          : coxi_path(dir, ".");
    DIR *all = r == 0 && n > 1 ? opendir(dir) : NULL;
    if (all == NULL) {
        return r; /* whoever writes a file there tells what is wrong */
    }
    for (const struct dirent *one; (one = readdir(all)) != NULL;) {
        int64_t number = part_number(base, one->d_name);
        if (number >= (int64_t)n) {
            lowest = (uint64_t)number < lowest ? (uint64_t)number : lowest;
            old++;
        }
    }
    (void)closedir(all);
    return old > 0 ? leftover(name, lowest, old) : 0;
}

/* ---- beginning and end */

bool coxi_data_begin(const struct coxi_program *program, int argc, char **argv,
                     void *config, int least, char ***ret_words, size_t *ret_n,
                     int *ret_exit)
{
    int rest = 0;
    int r = coxi_options_parse(program, argc, argv, config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        *ret_exit = EXIT_SUCCESS;
        return false;
    }
    if (r == 0 && argc - rest < least) {
        r = coxi_error(COX_EINVAL, "say: %s %s", program->name, program->usage);
    }
    if (r != 0) {
        *ret_exit = coxi_exit_config(program->name);
        return false;
    }
    if (coxi_data_catch_signals() != 0) {
        *ret_exit = coxi_exit_config(program->name);
        return false;
    }
    *ret_words = argv + rest;
    *ret_n = (size_t)(argc - rest);
    return true;
}

int coxi_data_exit(const struct coxi_program *program, int r)
{
    (void)fflush(stdout);
    int signum = atomic_load(&signalled);
    if (signum != 0) {
        sigset_t set;
        (void)fprintf(stderr, "%s: interrupted\n", program->name);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, signum);
        (void)raise(signum);
        (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* it ends the process */
    }
    if (r == 0 && ferror(stdout) != 0) {
        r = coxi_error(COX_EIO, "cannot write to standard output");
    }
    if (r == 0) {
        return EXIT_SUCCESS;
    }
    (void)coxi_exit_config(program->name);
    return r == COX_EINVAL ? COXI_EXIT_CONFIG : COXI_EXIT_FAILED;
}

int coxi_data_print(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (text == NULL) {
        return coxi_error_memory("a JSON object");
    }
    (void)printf("%s\n", text);
    free(text);
    return 0;
}

/* See data_command.h. */
#include "cli/data_command.h"

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

int coxi_data_part_name(const char *name, uint64_t i, uint64_t n, char ret[PATH_MAX])
{
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    const char *dot = *base != '\0' ? strchr(base + 1, '.') : NULL;
    int stem = (int)(dot != NULL ? (size_t)(dot - name) : strlen(name));
    return n == 1 ? coxi_path(ret, "%s", name)
                  : coxi_path(ret, "%.*s-%05" PRIu64 "%s", stem, name, i, name + stem);
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

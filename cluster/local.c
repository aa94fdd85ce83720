/*
 * See local.h. The launcher is started with posix_spawn (which does not copy a large
 * client) in a session of its own (so Ctrl-C reaches the client first). It holds the
 * reading end of a pipe whose writing end is here. So the launcher notices when this
 * process ends, however it ends.
 */
#include "cluster/local.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "common/unforked.h"
#include "objects/s3.h"

enum { STOP_MS = 1800, LIFELINE_FD = 3, PRINTS_FD = 4, NOT_KNOWN = -1 };

struct coxi_local {
    char dir[64];
    char key_file[PATH_MAX]; /* "": it has made no key */
    int log;                 /* the launcher's log, which it removes with `dir` */
    int lifeline;
    /* the lifeline: a child of the client must not keep it open */
    struct coxi_unforked unforked;
    struct coxi_mutex lock;           /* leaf */
    pid_t pid COXI_GUARDED_BY(lock);  /* 0: the launcher has ended and was waited for */
    int status COXI_GUARDED_BY(lock); /* of waitpid; NOT_KNOWN: somebody else has it */
};

extern char **environ;

/*
 * The directories in which the programs are looked for, in this order: COX_BIN_DIR; the
 * directory of the client's program; the places of an installation relative to the
 * library, wherever it was moved to; the directory in which this build was to be
 * installed.
 */
enum { PLACES_MAX = 6 };

struct places {
    char dirs[PLACES_MAX][PATH_MAX];
    size_t n;
};

static void add_place(struct places *places, const char *dir, const char *below)
{
    if (coxi_path(places->dirs[places->n], "%s%s", dir, below) == 0) {
        places->n++;
    }
}

/* An address inside the library. */
static const char here;

/* The directory of the library's file; of the program's file, if the library is linked
 * into it. */
static bool library_directory(char ret[PATH_MAX])
{
    Dl_info info;
    char *slash = NULL;
    if (dladdr(&here, &info) != 0 && info.dli_fname != NULL &&
        realpath(info.dli_fname, ret) != NULL) {
        slash = strrchr(ret, '/');
    }
    if (slash != NULL) {
        *slash = '\0';
    }
    return slash != NULL;
}

static void find_places(struct places *places)
{
    char dir[PATH_MAX];
    const char *given = getenv("COX_BIN_DIR");
    places->n = 0;
    if (given != NULL && *given != '\0') {
        add_place(places, given, "");
    }
    if (coxi_program_directory(dir) == 0) {
        add_place(places, dir, "");
    }
    if (library_directory(dir)) {
        add_place(places, dir, "/" COXI_BIN_FROM_LIBRARY);
        add_place(places, dir, "/../libexec/coxswain");
        add_place(places, dir, "/../libexec");
    }
    add_place(places, COXI_BIN_DIR, "");
}

static bool has_program(const char *dir, char path[PATH_MAX])
{
    return coxi_path(path, "%s/coxswain", dir) == 0 && access(path, X_OK) == 0;
}

static int not_found(const struct places *places)
{
    struct coxi_buffer all = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < places->n; i++) {
        r = coxi_buffer_printf(&all, "%s%s", i > 0 ? ", " : "", places->dirs[i]);
    }
    r = coxi_error(
        COX_EIO,
        "the program coxswain is in none of %.*s: set COX_BIN_DIR to where it "
        "is",
        (int)all.len, (const char *)all.data);
    coxi_buffer_fini(&all);
    return r;
}

static int find_program(char path[PATH_MAX], const char *bin_dir)
{
    if (bin_dir != NULL) {
        return has_program(bin_dir, path)
                   ? 0
                   : coxi_error(COX_EIO,
                                "there is no program %s/coxswain, and "
                                "cox_options.bin_dir says that it is there",
                                bin_dir);
    }
    struct places *places = malloc(sizeof(*places));
    if (places == NULL) {
        return coxi_error_memory("looking for programs");
    }
    bool found = false;
    find_places(places);
    for (size_t i = 0; !found && i < places->n; i++) {
        found = has_program(places->dirs[i], path);
    }
    int r = found ? 0 : not_found(places);
    free(places);
    return r;
}

/* The path of the launcher's own log, which is empty unless something is wrong. */
static void launcher_log(const struct coxi_local *local, char path[PATH_MAX])
{
    (void)coxi_path(path, "%s/launcher.log", local->dir);
}

/* The launcher removes `dir` when it ends. An open file can be read after that. */
static int open_log(struct coxi_local *local)
{
    char path[PATH_MAX];
    launcher_log(local, path);
    local->log = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    return local->log >= 0 ? 0 : coxi_error_errno(COX_EIO, "cannot create %s", path);
}

struct arguments {
    const char *argv[15];
    char text[14][PATH_MAX];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct arguments *arguments,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(arguments->text[arguments->n], PATH_MAX, format, args);
    va_end(args);
    arguments->argv[arguments->n] = arguments->text[arguments->n];
    arguments->n++;
}

static void add_all(struct arguments *arguments, const struct coxi_local *local,
                    const struct cox_options *options,
                    const struct cox_cluster *cluster, bool has_stderr)
{
    const char *key_file =
        local->key_file[0] != '\0' ? local->key_file : options->key_file;
    char root[PATH_MAX];
    add(arguments, "cluster");
    add(arguments, "--ps=%u", cluster->n_ps);
    add(arguments, "--workers=%u", cluster->n_workers);
    add(arguments, "--slots=%u", options->worker_slots);
    add(arguments, "--peer-timeout-ms=%d", options->peer_timeout_ms);
    add(arguments, "--step-memory-max=%llu",
        (unsigned long long)options->step_memory_max);
    add(arguments, "--dir=%s", local->dir);
    add(arguments, "--lifeline=%d", LIFELINE_FD);
    if (key_file != NULL) {
        add(arguments, "--key-file=%s", key_file);
    }
    if (options->log_dir != NULL) {
        add(arguments, "--log-dir=%s", options->log_dir);
    }
    if (options->checkpoint_dir != NULL && coxi_s3_is_url(options->checkpoint_dir)) {
        add(arguments, "--checkpoint-root=%s", options->checkpoint_dir);
    } else if (options->checkpoint_dir != NULL &&
               realpath(options->checkpoint_dir, root) != NULL) {
        add(arguments, "--checkpoint-root=%s", root);
    }
    if (has_stderr) {
        add(arguments, "--prints-fd=%d", PRINTS_FD);
    }
}

static int spawn(struct coxi_local *local, const struct cox_options *options,
                 const struct cox_cluster *cluster, const char *program, int lifeline)
{
    struct arguments *arguments = calloc(1, sizeof(*arguments));
    if (arguments == NULL) {
        return coxi_error_memory("starting the local cluster");
    }
    bool has_stderr = fcntl(STDERR_FILENO, F_GETFD) >= 0;
    add(arguments, "%s", program);
    add_all(arguments, local, options, cluster, has_stderr);
    char log[PATH_MAX];
    launcher_log(local, log);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, lifeline, LIFELINE_FD);
    if (has_stderr) {
        (void)posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, PRINTS_FD);
    }
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 1, log,
                                           O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)posix_spawn_file_actions_adddup2(&actions, 1, 2);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    int failed = posix_spawn(&local->pid, program, &actions, &attr,
                             (char **)(uintptr_t)arguments->argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    free(arguments);
    if (failed != 0) {
        coxi_unshared(&local->lock);
        local->pid = 0;
        errno = failed;
        return coxi_error_errno(COX_EIO, "cannot start %s", program);
    }
    return 0;
}

static int make_key(struct coxi_local *local, struct coxi_key *ret)
{
    int r = coxi_key_new_in(local->dir, local->key_file);
    return r == 0 ? coxi_key_read(local->key_file, ret) : r;
}

int coxi_local_start(const struct cox_cluster *cluster,
                     const struct cox_options *options, struct coxi_key *key,
                     struct coxi_local **ret, struct cox_cluster **ret_cluster)
{
    char program[PATH_MAX];
    char dir[64];
    int pipe_fds[2] = {-1, -1};
    struct cox_cluster *addresses = NULL;
    struct coxi_local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        return coxi_error_memory("a local cluster");
    }
    local->log = -1;
    local->lifeline = -1;
    coxi_mutex_init(&local->lock);
    int r = find_program(program, options->bin_dir);
    if (r == 0 && options->log_dir != NULL) {
        r = coxi_directory_make(options->log_dir);
        r = r == 0 ? 0 : coxi_error(r, "cox_options.log_dir: %s", coxi_error_text());
    }
    if (r == 0) {
        r = coxi_directory_temporary(dir);
    }
    if (r == 0) {
        (void)strcpy(local->dir, dir);
        r = open_log(local);
    }
    if (r == 0) {
        r = coxi_cluster_at(local->dir, cluster->n_ps, cluster->n_workers, &addresses);
    }
    if (r == 0 && key->kind == COXI_KEY_NONE) {
        r = make_key(local, key);
    }
    if (r == 0 && pipe2(pipe_fds, O_CLOEXEC) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot make a pipe");
    }
    local->lifeline = pipe_fds[1];
    if (r == 0) {
        local->unforked.fd = local->lifeline;
        coxi_unforked_hold(&local->unforked);
        r = spawn(local, options, cluster, program, pipe_fds[0]);
    }
    if (pipe_fds[0] >= 0) {
        (void)close(pipe_fds[0]);
    }
    if (r != 0) {
        cox_cluster_free(addresses);
        coxi_local_stop(local);
        return r;
    }
    *ret = local;
    *ret_cluster = addresses;
    return 0;
}

const char *coxi_local_key_file(const struct coxi_local *local)
{
    return local->key_file[0] != '\0' ? local->key_file : NULL;
}

/* True if the launcher has ended, even if the program itself has waited for it. */
static bool has_ended(struct coxi_local *local)
{
    coxi_lock(&local->lock);
    if (local->pid != 0) {
        pid_t pid = waitpid(local->pid, &local->status, WNOHANG);
        bool taken = pid < 0 && errno == ECHILD;
        local->status = taken ? NOT_KNOWN : local->status;
        local->pid = pid > 0 || taken ? 0 : local->pid;
    }
    bool ended = local->pid == 0;
    coxi_unlock(&local->lock);
    return ended;
}

int coxi_local_check(struct coxi_local *local)
{
    return has_ended(local) ? coxi_local_check_lost(local) : 0;
}

/* The last line of the launcher's log. Opens it anew, because threads that share a
 * descriptor share its position. */
static void read_log(const struct coxi_local *local, char *ret, size_t len)
{
    char path[PATH_MAX];
    (void)coxi_path(path, "/proc/self/fd/%d", local->log);
    coxi_file_last_line(path, ret, len);
}

/* How a launcher that has told no reason has ended. */
static void describe_end(struct coxi_local *local, char *ret, size_t len)
{
    coxi_lock(&local->lock);
    int status = local->status;
    coxi_unlock(&local->lock);
    if (status == NOT_KNOWN) {
        (void)snprintf(ret, len, "its launcher is gone, and gave no reason");
    } else if (WIFSIGNALED(status)) {
        (void)snprintf(ret, len, "signal %d has killed its launcher", WTERMSIG(status));
    } else {
        (void)snprintf(ret, len, "its launcher exited with %d, and gave no reason",
                       WEXITSTATUS(status));
    }
}

int coxi_local_check_lost(struct coxi_local *local)
{
    static const char own[] = "coxswain cluster: ";
    char text[COXI_ERROR_TEXT_MAX];
    bool ended = has_ended(local);
    read_log(local, text, sizeof(text));
    if (!ended && strncmp(text, own, strlen(own)) != 0) {
        return 0;
    }
    if (text[0] == '\0') {
        describe_end(local, text, sizeof(text));
    }
    return coxi_error(COX_EIO, "the local cluster has ended: %s", text);
}

void coxi_local_stop(struct coxi_local *local)
{
    if (local == NULL) {
        return;
    }
    coxi_unforked_drop(&local->unforked);
    if (local->lifeline >= 0) {
        (void)close(local->lifeline);
    }
    coxi_unshared(&local->lock);
    if (local->pid != 0) {
        /* The launcher ends within 2 s. If it does not, kill it, which ends all its
         * daemons. */
        struct pollfd ended = {.fd = pidfd_open(local->pid, 0), .events = POLLIN};
        if (ended.fd >= 0 && poll(&ended, 1, STOP_MS) == 0) {
            (void)kill(local->pid, SIGKILL);
        }
        (void)waitpid(local->pid, &local->status, 0);
        if (ended.fd >= 0) {
            (void)close(ended.fd);
        }
    }
    if (local->log >= 0) {
        (void)close(local->log);
    }
    if (local->dir[0] != '\0') {
        coxi_directory_remove(local->dir);
    }
    coxi_mutex_fini(&local->lock);
    free(local);
}

/* See crew.h. */
#include "tests/coordinator/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

void crew_open(struct crew *crew, int n_ps, int n_workers, const char *module,
               const struct cox_options *options)
{
    static int n_opened;
    struct cox_cluster *cluster;
    struct cox_options o = COX_OPTIONS_INIT;
    if (options != NULL) {
        o = *options;
    }
    (void)snprintf(crew->log_dir, sizeof(crew->log_dir), "%s/logs-%d", coxi_test_dir(),
                   n_opened++);
    o.log_dir = crew->log_dir;
    o.bin_dir = coxi_test_bin();
    /* Closing writes no checkpoint, unless the test asks for one: most tests close a
     * client only to end it. */
    o.checkpoint_at_close = o.checkpoint_at_close != 0 ? o.checkpoint_at_close : -1;
    o.min_workers = (uint32_t)n_workers;
    assert_code(0, cox_cluster_local(n_ps, n_workers, &cluster));
    assert_code(0, cox_open(cluster, &o, &crew->c));
    cox_cluster_free(cluster);
    if (module != NULL) {
        assert_code(0,
                    cox_module_load(crew->c, coxi_test_module(module), &crew->module));
    }
}

struct wanted {
    char path[300];
    pid_t pid;
    char address[256];
};

/* The daemon's log names the process that listens. The last such line counts, because
 * each process that is started again writes another one. */
static bool find_pid(void *arg)
{
    struct wanted *wanted = arg;
    char line[1024];
    FILE *file = fopen(wanted->path, "re");
    wanted->pid = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, " pid=");
        if (strstr(line, "event=listening") != NULL && at != NULL) {
            wanted->pid = (pid_t)strtol(at + 5, NULL, 10);
            const char *address = strstr(line, " address=");
            assert_non_null(address);
            assert_int_equal(1, sscanf(address, " address=%255s", wanted->address));
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return wanted->pid > 0 && kill(wanted->pid, 0) == 0;
}

void crew_refused(const struct cox_cluster *cluster, const struct cox_options *options,
                  int code, const char *named)
{
    struct cox_coordinator *c = NULL;
    assert_code(code, cox_open(cluster, options, &c));
    assert_error_names(named);
    assert_null(c);
}

void crew_close(struct crew *crew)
{
    char pattern[300];
    glob_t logs = {0};
    assert_code(0, cox_close(crew->c, 5000));
    (void)snprintf(pattern, sizeof(pattern), "%s/*-*.log", crew->log_dir);
    assert_int_equal(0, glob(pattern, 0, NULL, &logs));
    for (size_t i = 0; i < logs.gl_pathc; i++) {
        struct wanted wanted;
        (void)snprintf(wanted.path, sizeof(wanted.path), "%s", logs.gl_pathv[i]);
        (void)find_pid(&wanted); /* a killed process takes a moment to go */
        if (wanted.pid > 0) {
            crew_wait_gone(wanted.pid);
        }
    }
    globfree(&logs);
}

struct cox_function *crew_function(struct crew *crew, const char *name)
{
    struct cox_function *function;
    assert_code(0, cox_function_get(crew->module, name, &function));
    return function;
}

struct cox_variable *crew_counter(struct crew *crew, const char *name)
{
    struct cox_variable *counter;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    assert_code(0, cox_variable_create(crew->c, &spec, &counter));
    return counter;
}

int64_t crew_read(struct crew *crew, struct cox_variable *counter)
{
    int64_t value = -1;
    assert_code(0, cox_variable_read(crew->c, counter, &value, sizeof(value)));
    return value;
}

void crew_schedule(struct crew *crew, struct cox_function *function, int n,
                   int64_t value)
{
    struct cox_value arg = COX_SCALAR("n", COX_I64, &value);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < n; i++) {
        assert_code(0, cox_schedule(crew->c, function, &call, NULL));
    }
}

static struct wanted find(struct crew *crew, const char *role, int index)
{
    struct wanted wanted;
    (void)snprintf(wanted.path, sizeof(wanted.path), "%s/%s-%d.log", crew->log_dir,
                   role, index);
    coxi_test_until(find_pid, &wanted, "a daemon's process");
    return wanted;
}

static pid_t process_of(struct crew *crew, const char *role, int index)
{
    return find(crew, role, index).pid;
}

void crew_socket(struct crew *crew, const char *role, int index, char ret[256])
{
    struct wanted wanted = find(crew, role, index);
    assert_int_equal(1, sscanf(wanted.address, "ipc://%255s", ret));
}

pid_t crew_step_process(struct crew *crew, int index)
{
    return process_of(crew, "worker", index);
}

pid_t crew_ps_process(struct crew *crew, int index)
{
    return process_of(crew, "ps", index);
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    pid_t parent = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(1, fscanf(file, "%*d %*s %*c %d", &parent));
    (void)fclose(file);
    return parent;
}

pid_t crew_supervisor(struct crew *crew, int index)
{
    return parent_of(crew_step_process(crew, index));
}

pid_t crew_launcher(struct crew *crew)
{
    return parent_of(crew_ps_process(crew, 0));
}

/* True if the process and all its threads have ended, and its parent has not reaped it
 * yet. The new parent of an orphan may take seconds for that. */
static bool is_unreaped(pid_t pid)
{
    char pattern[64];
    char state = '?';
    glob_t tasks = {0};
    (void)snprintf(pattern, sizeof(pattern), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(pattern, "re");
    if (file != NULL) {
        (void)!fscanf(file, "%*d %*s %c", &state);
        (void)fclose(file);
    }
    (void)snprintf(pattern, sizeof(pattern), "/proc/%d/task/*", (int)pid);
    bool alone = glob(pattern, 0, NULL, &tasks) == 0 && tasks.gl_pathc == 1;
    globfree(&tasks);
    return state == 'Z' && alone;
}

static bool is_gone(void *arg)
{
    pid_t pid = *(pid_t *)arg;
    return (kill(pid, 0) != 0 && errno == ESRCH) || is_unreaped(pid);
}

void crew_wait_gone(pid_t pid)
{
    coxi_test_until(is_gone, &pid, "the end of a process");
}

void crew_kill(pid_t pid)
{
    assert_int_equal(0, kill(pid, SIGKILL));
}

/* True if every thread of the process is stopped. */
static bool is_stopped(void *arg)
{
    char pattern[64];
    bool stopped = true;
    glob_t tasks = {0};
    (void)snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat",
                   (int)*(pid_t *)arg);
    assert_int_equal(0, glob(pattern, 0, NULL, &tasks));
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        char state = '?';
        FILE *file = fopen(tasks.gl_pathv[i], "re");
        if (file != NULL) {
            (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
            (void)fclose(file);
        }
        stopped = stopped && state == 'T';
    }
    globfree(&tasks);
    return stopped;
}

void crew_stop(pid_t pid)
{
    assert_int_equal(0, kill(pid, SIGSTOP));
    coxi_test_until(is_stopped, &pid, "a process that is stopped");
}

void crew_hold(struct crew_hold *hold, struct crew *crew, const char *step, bool future)
{
    crew_hold_on(hold, crew, step, 0, future);
}

void crew_hold_on(struct crew_hold *hold, struct crew *crew, const char *step,
                  uint32_t only, bool future)
{
    struct cox_call call = COX_CALL_INIT;
    call.only_worker = only;
    crew_hold_call(hold, crew, step, &call, future);
}

void crew_hold_call(struct crew_hold *hold, struct crew *crew, const char *step,
                    const struct cox_call *call, bool future)
{
    static int n_holds;
    char name[32];
    (void)snprintf(name, sizeof(name), "hold-%d", n_holds++);
    hold->path = coxi_test_path(name);
    hold->future = NULL;
    hold->fd = -1;
    assert_int_equal(0, mkfifo(hold->path, 0600));
    struct cox_value arg =
        COX_VECTOR("fifo", COX_U8, strlen(hold->path) + 1, hold->path);
    struct cox_call held = *call;
    held.args = &arg;
    held.n_args = 1;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, step), &held,
                                future ? &hold->future : NULL));
}

void crew_hold_wait(struct crew_hold *hold)
{
    hold->fd = open(hold->path, O_WRONLY | O_CLOEXEC);
    assert_true(hold->fd >= 0);
}

void crew_hold_release(struct crew_hold *hold)
{
    assert_int_equal(0, close(hold->fd));
    hold->fd = -1;
}

void crew_hold_end(struct crew_hold *hold)
{
    char empty[PATH_MAX];
    (void)snprintf(empty, sizeof(empty), "%s-empty", hold->path);
    int fd = open(empty, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(0, close(fd));
    assert_int_equal(0, rename(empty, hold->path));
    crew_hold_release(hold);
}

/* See program.h. */
#include "tests/program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/key.h"
#include "tests/test.h"

enum { ARGUMENTS_MAX = 32, VARIABLES_MAX = 512, PROGRAMS_MAX = 256 };

/* Running programs: they are ended with the test, before its directory is removed. */
static pid_t running[PROGRAMS_MAX];
static pid_t owner;

static void end_programs(void)
{
    for (size_t i = 0; i < PROGRAMS_MAX && owner == getpid(); i++) {
        if (running[i] != 0 && waitpid(running[i], NULL, WNOHANG) == 0) {
            (void)kill(running[i], SIGKILL);
            (void)waitpid(running[i], NULL, 0);
        }
    }
}

/* Replaces `from`, or 0, by `to`. */
static void set_running(pid_t from, pid_t to)
{
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        if (running[i] == from) {
            running[i] = to;
            return;
        }
    }
}

/* What a program is started with. Made before the fork: if the test has threads, its
 * child must take no memory, because one of them may hold the allocator's lock. */
struct launch {
    char path[512];
    char *argv[ARGUMENTS_MAX + 1];
    char *environment[VARIABLES_MAX + 1];
    char tmpdir[512];
};

/* Sets "NAME=value"; `n`: how many there are. */
static size_t set_variable(struct launch *launch, size_t n, char *variable)
{
    size_t len = strcspn(variable, "=") + 1;
    size_t i = 0;
    while (i < n && strncmp(launch->environment[i], variable, len) != 0) {
        i++;
    }
    assert_true(i < VARIABLES_MAX);
    launch->environment[i] = variable;
    return i < n ? n : n + 1;
}

static void set_environment(struct launch *launch)
{
    static char ps_user[] = "COX_PS_USER=root";
    static char worker_user[] = "COX_WORKER_USER=root";
    const char *tmp = getenv("TMPDIR");
    size_t n = 0;
    while (environ[n] != NULL) {
        assert_true(n < VARIABLES_MAX);
        launch->environment[n] = environ[n];
        n++;
    }
    /* Files that a killed daemon leaves are removed with the test. */
    if (tmp == NULL || strncmp(tmp, coxi_test_dir(), strlen(coxi_test_dir())) != 0) {
        (void)snprintf(launch->tmpdir, sizeof(launch->tmpdir), "TMPDIR=%s",
                       coxi_test_dir());
        n = set_variable(launch, n, launch->tmpdir);
    }
    /* Tests that root runs are run as root by daemons, too. */
    if (geteuid() == 0 && getenv("COX_PS_USER") == NULL) {
        n = set_variable(launch, n, ps_user);
    }
    if (geteuid() == 0 && getenv("COX_WORKER_USER") == NULL) {
        (void)set_variable(launch, n, worker_user);
    }
}

static void prepare(struct launch *launch, const char *const *argv)
{
    size_t n = 0;
    while (argv[n] != NULL) {
        n++;
    }
    assert_true(n <= ARGUMENTS_MAX);
    memcpy(launch->argv, argv, n * sizeof(*argv));
    (void)snprintf(launch->path, sizeof(launch->path), "%s%s%s",
                   strchr(argv[0], '/') != NULL ? "" : coxi_test_bin(),
                   strchr(argv[0], '/') != NULL ? "" : "/", argv[0]);
    set_environment(launch);
}

static void exec_program(const struct launch *launch, int fd, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0) {
        (void)execve(launch->path, launch->argv, launch->environment);
    }
    _exit(127);
}

void program_start(struct program *program, const char *const *argv)
{
    static int n_programs;
    struct launch launch = {0};
    pid_t parent = getpid();
    (void)snprintf(program->output, sizeof(program->output), "output-%d", n_programs++);
    prepare(&launch, argv);
    int fd = open(coxi_test_path(program->output),
                  O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    program->pid = fork();
    if (program->pid == 0) {
        exec_program(&launch, fd, parent);
    }
    assert_true(program->pid > 0);
    (void)close(fd);
    if (owner != parent) {
        owner = parent;
        memset(running, 0, sizeof(running));
        (void)atexit(end_programs);
    }
    set_running(0, program->pid);
}

int program_wait(struct program *program)
{
    int status = 0;
    struct rusage usage;
    assert_int_equal(program->pid, wait4(program->pid, &status, 0, &usage));
    program->peak_kib = usage.ru_maxrss;
    set_running(program->pid, 0);
    program->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int program_run(struct program *program, const char *const *argv)
{
    program_start(program, argv);
    return program_wait(program);
}

char *program_output(const struct program *program)
{
    return coxi_test_read(coxi_test_path(program->output), NULL);
}

void program_assert_printed(const struct program *program, const char *part)
{
    char *all = program_output(program);
    if (strstr(all, part) == NULL) {
        fail_msg("'%s' is not in: %s", part, all);
    }
    free(all);
}

struct printed {
    const struct program *program;
    const char *part;
};

static bool has_printed(void *arg)
{
    const struct printed *printed = arg;
    char *all = program_output(printed->program);
    bool has = strstr(all, printed->part) != NULL;
    free(all);
    return has;
}

void program_wait_printed(const struct program *program, const char *part)
{
    struct printed printed = {program, part};
    coxi_test_until(has_printed, &printed, part);
}

void program_assert_refuses(const char *name, const char *option, const char *part)
{
    struct program program;
    const char *const argv[] = {name, option, NULL};
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, name);
    program_assert_printed(&program, part);
}

static bool has_moved(void *arg)
{
    const struct program *program = arg;
    char older[80];
    (void)snprintf(older, sizeof(older), "%s.1", program->output);
    return access(coxi_test_path(older), F_OK) == 0;
}

void program_assert_bounds_its_log(const char *name)
{
    struct program program;
    const char *const argv[] = {name, "--log-max=1", "--peer-timeout-ms=100", NULL};
    program_start(&program, argv);
    coxi_test_until(has_moved, &program, "the log to move");
    program_kill(&program, SIGTERM);
    (void)program_wait(&program);
    program_assert_printed(&program, "event=log_rotated");
}

void program_kill(struct program *program, int signum)
{
    assert_int_equal(0, kill(program->pid, signum));
}

void program_pause(struct program *program)
{
    int status = 0;
    program_kill(program, SIGSTOP);
    assert_int_equal(program->pid, waitpid(program->pid, &status, WUNTRACED));
    assert_true(WIFSTOPPED(status));
}

struct announced {
    const char *path;
    char *address;
};

static bool is_announced(void *arg)
{
    struct announced *announced = arg;
    FILE *file = fopen(announced->path, "re");
    bool found = file != NULL && fscanf(file, "%255s", announced->address) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

const char *rig_key(void)
{
    static const char *path;
    if (path == NULL) {
        path = coxi_test_path("rig.key");
        assert_code(0, coxi_key_new(path));
        assert_int_equal(0, setenv("COX_KEY_FILE", path, 1));
    }
    return path;
}

void daemon_start(struct program *program, const char *name, int index,
                  const char *listen, char ret_address[256])
{
    static int n_daemons;
    char file[64];
    char index_text[16];
    (void)snprintf(file, sizeof(file), "address-%d", n_daemons++);
    (void)snprintf(index_text, sizeof(index_text), "%d", index);
    struct announced announced = {coxi_test_path(file), ret_address};
    if (strncmp(listen, "ipc://", 6) != 0 && getenv("COX_KEY_FILE") == NULL) {
        (void)rig_key();
    }
    const char *argv[] = {name,       "--listen",       listen,         "--index",
                          index_text, "--address-file", announced.path, NULL};
    program_start(program, argv);
    coxi_test_until(is_announced, &announced, "a daemon's address");
}

void program_wait_address(const struct program *program, char ret_address[256])
{
    static const char listening[] = "event=listening address=";
    program_wait_printed(program, listening);
    program_wait_printed(program, " pid="); /* the address is whole */
    char *output = program_output(program);
    assert_int_equal(
        1, sscanf(strstr(output, listening) + strlen(listening), "%255s", ret_address));
    free(output);
}

int program_occupy(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    (void)strcpy(address.sun_path, path);
    (void)unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, sizeof(address)));
    assert_int_equal(0, listen(fd, 64));
    return fd;
}

int program_occupy_port(char ret_address[32])
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, len));
    assert_int_equal(0, listen(fd, 1));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&address, &len));
    (void)snprintf(ret_address, 32, "127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

/* Steps that try what a confined worker must not let them do. Each returns 0 if it was
 * denied. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coxswain/step.h"

static const char *text_of(struct cox_step *step)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    return path != NULL ? path->data : "/etc/shadow";
}

static int judge(struct cox_step *step, long result, const char *call)
{
    if (result < 0 && (errno == EPERM || errno == EACCES)) {
        return 0;
    }
    return cox_step_fail(step, 1, "%s: %s", call,
                         result < 0 ? strerror(errno) : "allowed");
}

static int open_to_write(struct cox_step *step)
{
    return judge(step, open(text_of(step), O_WRONLY | O_CLOEXEC), "open");
}

/* Overwrites, changes or makes a file that is there or not. */
static int write_file(struct cox_step *step)
{
    const char *path = text_of(step);
    char other[512];
    (void)snprintf(other, sizeof(other), "%s.new", path);
    int r = open_to_write(step);
    if (r == 0) {
        r = judge(step, open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), "create");
    }
    if (r == 0) {
        r = judge(step, truncate(path, 0), "truncate");
    }
    if (r == 0) {
        r = judge(step, rename(path, other), "rename");
    }
    return r == 0 ? judge(step, unlink(path), "unlink") : r;
}

static int read_file(struct cox_step *step)
{
    return judge(step, open(text_of(step), O_RDONLY | O_CLOEXEC), "open");
}

/* Tries the same from a program that it starts. */
static int write_by_program(struct cox_step *step)
{
    const char *path = text_of(step);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", "echo stolen >\"$0\"", path, NULL);
        _exit(127);
    }
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
    if (ended && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 127) {
        return 0;
    }
    return cox_step_fail(step, 1, "the program ended with status %d", status);
}

static int write_allowed(struct cox_step *step)
{
    int fd = open(text_of(step), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return cox_step_fail(step, 1, "open: %s", strerror(errno));
    }
    return close(fd);
}

static int signal_parent(struct cox_step *step)
{
    return judge(step, kill(getppid(), 0), "kill");
}

static int do_ptrace(struct cox_step *step)
{
    return judge(step, ptrace(PTRACE_PEEKUSER, getpid(), NULL, NULL), "ptrace");
}

static int do_mount(struct cox_step *step)
{
    return judge(step, mount("none", "/no/such/directory", "tmpfs", 0, NULL), "mount");
}

static int run(void *arg)
{
    (void)arg;
    return 0;
}

/* By each of the calls that make namespaces. */
static int make_namespace(struct cox_step *step)
{
    static char stack[65536] __attribute__((aligned(16)));
    int r = judge(step, unshare(CLONE_NEWUSER), "unshare");
    return r == 0
               ? judge(step,
                       clone(run, stack + sizeof(stack), CLONE_NEWUSER | SIGCHLD, NULL),
                       "clone")
               : r;
}

static int call_kernel(struct cox_step *step)
{
    int r = judge(step, syscall(SYS_bpf, 0, NULL, 0), "bpf");
    if (r == 0) {
        r = judge(step, syscall(SYS_keyctl, 0, -3, 0), "keyctl");
    }
    if (r == 0) {
        r = judge(step, syscall(SYS_io_uring_setup, 1, NULL), "io_uring_setup");
    }
    return r == 0 ? judge(step, syscall(SYS_kexec_load, 0, 0, NULL, 0), "kexec_load")
                  : r;
}

static void *nothing(void *arg)
{
    return arg;
}

/* What every worker's steps can and cannot do. */
static int look_around(struct cox_step *step)
{
    pthread_t thread;
    struct rlimit cores;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        return cox_step_fail(step, 1, "programs may gain rights");
    }
    if (getrlimit(RLIMIT_CORE, &cores) != 0 || cores.rlim_max != 0) {
        return cox_step_fail(step, 1, "core files are made");
    }
    int r = pthread_create(&thread, NULL, nothing, NULL);
    return r == 0 ? pthread_join(thread, NULL)
                  : cox_step_fail(step, 1, "pthread_create: %s", strerror(r));
}

static int open_files(struct cox_step *step)
{
    int n = 0;
    int fds[4096];
    while (n < 4096 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        n++;
    }
    int error = errno;
    for (int i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
    return n < 4096 && error == EMFILE ? 0
                                       : cox_step_fail(step, 1, "%d files are open", n);
}

COX_STEPS(COX_STEP("open_to_write", open_to_write), COX_STEP("write_file", write_file),
          COX_STEP("read_file", read_file),
          COX_STEP("write_by_program", write_by_program),
          COX_STEP("write_allowed", write_allowed),
          COX_STEP("signal_parent", signal_parent), COX_STEP("ptrace", do_ptrace),
          COX_STEP("mount", do_mount), COX_STEP("make_namespace", make_namespace),
          COX_STEP("call_kernel", call_kernel), COX_STEP("look_around", look_around),
          COX_STEP("open_files", open_files));

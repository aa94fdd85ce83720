/* See daemon.h. */
#include "net/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "net/link.h"

void coxi_die_with_parent(int parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(COXI_EXIT_AGAIN); /* the parent ended before prctl */
    }
}

static int start_alerts(const char *least)
{
    enum coxi_log_level level;
    if (least == NULL || strcmp(least, "none") == 0) {
        return 0;
    }
    if (fcntl(COXI_ALERTS_FD, F_GETFD) < 0) {
        return coxi_error(COX_EINVAL, "--alerts: file descriptor %d is not open",
                          COXI_ALERTS_FD);
    }
    int r = coxi_log_level_parse(least, &level);
    if (r == 0) {
        /* Only this process keeps the descriptor: step processes, and programs that
         * steps start, do not inherit it. */
        (void)fcntl(COXI_ALERTS_FD, F_SETFD, FD_CLOEXEC);
        coxi_log_alert(COXI_ALERTS_FD, level);
    }
    return r;
}

int coxi_daemon_start(struct coxi_daemon_options *options, const char *role)
{
    enum coxi_log_level level;
    int r = coxi_log_level_parse(options->log_level, &level);
    if (r != 0) {
        return r;
    }
    coxi_log_init(role, (uint32_t)options->index, level);
    coxi_log_bound((uint64_t)options->log_max);
    r = start_alerts(options->alerts);
    if (r != 0) {
        return r;
    }
    if (options->parent > 0) {
        coxi_die_with_parent((int)options->parent);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    r = coxi_url_from(options->listen, options->url);
    if (r != 0) {
        return coxi_error(r, "--listen: %s", coxi_error_text());
    }
    options->listen = options->url;
    r = coxi_key_open(options->key_file, &options->key);
    if (r != 0) {
        return coxi_error(r, "--key-file: %s", coxi_error_text());
    }
    if (options->key.kind == COXI_KEY_READER) {
        return coxi_error(COX_EINVAL,
                          "--key-file: that is the key of readers; a daemon "
                          "needs the run's");
    }
    if (!coxi_url_is_local(options->listen) && !options->insecure &&
        options->key.kind == COXI_KEY_NONE) {
        return coxi_error(
            COX_EINVAL,
            "--listen %s can be reached from other hosts, and whoever "
            "reaches it can run code here: give all members of the run a key "
            "(--key-file, coxswain key new), listen at tcp://127.0.0.1:PORT "
            "or ipc:///PATH, or say --insecure",
            options->listen);
    }
    return 0;
}

bool coxi_daemon_local_path(const struct coxi_daemon_options *options)
{
    return strcmp(options->local_path, "on") == 0;
}

int coxi_daemon_announce(const char *path, const char *address)
{
    struct coxi_buffer line = {0};
    int r = coxi_buffer_printf(&line, "%s\n", address);
    if (r == 0) {
        r = coxi_file_write(path, line.data, line.len);
    }
    coxi_buffer_fini(&line);
    return r;
}

int coxi_exit_config(const char *program)
{
    (void)fprintf(stderr, "%s: %s\n", program, coxi_error_text());
    return COXI_EXIT_CONFIG;
}

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
#include "net/ipc.h"
#include "net/link.h"
#include "net/user.h"

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

/* True if strangers are kept out by a key, or may come in because somebody said so. */
static bool may_use_tcp(const struct coxi_daemon_options *options)
{
    return options->insecure || options->has_keys || options->key.kind != COXI_KEY_NONE;
}

int coxi_daemon_check_reach(const struct coxi_daemon_options *options,
                            const char *option, const char *url)
{
    if (coxi_url_is_ipc(url) || may_use_tcp(options)) {
        return 0;
    }
    return coxi_error(COX_EINVAL,
                      "%s %s: any user of this host, and perhaps of others, could run "
                      "code here, because there is no key that keeps strangers out: "
                      "make one (coxswain key new run.key), and give it to all members "
                      "of the run (--key-file run.key, or COX_KEY_FILE); or use "
                      "ipc:///PATH, which only your user reaches; or say --insecure",
                      option, url);
}

static int open_key(struct coxi_daemon_options *options)
{
    int r = coxi_key_open_member(options->key_file, "--key-file", &options->key);
    if (r != 0) {
        return r;
    }
    if (options->key_file != NULL && strcmp(options->key_file, COXI_KEY_PASSED) == 0) {
        (void)close(COXI_KEY_FD); /* not for the programs that steps start */
    }
    return coxi_key_set_seal(&options->key, options->seal, "--seal");
}

/* Tells it if the daemon stays root, loudly unless the program that started it, as
 * root, runs it for itself. */
static int become_user(const struct coxi_daemon_options *options)
{
    int r = coxi_user_become(options->user);
    if (r == 0 && geteuid() == 0) {
        coxi_log(options->parent > 0 ? COXI_LOG_INFO : COXI_LOG_WARN, "stays_root",
                 "text=\"told to by --user %s: whatever its peers make it do, it does "
                 "as root\"",
                 options->user);
    }
    return r;
}

int coxi_daemon_start(struct coxi_daemon_options *options, const char *role)
{
    enum coxi_log_level level;
    int r = coxi_log_level_parse(options->log_level, &level);
    if (r == 0) {
        r = coxi_log_format(options->log_format);
    }
    if (r != 0) {
        return r;
    }
    coxi_log_init(role, (uint32_t)options->index, level);
    coxi_log_bound((uint64_t)options->log_max);
    r = start_alerts(options->alerts);
    if (r != 0) {
        return r;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (options->listen != NULL) {
        r = coxi_url_from(options->listen, options->url);
        if (r != 0) {
            return coxi_error(r, "--listen: %s", coxi_error_text());
        }
        options->listen = options->url;
    }
    r = options->has_keys ? coxi_key_set_seal(&options->key, options->seal, "--seal")
                          : open_key(options);
    if (r == 0) {
        r = become_user(options);
    }
    if (r == 0 && options->ipc_group != NULL &&
        coxi_ipc_let_group_in(options->ipc_group) != 0) {
        r = coxi_error(COX_EINVAL, "--ipc-group: %s", coxi_error_text());
    }
    if (options->parent > 0) { /* after that, because the kernel forgets it then */
        coxi_die_with_parent((int)options->parent);
    }
    return r == 0 && options->listen != NULL
               ? coxi_daemon_check_reach(options, "--listen", options->listen)
               : r;
}

int coxi_daemon_settle(struct coxi_daemon_options *options, const char *role)
{
    bool is_tcp = may_use_tcp(options);
    int r = 0;
    if (options->listen != NULL) {
        return 0;
    }
    if (is_tcp) {
        (void)snprintf(options->url, sizeof(options->url), "tcp://%s:0",
                       options->is_found ? "0.0.0.0" : "127.0.0.1");
    } else {
        r = coxi_directory_held(options->dir, &options->dir_lock);
    }
    if (r == 0 && !is_tcp) {
        (void)snprintf(options->url, sizeof(options->url), "ipc://%s/%s-%u",
                       options->dir, role, (unsigned)options->index);
    }
    options->listen = options->url;
    return r;
}

void coxi_daemon_leave(struct coxi_daemon_options *options)
{
    if (options->dir[0] != '\0') {
        coxi_directory_remove(options->dir);
        (void)close(options->dir_lock);
        options->dir[0] = '\0';
    }
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

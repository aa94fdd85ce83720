/* See daemon.h. */
#include "common/daemon.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"

static bool is_loopback(const char *url)
{
    static const char *const prefixes[] = {"ipc://", "tcp://127.",
                                           "tcp://localhost:", "tcp://[::1]:"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        if (strncmp(url, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

void coxi_die_with_parent(int parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(COXI_EXIT_AGAIN); /* it ended before we asked */
    }
}

int coxi_daemon_start(const struct coxi_daemon_options *options, const char *role)
{
    enum coxi_log_level level;
    int r = coxi_log_level_parse(options->log_level, &level);
    if (r != 0) {
        return r;
    }
    coxi_log_init(role, (uint32_t)options->index, level);
    if (options->parent > 0) {
        coxi_die_with_parent((int)options->parent);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (!is_loopback(options->listen) && !options->insecure) {
        return coxi_error(
            COX_EINVAL,
            "--listen %s can be reached from other hosts, and whoever "
            "reaches it can run code here: listen at tcp://127.0.0.1:PORT "
            "or ipc:///PATH, or say --insecure",
            options->listen);
    }
    return 0;
}

int coxi_write_line(const char *path, const char *line)
{
    char temporary[512];
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.tmp", path) >=
        sizeof(temporary)) {
        return coxi_error(COX_EINVAL, "the path %s is too long", path);
    }
    FILE *file = fopen(temporary, "we");
    if (file == NULL) {
        return coxi_error_errno(COX_EIO, "cannot write %s", temporary);
    }
    bool good = fprintf(file, "%s\n", line) > 0;
    good = fclose(file) == 0 && good;
    if (!good || rename(temporary, path) != 0) {
        return coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0;
}

void coxi_remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int coxi_exit_config(const char *program)
{
    (void)fprintf(stderr, "%s: %s\n", program, coxi_error_text());
    return COXI_EXIT_CONFIG;
}

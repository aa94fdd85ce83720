/* See announcer.h. If this process ends before it knows its address, so does the
 * other. */
#include "worker/announcer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "net/daemon.h"
#include "net/link.h"

enum { NOTHING_TO_WRITE, WRITTEN, FAILED };

/* In the other process: the code with which it ends. */
static int write_address(int from, const char *path)
{
    char address[COXI_URL_MAX + 1] = "";
    size_t len = 0;
    ssize_t n = 1;
    while (n > 0 && len < COXI_URL_MAX) {
        n = read(from, address + len, COXI_URL_MAX - len);
        len += n > 0 ? (size_t)n : 0;
    }
    return len == 0                                   ? NOTHING_TO_WRITE
           : coxi_daemon_announce(path, address) == 0 ? WRITTEN
                                                      : FAILED;
}

int coxi_announcer_start(const char *path, struct coxi_announcer *ret)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return coxi_error_errno(COX_EIO, "cannot make a pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[1]);
        _exit(write_address(ends[0], path));
    }
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return coxi_error_errno(COX_EIO, "cannot start a process");
    }
    *ret = (struct coxi_announcer){pid, ends[1]};
    return 0;
}

int coxi_announcer_tell(struct coxi_announcer *announcer, const char *path,
                        const char *address)
{
    int status = 0;
    if (announcer == NULL || announcer->pid == 0) {
        return coxi_daemon_announce(path, address);
    }
    (void)coxi_fd_write(announcer->to, address, strlen(address));
    (void)close(announcer->to);
    while (waitpid(announcer->pid, &status, 0) < 0 && errno == EINTR) {
    }
    announcer->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == WRITTEN
               ? 0
               : coxi_error(COX_EIO, "cannot write the address file %s", path);
}

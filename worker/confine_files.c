/*
 * See confine.h: Landlock. Constants of newer kernels are here, because the headers of
 * the system on which we are built may be older than the kernel on which we run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "worker/confine.h"

/* Landlock's calls have these numbers on every architecture. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };

enum { GET_VERSION = 1, RULE_PATH_BENEATH = 1 };

/* The rights; which of them the kernel knows depends on its version of Landlock. */
#define BIT(n)      (UINT64_C(1) << (n))
#define EXECUTE     BIT(0)
#define WRITE_FILE  BIT(1)
#define READ_FILE   BIT(2)
#define READ_DIR    BIT(3)
#define REMOVE_FILE BIT(5)
#define MAKE_SOCK   BIT(9)
#define ALL_OF_1    (BIT(13) - 1)
#define REFER       BIT(13) /* from version 2 on */
#define TRUNCATE    BIT(14) /* from version 3 on */

#define READING (EXECUTE | READ_FILE | READ_DIR)

/* Rights that a rule for a file, not a directory, may have. */
#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE)

enum { SCOPES_FROM = 6 };
#define SCOPE_ABSTRACT_SOCKETS BIT(0)
#define SCOPE_SIGNALS          BIT(1)

struct ruleset {
    uint64_t files;
    uint64_t net;
    uint64_t scoped;
};

struct __attribute__((packed)) rule {
    uint64_t allowed;
    int32_t fd;
};

struct landlock {
    int fd;
    uint64_t handled; /* the rights that this kernel knows */
};

static int add_fd(const struct landlock *landlock, int fd, uint64_t rights)
{
    struct stat is;
    if (fstat(fd, &is) == 0 && !S_ISDIR(is.st_mode)) {
        rights &= OF_FILES;
    }
    const struct rule rule = {rights & landlock->handled, fd};
    return (int)syscall(ADD_RULE, landlock->fd, RULE_PATH_BENEATH, &rule, 0);
}

static int add_path(const struct landlock *landlock, const char *path, uint64_t rights,
                    const char *option)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return coxi_error_errno(COX_EINVAL, "%s: cannot use %s", option, path);
    }
    int r = add_fd(landlock, fd, rights) == 0
                ? 0
                : coxi_error_errno(COX_EINVAL, "%s: no rule for %s", option, path);
    (void)close(fd);
    return r;
}

/* Paths separated by colons. */
static int add_list(const struct landlock *landlock, const char *list, uint64_t rights,
                    const char *option)
{
    int r = 0;
    while (r == 0 && list != NULL && *list != '\0') {
        char path[PATH_MAX];
        size_t len = strcspn(list, ":");
        r = coxi_path(path, "%.*s", (int)len, list);
        if (r == 0 && len > 0) {
            r = add_path(landlock, path, rights, option);
        }
        list += len + (list[len] == ':');
    }
    return r;
}

/* The directory in which a file is made. */
static int add_directory_of(const struct landlock *landlock, const char *file,
                            uint64_t rights, const char *option)
{
    char path[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int r = slash == NULL ? coxi_path(path, ".")
                          : coxi_path(path, "%.*s", (int)(slash - file) + 1, file);
    return r == 0 ? add_path(landlock, path, rights, option) : r;
}

/* Steps may use these files; the worker also makes a socket and writes its log. (Its
 * address file is written by another process: announcer.h.) The socket's directory may
 * have others, but only sockets can be made in it; a socket that is left there must be
 * removed first, and the kernel knows no right to remove but one for all files. */
static int add_rules(const struct landlock *landlock,
                     const struct coxi_confinement *confinement)
{
    static const char ipc[] = "ipc://";
    uint64_t all = landlock->handled;
    const char *url = confinement->listen_url;
    int r = add_list(landlock, confinement->read, READING, "--confine-read");
    if (r == 0) {
        r = add_list(landlock, confinement->write, all, "--confine-write");
    }
    if (r == 0) {
        r = add_path(landlock, confinement->dir, all, "--dir");
    }
    if (r == 0) {
        r = add_path(landlock, "/dev/null", READING | WRITE_FILE, "--confine");
    }
    if (r == 0 && url != NULL && strncmp(url, ipc, strlen(ipc)) == 0) {
        r = add_directory_of(landlock, url + strlen(ipc), MAKE_SOCK | REMOVE_FILE,
                             "--listen");
    }
    (void)add_fd(landlock, STDERR_FILENO, OF_FILES); /* fails unless it is a file */
    return r;
}

/* Opens a set of rules for all that this kernel's Landlock knows of. */
static int open_rules(struct landlock *ret)
{
    long version = syscall(CREATE_RULESET, NULL, 0, GET_VERSION);
    if (version < 1) {
        return coxi_error(
            COX_EINVAL,
            "--confine: this kernel has no Landlock (%s): use --confine=seccomp or off",
            errno == EOPNOTSUPP ? "it is switched off" : "Linux 5.13 or later has");
    }
    ret->handled = ALL_OF_1;
    ret->handled |= version >= 2 ? REFER : 0;
    ret->handled |= version >= 3 ? TRUNCATE : 0;
    const struct ruleset ruleset = {
        .files = ret->handled,
        .scoped = version >= SCOPES_FROM ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0,
    };
    /* an older kernel refuses a longer struct only if its tail is not 0 */
    ret->fd = (int)syscall(CREATE_RULESET, &ruleset, sizeof(ruleset), 0);
    return ret->fd >= 0 ? 0
                        : coxi_error_errno(COX_EINVAL, "--confine: Landlock refuses");
}

int coxi_confine_files(const struct coxi_confinement *confinement)
{
    struct landlock landlock;
    int r = open_rules(&landlock);
    if (r != 0) {
        return r;
    }
    r = add_rules(&landlock, confinement);
    if (r == 0 && syscall(RESTRICT_SELF, landlock.fd, 0) != 0) {
        r = coxi_error_errno(COX_EINVAL, "--confine: Landlock refuses");
    }
    (void)close(landlock.fd);
    return r;
}

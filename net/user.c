/* See user.h. */
#include "net/user.h"

#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/error.h"

struct user {
    const char *name; /* NULL: the system has no name for it */
    uid_t uid;
    gid_t gid;
};

static int find(const char *text, struct user *ret)
{
    /* No other thread runs yet, so these functions' static results are safe. */
    const struct passwd *entry = getpwnam(text); /* NOLINT(concurrency-mt-unsafe) */
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    bool is_number =
        isdigit((unsigned char)*text) && *end == '\0' && number < UINT32_MAX;
    if (entry == NULL && is_number) {
        entry = getpwuid((uid_t)number); /* NOLINT(concurrency-mt-unsafe) */
    }
    if (entry == NULL && !is_number) {
        return coxi_error(COX_EINVAL, "--user: there is no user '%s' here", text);
    }
    *ret = entry != NULL ? (struct user){entry->pw_name, entry->pw_uid, entry->pw_gid}
                         : (struct user){NULL, (uid_t)number, (gid_t)number};
    return 0;
}

/* Groups first, because only root can change them. */
static bool drop(const struct user *user)
{
    bool done = user->name != NULL ? initgroups(user->name, user->gid) == 0
                                   : setgroups(0, NULL) == 0;
    return done && setresgid(user->gid, user->gid, user->gid) == 0 &&
           setresuid(user->uid, user->uid, user->uid) == 0;
}

/* What was dropped is gone, and does not come back. */
static bool is_dropped(const struct user *user)
{
    uid_t uids[3];
    gid_t gids[3];
    return getresuid(&uids[0], &uids[1], &uids[2]) == 0 &&
           getresgid(&gids[0], &gids[1], &gids[2]) == 0 && uids[0] == user->uid &&
           uids[1] == user->uid && uids[2] == user->uid && gids[0] == user->gid &&
           gids[1] == user->gid && gids[2] == user->gid && setuid(0) != 0 &&
           seteuid(0) != 0;
}

int coxi_user_become(const char *text)
{
    struct user user = {0};
    if (text == NULL) {
        return geteuid() != 0
                   ? 0
                   : coxi_error(COX_EINVAL,
                                "this would run as root, and so would whatever peers "
                                "make it do: name another user with --user NAME, or "
                                "say --user root to stay root");
    }
    int r = find(text, &user);
    if (r != 0 || user.uid == geteuid()) {
        return r;
    }
    if (geteuid() != 0) {
        return coxi_error(COX_EINVAL,
                          "--user %s: only a daemon that root starts can change its "
                          "user, and this one runs as user %u",
                          text, (unsigned)geteuid());
    }
    if (!drop(&user)) {
        return coxi_error_errno(COX_EIO, "--user %s: cannot become that user", text);
    }
    if (!is_dropped(&user)) {
        return coxi_error(COX_EIO, "--user %s: root's rights cannot be dropped", text);
    }
    /* The kernel takes the process for one that hides root's secrets; then other
     * processes of the user could not share memory with it (rings.h). */
    (void)prctl(PR_SET_DUMPABLE, 1);
    return 0;
}

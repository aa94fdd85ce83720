/* See ipc.h. Threads: any; the group is set before they start. Who is a member may take
 * long to find out, because the system may ask other hosts. So the group's members are
 * asked for once, at start; and the system is asked about a user who is not among them
 * once if that is a member, and otherwise again after a time: groups change, and the
 * system's answer may be that of a moment at which it could not tell. (The kernel knows the groups of a peer, but nng hides the socket.) */
#include "net/ipc.h"

#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"

enum { MODE = 0600, MODE_OF_GROUP = 0660, GROUPS_MAX = 1024, NAMES_MAX = 16384 };

/* Users of whom we know whether they are members. */
enum { KNOWN_MAX = 256 };

struct known {
    uid_t uid;
    bool is_member;
    uint64_t until_ms; /* UINT64_MAX: for ever */
};

atomic_uint coxi_ipc_no_ms = 10000;

static bool lets_group_in;
static gid_t let_in;
static struct coxi_mutex lock =
    COXI_MUTEX_INIT; /* leaf; nobody asks the system with it */
static struct known known[KNOWN_MAX] COXI_GUARDED_BY(lock);
static size_t
    n_known COXI_GUARDED_BY(lock); /* learned so far: the oldest are replaced */

static void learn(uid_t uid, bool is)
{
    uint64_t until_ms = is ? UINT64_MAX : coxi_now_ms() + atomic_load(&coxi_ipc_no_ms);
    coxi_lock(&lock);
    known[n_known++ % KNOWN_MAX] = (struct known){uid, is, until_ms};
    coxi_unlock(&lock);
}

static bool knows(uid_t uid, bool *ret)
{
    bool found = false;
    uint64_t now_ms = coxi_now_ms();
    coxi_lock(&lock);
    for (size_t i = 0; i < n_known && i < KNOWN_MAX && !found; i++) {
        found = known[i].uid == uid && now_ms < known[i].until_ms;
        *ret = known[i].is_member;
    }
    coxi_unlock(&lock);
    return found;
}

/* The members that the group itself names, of which most are; at start. */
static void learn_members(const struct group *group)
{
    for (size_t i = 0; group->gr_mem[i] != NULL && i < KNOWN_MAX; i++) {
        struct passwd entry;
        struct passwd *found = NULL;
        char names[NAMES_MAX];
        if (getpwnam_r(group->gr_mem[i], &entry, names, sizeof(names), &found) == 0 &&
            found != NULL) {
            learn(entry.pw_uid, true);
        }
    }
}

int coxi_ipc_let_group_in(const char *group)
{
    /* No other thread runs yet, so this function's static result is safe. */
    const struct group *entry = getgrnam(group); /* NOLINT(concurrency-mt-unsafe) */
    char *end = NULL;
    unsigned long number = strtoul(group, &end, 10);
    bool is_number =
        isdigit((unsigned char)*group) && *end == '\0' && number < UINT32_MAX;
    if (entry == NULL && !is_number) {
        return coxi_error(COX_EINVAL, "there is no group '%s' here", group);
    }
    coxi_lock(&lock);
    n_known = 0;
    coxi_unlock(&lock);
    if (entry != NULL) {
        learn_members(entry);
    }
    let_in = entry != NULL ? entry->gr_gid : (gid_t)number;
    lets_group_in = true;
    return 0;
}

/* True if the user is a member of the group, also if that is not its first group: the
 * kernel names only the first one of a peer. */
static bool is_member(uid_t uid, gid_t group)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char *names = malloc(NAMES_MAX);
    gid_t *groups = malloc(GROUPS_MAX * sizeof(*groups));
    int n = GROUPS_MAX;
    bool is = names != NULL && groups != NULL &&
              getpwuid_r(uid, &entry, names, NAMES_MAX, &found) == 0 && found != NULL &&
              getgrouplist(entry.pw_name, entry.pw_gid, groups, &n) >= 0;
    bool any = false;
    for (int i = 0; is && i < n && !any; i++) {
        any = groups[i] == group;
    }
    free(groups);
    free(names);
    return any;
}

static bool is_let_in(uid_t uid)
{
    bool is = false;
    if (!knows(uid, &is)) {
        is = is_member(uid, let_in);
        learn(uid, is);
    }
    return is;
}

int coxi_ipc_check_user(uint64_t uid)
{
    if (uid == geteuid() || uid == 0 || (lets_group_in && is_let_in((uid_t)uid))) {
        return 0;
    }
    return coxi_error(COX_EDENIED,
                      "a process of user %u is at the other end: at an ipc address "
                      "there may be those of user %u, of root%s",
                      (unsigned)uid, (unsigned)geteuid(),
                      lets_group_in ? ", and of the members of --ipc-group" : "");
}

int coxi_ipc_check_stream(nng_stream *stream)
{
    uint64_t uid = 0;
    uint64_t gid = 0;
    if (lets_group_in &&
        nng_stream_get_uint64(stream, NNG_OPT_IPC_PEER_GID, &gid) == 0 &&
        gid == let_in) {
        return 0; /* its first group */
    }
    return nng_stream_get_uint64(stream, NNG_OPT_IPC_PEER_UID, &uid) == 0
               ? coxi_ipc_check_user(uid)
               : coxi_error(COX_EDENIED, "the system does not name the user at the "
                                         "other end");
}

int coxi_ipc_mode(void)
{
    return lets_group_in ? MODE_OF_GROUP : MODE;
}

int coxi_ipc_give_away(const char *path)
{
    return !lets_group_in || chown(path, (uid_t)-1, let_in) == 0
               ? 0
               : coxi_error_errno(COX_EADDRESS, "cannot give %s to the group %u", path,
                                  (unsigned)let_in);
}

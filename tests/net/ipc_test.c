/* Which users' processes connect at ipc addresses. Processes of other users are children
 * that change to user `nobody`, which only root can do. */
#include "net/ipc.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { NOBODY = 65534, WAIT_MS = 8000 };

#define needs_root()                                                                   \
    if (geteuid() != 0) {                                                              \
        skip(); /* only root can act as another user */                                \
    }

/* The test's directory is made in /tmp, because other users may not reach $TMPDIR. */
static void ipc_open(struct door *door)
{
    assert_int_equal(0, setenv("TMPDIR", "/tmp", 1));
    door_open(door, false);
}

static const char *path_of(const struct door *door)
{
    return door->url + strlen("ipc://");
}

/* In the child: 0 if the connection stays open for a while, 1 if it was ended, 2 if the
 * kernel has refused it. */
static int connect_as_nobody(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval some = {.tv_sec = 1};
    char byte;
    (void)strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
        return 9;
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        return 2;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &some, sizeof(some));
    return recv(fd, &byte, 1, 0) == 0 ? 1 : 0;
}

static int outcome_for_nobody(const struct door *door)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(connect_as_nobody(path_of(door)));
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void open_the_way(const struct door *door)
{
    assert_int_equal(0, chmod(coxi_test_dir(), 0711));
    assert_int_equal(0, chmod(path_of(door), 0666));
}

/* A link of this user still comes in. */
static void door_serves(struct door *door)
{
    struct coxi_link *link;
    assert_code(0, coxi_link_connect(door->url, NULL, WAIT_MS, &link));
    coxi_link_unref(door_wait(door));
    coxi_link_unref(link);
}

TEST(the_socket_s_mode_keeps_another_user_out)
{
    struct door door;
    needs_root();
    mode_t before = umask(0);
    ipc_open(&door);
    (void)umask(before);
    assert_int_equal(0, chmod(coxi_test_dir(), 0711));
    assert_int_equal(2, outcome_for_nobody(&door));
    door_serves(&door);
    door_close(&door);
}

/* Even if somebody has made the socket writable for all. */
TEST(the_kernel_s_word_keeps_another_user_out)
{
    struct door door;
    needs_root();
    ipc_open(&door);
    open_the_way(&door);
    assert_int_equal(1, outcome_for_nobody(&door));
    door_serves(&door);
    door_close(&door);
}

TEST(a_member_of_the_ipc_group_is_let_in)
{
    struct door door;
    struct stat st;
    needs_root();
    const struct passwd *nobody = getpwuid(NOBODY);
    if (nobody == NULL || nobody->pw_gid != NOBODY) {
        skip();
    }
    assert_code(0, coxi_ipc_let_group_in("65534"));
    ipc_open(&door);
    assert_int_equal(0, chmod(coxi_test_dir(), 0711));
    assert_int_equal(0, stat(path_of(&door), &st));
    assert_int_equal(0660, st.st_mode & 0777);
    assert_int_equal(NOBODY, st.st_gid);
    assert_int_equal(0, outcome_for_nobody(&door));
    coxi_link_unref(door_wait(&door));
    door_close(&door);
}

TEST(another_group_than_the_users_lets_it_not_in)
{
    struct door door;
    needs_root();
    assert_code(0, coxi_ipc_let_group_in("54321"));
    ipc_open(&door);
    open_the_way(&door);
    assert_int_equal(1, outcome_for_nobody(&door));
    door_close(&door);
}

/* ---- groups that are not the user's first */

static int n_failures; /* of the next calls */
static int n_asked;

/* In place of libc's, which may ask other hosts. */
int getgrouplist(const char *user, gid_t group, gid_t *groups, int *ret_n)
{
    (void)user;
    n_asked++;
    if (n_failures > 0) {
        n_failures--;
        return -1;
    }
    groups[0] = group;
    *ret_n = 1;
    return 1;
}

/* The user's first group is another one. */
TEST(a_member_that_only_the_list_of_groups_names_is_let_in)
{
    const struct group *entry;
    const struct passwd *user = NULL;
    char name[64] = "";
    setgrent();
    while (user == NULL && (entry = getgrent()) != NULL) {
        if (entry->gr_mem[0] != NULL && (user = getpwnam(entry->gr_mem[0])) != NULL) {
            (void)snprintf(name, sizeof(name), "%s", entry->gr_name);
            user = user->pw_gid == entry->gr_gid || user->pw_uid == geteuid() ||
                           user->pw_uid == 0
                       ? NULL
                       : user;
        }
    }
    endgrent();
    if (user == NULL) {
        skip(); /* this system has no such user */
    }
    uid_t uid = user->pw_uid;
    assert_code(COX_EDENIED, coxi_ipc_check_user(uid));
    n_asked = 0;
    assert_code(0, coxi_ipc_let_group_in(name));
    assert_code(0, coxi_ipc_check_user(uid));
    assert_int_equal(0, n_asked); /* the group names it */
}

TEST(the_system_is_asked_about_a_user_s_groups_once)
{
    const struct passwd *nobody = getpwuid(NOBODY);
    if (nobody == NULL || geteuid() == NOBODY) {
        skip();
    }
    n_asked = 0;
    assert_code(0, coxi_ipc_let_group_in("54321"));
    for (int i = 0; i < 1000; i++) {
        assert_code(COX_EDENIED, coxi_ipc_check_user(NOBODY));
    }
    assert_int_equal(1, n_asked);
}

/* The list of groups has the first group only, and the first answer is an error. */
TEST(a_user_who_was_no_member_is_asked_about_again_after_a_time)
{
    const struct passwd *nobody = getpwuid(NOBODY);
    char group[16];
    if (nobody == NULL || geteuid() == NOBODY) {
        skip();
    }
    (void)snprintf(group, sizeof(group), "%u", (unsigned)nobody->pw_gid);
    assert_code(0, coxi_ipc_let_group_in(group));
    n_asked = 0;
    n_failures = 1;
    assert_code(COX_EDENIED, coxi_ipc_check_user(NOBODY));
    assert_code(COX_EDENIED, coxi_ipc_check_user(NOBODY));
    assert_int_equal(1, n_asked);
    n_failures = 1;
    atomic_store(&coxi_ipc_no_ms, 0);
    assert_code(0, coxi_ipc_let_group_in(group)); /* forgets */
    assert_code(COX_EDENIED, coxi_ipc_check_user(NOBODY));
    assert_code(0, coxi_ipc_check_user(NOBODY));
    assert_code(0, coxi_ipc_check_user(NOBODY));
    assert_int_equal(3, n_asked);
}

TEST(this_user_and_root_are_let_in_and_others_are_named)
{
    assert_code(0, coxi_ipc_check_user(geteuid()));
    assert_code(0, coxi_ipc_check_user(0));
    assert_code(COX_EDENIED, coxi_ipc_check_user((uint64_t)geteuid() + 12345));
    assert_error_names("user");
    assert_code(COX_EINVAL, coxi_ipc_let_group_in("no-such-group-here"));
    assert_error_names("no-such-group-here");
}

/* One client for each directory and ps: clients that are replaced or cut off; and file
 * descriptors that children must not inherit. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/coordinator/inside.h"
#include "tests/coordinator/yard.h"
#include "tests/test.h"

static struct cox_options options_for(const char *dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.min_workers = 0;
    return options;
}

/* ---- clients that are replaced */

static bool is_replaced(void *c)
{
    return cox_done(c) == COX_EFENCED;
}

/* Asserts that every function of the client returns COX_EFENCED. */
static void assert_replaced(struct crew *crew, struct cox_variable *counter)
{
    int64_t value = 1;
    assert_code(COX_EFENCED, cox_join(crew->c, 1000));
    assert_code(COX_EFENCED,
                cox_schedule(crew->c, crew_function(crew, "number_off"), NULL, NULL));
    assert_code(COX_EFENCED,
                cox_variable_read(crew->c, counter, &value, sizeof(value)));
    assert_code(COX_EFENCED,
                cox_variable_assign(crew->c, counter, &value, sizeof(value)));
    assert_code(COX_EFENCED, cox_checkpoint_save(crew->c, NULL, NULL));
    assert_code(COX_EFENCED, cox_close(crew->c, 1000));
}

TEST(an_idle_client_learns_from_the_ps_that_another_has_taken_its_place)
{
    struct yard yard;
    char listen[300];
    struct cox_options options = options_for(coxi_test_path("checkpoints"));
    yard_open(&yard, &options);
    assert_code(0, cox_checkpoint_save(yard.crew.c, NULL, NULL));
    struct crew old = yard.crew;
    struct cox_variable *old_counter = yard.counter;
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("second"));
    options.listen = listen;
    yard_open_client(&yard, &options);
    coxi_test_until(is_replaced, old.c, "what the first client is told");
    assert_replaced(&old, old_counter);
    assert_int_equal(0, crew_read(&yard.crew, yard.counter));
    yard_close(&yard);
}

TEST(an_idle_client_with_a_cluster_of_its_own_learns_it_from_the_directory)
{
    struct crew first;
    struct crew second;
    struct cox_options options = options_for(coxi_test_path("checkpoints"));
    crew_open(&first, 1, 1, "hold", &options);
    struct cox_variable *counter = crew_counter(&first, "c0");
    assert_code(0, cox_checkpoint_save(first.c, NULL, NULL));
    crew_open(&second, 1, 1, "hold", &options);
    coxi_test_until(is_replaced, first.c, "a look into the directory");
    assert_replaced(&first, counter);
    assert_code(0, cox_checkpoint_save(second.c, NULL, NULL));
    crew_close(&second);
}

/* ---- clients that are cut off */

/* A ps at an address that the test can take away, for client `yard->crew`. */
struct cut {
    struct yard yard;
    char link[256]; /* the path that the client dials: a link to the ps's own path */
    char path[256];
};

static void join_link(struct cut *cut)
{
    assert_int_equal(0, symlink(cut->path, cut->link));
}

static void open_cut(struct cut *cut, const struct cox_options *options)
{
    char json[600];
    char listen[300];
    *cut = (struct cut){0};
    (void)snprintf(cut->path, sizeof(cut->path), "%s", coxi_test_path("ps"));
    (void)snprintf(cut->link, sizeof(cut->link), "%s", coxi_test_path("link"));
    (void)snprintf(listen, sizeof(listen), "ipc://%s", cut->path);
    daemon_start(&cut->yard.ps, "coxswain-ps", 0, listen, cut->yard.ps_address);
    join_link(cut);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"ipc://%s\"]}", cut->link);
    assert_code(0, cox_cluster_parse(json, &cut->yard.cluster));
    (void)snprintf(cut->yard.listen, sizeof(cut->yard.listen), "ipc://%s",
                   coxi_test_path("client"));
    yard_open_client(&cut->yard, options);
}

/* Another client connects at the ps's own address, writes, and closes. */
static void use_ps(struct cut *cut, const char *dir, const char *variable)
{
    char json[400];
    char listen[300];
    struct crew other = {0};
    struct cox_cluster *cluster;
    struct cox_options options = options_for(dir);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", cut->yard.ps_address);
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("other"));
    options.listen = listen;
    assert_code(0, cox_cluster_parse(json, &cluster));
    assert_code(0, cox_open(cluster, &options, &other.c));
    assert_int_equal(0, crew_read(&other, crew_counter(&other, variable)));
    assert_code(0, cox_close(other.c, 5000));
    cox_cluster_free(cluster);
}

TEST(a_ps_that_has_served_another_run_meanwhile_is_given_everything_anew)
{
    static struct cut cut;
    const int64_t seven = 7;
    struct cox_options options = options_for(coxi_test_path("checkpoints"));
    open_cut(&cut, &options);
    struct yard *yard = &cut.yard;
    assert_code(0,
                cox_variable_add(yard->crew.c, yard->counter, &seven, sizeof(seven)));
    assert_code(0, cox_checkpoint_save(yard->crew.c, NULL, NULL));
    assert_code(0,
                cox_variable_add(yard->crew.c, yard->counter, &seven, sizeof(seven)));
    assert_int_equal(0, unlink(cut.link));
    inside_cut_off(yard->crew.c, 0);
    use_ps(&cut, coxi_test_path("others"), "elsewhere");
    join_link(&cut);
    assert_int_equal(14, crew_read(&yard->crew, yard->counter));
    assert_code(0,
                cox_variable_add(yard->crew.c, yard->counter, &seven, sizeof(seven)));
    assert_code(0, cox_checkpoint_save(yard->crew.c, NULL, NULL));
    assert_int_equal(21, crew_read(&yard->crew, yard->counter));
    yard_close(yard);
}

TEST(a_ps_that_nobody_has_served_meanwhile_still_has_everything)
{
    static struct cut cut;
    const int64_t seven = 7;
    uint64_t before;
    uint64_t after;
    struct cox_options options = options_for(coxi_test_path("checkpoints"));
    open_cut(&cut, &options);
    struct yard *yard = &cut.yard;
    assert_code(0,
                cox_variable_add(yard->crew.c, yard->counter, &seven, sizeof(seven)));
    inside_incarnations(yard->crew.c, &before);
    inside_cut_off(yard->crew.c, 0);
    assert_int_equal(7, crew_read(&yard->crew, yard->counter));
    inside_incarnations(yard->crew.c, &after);
    assert_true(before == after);
    yard_close(yard);
}

/* Copies the directory's claim. If another client of the same run claims the next
 * generation in the copy, the first client's own directory does not show it. */
static const char *copy_claim(const char *dir)
{
    char path[300];
    size_t len;
    const char *copy = coxi_test_path("copy");
    (void)snprintf(path, sizeof(path), "%s/generation-1", dir);
    char *claim = coxi_test_read(path, &len);
    (void)snprintf(path, sizeof(path), "%s/generation-1", copy);
    assert_int_equal(0, mkdir(copy, 0700));
    coxi_test_write(path, claim, len);
    free(claim);
    return copy;
}

TEST(a_client_that_was_replaced_while_it_was_cut_off_is_told_when_it_comes_back)
{
    static struct cut cut;
    int64_t value;
    const char *dir = coxi_test_path("checkpoints");
    struct cox_options options = options_for(dir);
    open_cut(&cut, &options);
    struct yard *yard = &cut.yard;
    const char *copy = copy_claim(dir);
    assert_int_equal(0, unlink(cut.link));
    inside_cut_off(yard->crew.c, 0);
    use_ps(&cut, copy, "elsewhere");
    use_ps(&cut, coxi_test_path("others"), "elsewhere");
    join_link(&cut);
    assert_code(COX_EFENCED,
                cox_variable_read(yard->crew.c, yard->counter, &value, sizeof(value)));
    assert_replaced(&yard->crew, yard->counter);
    yard->crew.c = NULL;
    program_kill(&yard->ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&yard->ps));
    cox_cluster_free(yard->cluster);
}

/* ---- open file descriptors */

enum { FDS_MAX = 1024 };

static void look_at_fds(bool ret[FDS_MAX])
{
    for (int fd = 0; fd < FDS_MAX; fd++) {
        ret[fd] = fcntl(fd, F_GETFD) >= 0;
    }
}

/* Asserts that no descriptor which was opened since `before` is inherited by a
 * child. */
static void assert_closed_on_exec(const bool before[FDS_MAX])
{
    bool any = false;
    for (int fd = 0; fd < FDS_MAX; fd++) {
        int flags = fcntl(fd, F_GETFD);
        char path[64];
        char target[300] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (flags < 0 || before[fd]) {
            continue;
        }
        any = true;
        (void)!readlink(path, target, sizeof(target) - 1);
        if ((flags & FD_CLOEXEC) == 0) {
            fail_msg("descriptor %d, %s, goes to children", fd, target);
        }
    }
    assert_true(any);
}

TEST(nothing_that_a_client_has_open_goes_to_its_children)
{
    static bool before[FDS_MAX];
    struct crew crew;
    struct cox_options options = options_for(coxi_test_path("checkpoints"));
    char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("listen"));
    options.listen = listen;
    look_at_fds(before);
    for (int i = 0; i < 2; i++) {
        crew_open(&crew, 2, 1, "hold", &options);
        (void)crew_counter(&crew, "c0");
        assert_closed_on_exec(before);
        assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
        assert_closed_on_exec(before);
        crew_close(&crew);
    }
}

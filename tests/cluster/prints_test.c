/* Where the output of steps goes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cluster/cluster.h"
#include "coordinator/coordinator.h"
#include "net/ps_client.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* A local cluster without log_dir, whose client's standard error is a file. */
struct scene {
    struct crew crew;
    int kept_stderr;
    const char *path;
};

static void scene_open(struct scene *scene)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_cluster *cluster;
    scene->path = coxi_test_path("stderr");
    int fd = open(scene->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    scene->kept_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(fd >= 0 && scene->kept_stderr >= 0);
    assert_int_equal(STDERR_FILENO, dup2(fd, STDERR_FILENO));
    assert_int_equal(0, close(fd));
    options.bin_dir = coxi_test_bin();
    options.min_workers = 2;
    assert_code(0, cox_cluster_local(1, 2, &cluster));
    int r = cox_open(cluster, &options, &scene->crew.c);
    assert_int_equal(STDERR_FILENO, dup2(scene->kept_stderr, STDERR_FILENO));
    assert_code(0, r);
    cox_cluster_free(cluster);
    assert_code(0, cox_module_load(scene->crew.c, coxi_test_module("prints"),
                                   &scene->crew.module));
}

static void call(struct scene *scene, const char *name, int code)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(scene->crew.c, crew_function(&scene->crew, name), NULL,
                                &future));
    assert_code(code, cox_future_wait(future, -1));
    cox_future_free(future);
}

/* Closes; returns everything that was printed, for free(). */
static char *scene_close(struct scene *scene)
{
    (void)cox_close(scene->crew.c, 5000);
    (void)close(scene->kept_stderr);
    return coxi_test_read(scene->path, NULL);
}

/* Asserts that this whole line was printed by one of the workers. */
static void assert_line(const char *all, const char *text)
{
    char line[2][128];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(line[i], sizeof(line[i]), "worker %d: %s\n", i, text);
    }
    const char *at = strstr(all, line[0]);
    at = at != NULL ? at : strstr(all, line[1]);
    if (at == NULL || (at != all && at[-1] != '\n')) {
        fail_msg("no line '%s' in: %s", text, all);
    }
}

TEST(what_steps_print_is_the_clients_stderr_with_the_workers_name)
{
    struct scene scene;
    scene_open(&scene);
    call(&scene, "print", 0);
    call(&scene, "begin", 0);
    char *all = scene_close(&scene);
    assert_line(all, "one line");
    assert_line(all, "another, in two parts");
    assert_line(all, "the beginning of a line");
    assert_null(strstr(all, "event=")); /* log lines do not go there */
    free(all);
}

TEST(a_long_line_is_printed_in_pieces)
{
    struct scene scene;
    size_t n = 0;
    scene_open(&scene);
    call(&scene, "print_long", 0);
    char *all = scene_close(&scene);
    for (const char *at = all; (at = strchr(at, 'x')) != NULL; at++) {
        n++;
    }
    assert_int_equal(5000, n);
    assert_true(strlen(all) == 5000 + 2 * strlen("worker 0: \n"));
    free(all);
}

TEST(the_last_words_of_a_step_that_crashes_are_printed)
{
    struct scene scene;
    coxi_test_expect_crashes();
    scene_open(&scene);
    call(&scene, "last_words", COX_ECRASHED);
    char *all = scene_close(&scene);
    assert_line(all, "last words");
    free(all);
}

/* Sends a ps bytes that are no message. */
static void send_garbage(struct crew *crew)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char bytes[256];
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(1, sscanf(coxi_psc_address(crew->c->ps.clients[0]), "ipc://%107s",
                               address.sun_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
    assert_int_equal(sizeof(bytes), write(fd, bytes, sizeof(bytes)));
    while (read(fd, bytes, sizeof(bytes)) > 0) {
    }
    assert_int_equal(0, close(fd));
}

TEST(warnings_of_ps_are_the_clients_stderr)
{
    struct scene scene;
    scene_open(&scene);
    send_garbage(&scene.crew);
    char *all = scene_close(&scene);
    const char *line = strstr(all, "ps 0: ts=");
    if (line == NULL || strstr(line, "level=warn role=ps") == NULL) {
        fail_msg("no line of the ps in: %s", all);
    }
    free(all);
}

TEST(what_a_step_executes_does_not_get_the_pipe_for_alerts)
{
    static const char *const logs[] = {"quiet", "warn"};
    for (size_t i = 0; i < sizeof(logs) / sizeof(*logs); i++) {
        struct scene scene;
        assert_int_equal(0, setenv("COX_LOG", logs[i], 1));
        scene_open(&scene);
        call(&scene, "guard_alerts", 0);
        free(scene_close(&scene));
    }
}

TEST(quiet_client_is_told_no_warnings_of_daemons)
{
    struct scene scene;
    assert_int_equal(0, setenv("COX_LOG", "quiet", 1));
    coxi_test_expect_crashes();
    scene_open(&scene);
    call(&scene, "last_words", COX_ECRASHED);
    char *all = scene_close(&scene);
    assert_line(all, "last words");
    assert_null(strstr(all, "event="));
    free(all);
}

TEST(errors_of_daemons_are_the_clients_stderr)
{
    struct scene scene;
    coxi_test_expect_crashes();
    scene_open(&scene);
    call(&scene, "last_words", COX_ECRASHED);
    char *all = scene_close(&scene);
    const char *died = strstr(all, "event=step_process_died");
    const char *line = died;
    while (line != NULL && line > all && line[-1] != '\n') {
        line--;
    }
    if (died == NULL || strncmp(line, "worker ", strlen("worker ")) != 0) {
        fail_msg("no line of the worker's: %s", all);
    }
    free(all);
}

TEST(what_steps_print_is_in_the_workers_log_where_there_is_one)
{
    struct crew crew;
    char path[300];
    crew_open(&crew, 1, 1, "prints", NULL);
    crew_schedule(&crew, crew_function(&crew, "print"), 1, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    (void)snprintf(path, sizeof(path), "%s/worker-0.log", crew.log_dir);
    char *all = coxi_test_read(path, NULL);
    assert_non_null(strstr(all, "\none line\n"));
    assert_non_null(strstr(all, "another, in two parts\n"));
    free(all);
}

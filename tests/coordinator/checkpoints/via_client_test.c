/*
 * Checkpoints that go through the client, with ps that do not see its directory: they may
 * only use files beneath a directory that does not exist. Answers to turns go through this
 * file (coxi_psc_submit, ld --wrap).
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/ps_client.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

enum { N_PS = 2, ROWS = 400000, FILE_MAX = 64 * 1024 };

/* ---- faults on the way from the ps */

static enum fault { NONE, DAMAGES_A_PIECE, REPEATS_A_PIECE, NEVER_ENDS } fault;
static atomic_int n_faults;
static void (*real_done)(struct coxi_psc_request *request, int code,
                         const struct coxi_message *answer, void *payload,
                         size_t payload_len);

/* Answers of a ps as they come with the fault. */
static void faulty_done(struct coxi_psc_request *request, int code,
                        const struct coxi_message *answer, void *payload, size_t len)
{
    struct coxi_message changed = code == 0 ? *answer : (struct coxi_message){0};
    bool is_piece = code == 0 && len > 0;
    if (is_piece && fault == DAMAGES_A_PIECE && atomic_fetch_add(&n_faults, 1) == 0) {
        ((uint8_t *)payload)[len / 2] ^= 1;
    }
    if (is_piece && fault == REPEATS_A_PIECE && atomic_fetch_add(&n_faults, 1) > 1) {
        changed.exchanged.offset = 0;
    }
    if (code == 0 && fault == NEVER_ENDS) { /* nor refuses anything */
        changed.exchanged.over = false;
        changed.exchanged.code = 0;
    }
    real_done(request, code, code == 0 ? &changed : answer, payload, len);
}

__typeof__(coxi_psc_submit) __real_coxi_psc_submit, __wrap_coxi_psc_submit;

int __wrap_coxi_psc_submit(struct coxi_psc *psc, const struct coxi_message *message,
                           struct coxi_psc_request *request, bool later)
{
    if (message->kind == COXI_EXCHANGE && fault != NONE) {
        real_done = request->done;
        request->done = faulty_done;
    }
    return __real_coxi_psc_submit(psc, message, request, later);
}

/* ---- the cluster */

struct site {
    struct program ps[N_PS];
    struct program worker;
    struct cox_cluster *cluster;
    struct crew crew;
    struct cox_variable *counters[N_PS];
};

static void ps_address(int index, char ret[300])
{
    char name[16];
    (void)snprintf(name, sizeof(name), "ps-%d", index);
    (void)snprintf(ret, 300, "ipc://%s", coxi_test_path(name));
}

static void start_ps(struct site *site, int index)
{
    char address[300];
    char number[8];
    ps_address(index, address);
    (void)snprintf(number, sizeof(number), "%d", index);
    const char *argv[] = {"coxswain-ps", "--listen", address,
                          "--index",     number,     "--checkpoint-root=/nowhere",
                          NULL};
    program_start(&site->ps[index], argv);
    program_wait_printed(&site->ps[index], "event=listening");
}

static void site_start(struct site *site)
{
    char addresses[N_PS][300];
    char worker[256];
    char json[1200];
    char listen[300];
    *site = (struct site){0};
    for (int i = 0; i < N_PS; i++) {
        ps_address(i, addresses[i]);
        start_ps(site, i);
    }
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("worker"));
    daemon_start(&site->worker, "coxswain-worker", 0, listen, worker);
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"%s\", \"%s\"], \"worker\": [\"%s\"]}", addresses[0],
                   addresses[1], worker);
    assert_code(0, cox_cluster_parse(json, &site->cluster));
}

static struct cox_options options_of(const char *via)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.checkpoint_incremental = 10;
    options.checkpoint_at_close = -1;
    options.checkpoint_via = via;
    return options;
}

static void open_client(struct site *site)
{
    struct cox_options options = options_of("client");
    assert_code(0, cox_open(site->cluster, &options, &site->crew.c));
    assert_code(0, cox_module_load(site->crew.c, coxi_test_module("counter"),
                                   &site->crew.module));
    site->counters[0] = crew_counter(&site->crew, "c0");
    site->counters[1] = crew_counter(&site->crew, "c1");
}

static void site_end(struct site *site)
{
    assert_code(0, cox_close(site->crew.c, 5000));
    cox_cluster_free(site->cluster);
    program_kill(&site->worker, SIGKILL);
    (void)program_wait(&site->worker);
    for (int i = 0; i < N_PS; i++) {
        program_kill(&site->ps[i], SIGKILL);
        (void)program_wait(&site->ps[i]);
    }
}

static void count(struct site *site, int n)
{
    crew_schedule(&site->crew, crew_function(&site->crew, "count"), n, N_PS);
    assert_code(0, cox_join(site->crew.c, -1));
}

static void assert_counted(struct site *site, int64_t n)
{
    for (int i = 0; i < N_PS; i++) {
        assert_int_equal(n, crew_read(&site->crew, site->counters[i]));
    }
}

/* A variable of 3.2 MB on the ps. */
static struct cox_variable *make_large(struct site *site)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *large;
    spec.name = "large";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = ROWS;
    spec.shards = N_PS;
    assert_code(0, cox_variable_create(site->crew.c, &spec, &large));
    return large;
}

static void assign(struct site *site, struct cox_variable *large, int64_t from)
{
    static int64_t values[ROWS];
    for (int64_t i = 0; i < ROWS; i++) {
        values[i] = from + i;
    }
    assert_code(0, cox_variable_assign(site->crew.c, large, values, sizeof(values)));
}

static void assert_values(struct site *site, struct cox_variable *large, int64_t from)
{
    static int64_t values[ROWS];
    assert_code(0, cox_variable_read(site->crew.c, large, values, sizeof(values)));
    for (int64_t i = 0; i < ROWS; i++) {
        assert_int_equal(from + i, values[i]);
    }
}

TEST(ps_that_do_not_see_the_directory_are_saved_and_restored_through_the_client)
{
    struct site site;
    struct cox_options shared = options_of("ps");
    site_start(&site);
    crew_refused(site.cluster, &shared, COX_EIO, "checkpoint");
    open_client(&site);
    struct cox_variable *large = make_large(&site);
    assign(&site, large, 5);
    count(&site, 10);
    assert_code(0, cox_checkpoint_save(site.crew.c, NULL, NULL));
    assign(&site, large, 7);
    count(&site, 10);
    assert_code(0, cox_checkpoint_save(site.crew.c, NULL, NULL)); /* builds on it */
    count(&site, 10);
    program_kill(&site.ps[1], SIGKILL);
    (void)program_wait(&site.ps[1]);
    start_ps(&site, 1);
    count(&site, 10);
    assert_counted(&site, 40);
    assert_values(&site, large, 7);
    assert_code(0, cox_close(site.crew.c, 5000));
    open_client(&site); /* sets both ps back */
    assert_counted(&site, 20);
    assert_code(0, cox_variable_get(site.crew.c, "large", &large));
    assert_values(&site, large, 7);
    site_end(&site);
}

/* The limit holds for files of this process, which is the client. */
static void limit_files(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
}

TEST(a_client_whose_disk_is_full_saves_nothing_and_trains_on)
{
    struct site site;
    site_start(&site);
    open_client(&site);
    struct cox_variable *large = make_large(&site);
    assign(&site, large, 3);
    limit_files(FILE_MAX);
    assert_code(COX_EIO, cox_checkpoint_save(site.crew.c, NULL, NULL));
    assert_error_names("cannot write");
    assert_error_names("ckpt-1.tmp/ps-");
    limit_files(RLIM_INFINITY);
    assert_int_equal(-1, access(coxi_test_path("checkpoints/ckpt-1.tmp"), F_OK));
    count(&site, 10);
    assert_code(0, cox_checkpoint_save(site.crew.c, NULL, NULL));
    assert_code(0, cox_close(site.crew.c, 5000));
    open_client(&site);
    assert_counted(&site, 10);
    assert_code(0, cox_variable_get(site.crew.c, "large", &large));
    assert_values(&site, large, 3);
    site_end(&site);
}

/* A save that fails because of a fault leaves nothing, and the next one is whole. */
static void save_with(enum fault kind, int code, const char *text)
{
    struct site site;
    site_start(&site);
    open_client(&site);
    struct cox_variable *large = make_large(&site);
    assign(&site, large, 3);
    fault = kind;
    atomic_store(&n_faults, 0);
    assert_code(code, cox_checkpoint_save(site.crew.c, NULL, NULL));
    assert_error_names(text);
    fault = NONE;
    assert_int_equal(-1, access(coxi_test_path("checkpoints/ckpt-1"), F_OK));
    assert_int_equal(-1, access(coxi_test_path("checkpoints/ckpt-1.tmp"), F_OK));
    count(&site, 10);
    assert_code(0, cox_checkpoint_save(site.crew.c, NULL, NULL));
    assert_code(0, cox_close(site.crew.c, 5000));
    open_client(&site);
    assert_counted(&site, 10);
    assert_code(0, cox_variable_get(site.crew.c, "large", &large));
    assert_values(&site, large, 3);
    site_end(&site);
}

TEST(a_shard_that_is_damaged_on_its_way_is_noticed_before_the_checkpoint_counts)
{
    save_with(DAMAGES_A_PIECE, COX_ECHECKSUM, "damaged on its way");
}

TEST(a_piece_that_comes_twice_is_noticed)
{
    save_with(REPEATS_A_PIECE, COX_EPROTO, "has come in part before");
}

TEST(a_ps_that_never_ends_its_turns_does_not_hold_a_client)
{
    save_with(NEVER_ENDS, COX_ECANCELLED, "nobody waits for this shard");
}

TEST(an_unknown_way_of_checkpoints_is_refused)
{
    struct cox_options options = options_of("disk");
    struct cox_cluster *cluster;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_EINVAL, "checkpoint_via is 'disk'");
    cox_cluster_free(cluster);
}

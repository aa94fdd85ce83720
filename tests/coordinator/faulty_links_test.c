/*
 * Exactly once over bad networks: client, worker and ps talk over tcp through relays
 * that cause faults, and every closure counts once. The client dials the worker, or the
 * worker dials the client.
 */
#include <signal.h>
#include <stdio.h>

#include "tests/coordinator/crew.h"
#include "tests/net/relay.h"
#include "tests/program.h"
#include "tests/test.h"

enum { N = 600, BATCH = 20, FAULTS = 6, PEER_TIMEOUT_MS = 2000, JOIN_MS = 40000 };

struct world {
    bool dials; /* the worker dials */
    struct program ps;
    struct program worker;
    struct relay *to_ps;     /* from the client, and from the worker */
    struct relay *to_worker; /* or, if it dials, from it to the client */
    struct crew crew;
};

static void set_daemons_up(void)
{
    assert_int_equal(0, setenv("COX_PS_LOCAL_PATH", "off", 1));
    assert_int_equal(0, setenv("COX_WORKER_LOCAL_PATH", "off", 1));
    assert_int_equal(0, setenv("COX_PS_PEER_TIMEOUT_MS", "2000", 1));
    assert_int_equal(0, setenv("COX_WORKER_PEER_TIMEOUT_MS", "2000", 1));
}

/* Starts the worker that the client dials, and its relay; writes the cluster. */
static void start_worker(struct world *world, const struct relay_plan *plan, char *json,
                         size_t size)
{
    char worker[256];
    if (world->dials) {
        (void)snprintf(json, size, "{\"ps\": [\"%s\"]}", relay_url(world->to_ps));
        return;
    }
    daemon_start(&world->worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker);
    world->to_worker = relay_open(worker, plan);
    (void)snprintf(json, size, "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   relay_url(world->to_ps), relay_url(world->to_worker));
}

/* Starts the worker that dials the client. */
static void let_worker_dial(struct world *world, const struct relay_plan *plan)
{
    world->to_worker = relay_open(cox_listen_address(world->crew.c), plan);
    program_start(&world->worker, (const char *const[]){"coxswain-worker", "--client",
                                                        relay_url(world->to_worker),
                                                        "--name", "dials", NULL});
}

static void world_open(struct world *world, bool dials, struct relay_plan plan)
{
    char ps[256];
    char json[1024];
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    *world = (struct world){.dials = dials};
    options.key_file = rig_key();
    options.peer_timeout_ms = PEER_TIMEOUT_MS;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.listen = dials ? "tcp://127.0.0.1:0" : NULL;
    set_daemons_up();
    daemon_start(&world->ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", ps);
    world->to_ps = relay_open(ps, &plan);
    plan.seed++;
    start_worker(world, &plan, json, sizeof(json));
    assert_code(0, cox_cluster_parse(json, &cluster));
    assert_code(0, cox_open(cluster, &options, &world->crew.c));
    cox_cluster_free(cluster);
    if (dials) {
        let_worker_dial(world, &plan);
    }
    assert_code(0, cox_module_load(world->crew.c, coxi_test_module("counter"),
                                   &world->crew.module));
}

static void world_close(struct world *world)
{
    (void)cox_close(world->crew.c, 8000); /* perhaps through a fault */
    relay_close(world->to_ps);
    relay_close(world->to_worker);
    program_kill(&world->ps, SIGTERM);
    program_kill(&world->worker, SIGTERM);
    (void)program_wait(&world->ps);
    (void)program_wait(&world->worker);
}

static void count(enum relay_fault fault, bool dials)
{
    /* silence is noticed after the time-out only */
    const struct relay_plan plan = {.fault = fault,
                                    .seed = 7 + (uint64_t)fault,
                                    .n_faults = fault == RELAY_HALF_OPEN ? 2 : FAULTS};
    struct world world;
    world_open(&world, dials, plan);
    struct cox_variable *counter = crew_counter(&world.crew, "c0");
    for (int i = 0; i < N / BATCH; i++) {
        crew_schedule(&world.crew, crew_function(&world.crew, "count"), BATCH, 1);
        assert_code(0, cox_join(world.crew.c, JOIN_MS));
    }
    assert_int_equal(N, crew_read(&world.crew, counter));
    assert_true(relay_n_happened(world.to_ps) > 0);
    assert_true(relay_n_happened(world.to_worker) > 0);
    world_close(&world);
}

static void count_through(enum relay_fault fault)
{
    count(fault, false);
}

TEST(closures_count_once_over_links_that_are_cut)
{
    count_through(RELAY_CUT);
}

TEST(closures_count_once_over_links_that_are_cut_within_frames)
{
    count_through(RELAY_TRUNCATE);
}

TEST(closures_count_once_over_links_that_lose_bytes)
{
    count_through(RELAY_DROP);
}

TEST(closures_count_once_over_links_that_repeat_bytes)
{
    count_through(RELAY_DUPLICATE);
}

TEST(closures_count_once_over_links_that_flip_bits)
{
    count_through(RELAY_FLIP);
}

TEST(closures_count_once_over_links_that_are_late)
{
    count_through(RELAY_DELAY);
}

TEST(closures_count_once_over_links_that_fall_silent)
{
    count_through(RELAY_HALF_OPEN);
}

TEST(closures_count_once_over_links_that_pass_single_bytes)
{
    count_through(RELAY_BYTEWISE);
}

/* ---- and if the worker dials */

TEST(a_worker_that_dials_counts_once_over_links_that_are_cut)
{
    count(RELAY_TRUNCATE, true);
}

TEST(a_worker_that_dials_counts_once_over_links_that_repeat_bytes)
{
    count(RELAY_DUPLICATE, true);
}

TEST(a_worker_that_dials_counts_once_over_links_that_fall_silent)
{
    count(RELAY_HALF_OPEN, true);
}

TEST(a_worker_that_dials_counts_once_over_links_that_pass_single_bytes)
{
    count(RELAY_BYTEWISE, true);
}

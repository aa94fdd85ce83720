/* Real daemons and a client that find each other through etcd. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coxswain/coxswain.h"
#include "tests/cluster/gateway.h"
#include "tests/program.h"
#include "tests/test.h"

struct fixture {
    struct gateway *g;
    struct program ps;
    struct program worker;
    char cluster[128];
    struct cox_options options;
};

static void set(const char *name, const char *value)
{
    assert_int_equal(0, setenv(name, value, 1)); // NOLINT(concurrency-mt-unsafe)
}

static void ps_start(struct program *ps)
{
    const char *argv[] = {"coxswain-ps", NULL};
    program_start(ps, argv);
}

static void worker_start(struct program *worker)
{
    const char *argv[] = {"coxswain-worker", "--name", "anna", NULL};
    program_start(worker, argv);
}

static void fixture_open(struct fixture *f)
{
    *f = (struct fixture){.g = gateway_open(), .options = COX_OPTIONS_INIT};
    set("COX_ETCD", gateway_url(f->g));
    set("COX_ETCD_PREFIX", "/job");
    set("COX_ETCD_TTL", "1");
    (void)rig_key();
    set("COX_CLUSTER", "{\"cluster\": {\"etcd\": {\"ps\": 1}}}");
    f->options.checkpoint_dir = coxi_test_path("checkpoints");
    f->options.min_workers = 1;
}

static void fixture_close(struct fixture *f)
{
    program_kill(&f->ps, SIGTERM);
    program_kill(&f->worker, SIGTERM);
    (void)program_wait(&f->ps);
    (void)program_wait(&f->worker);
    gateway_close(f->g);
}

static struct cox_coordinator *client_open(struct fixture *f)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    assert_code(0, cox_cluster_from_env(&cluster));
    assert_code(0, cox_open(cluster, &f->options, &c));
    cox_cluster_free(cluster);
    return c;
}

static struct cox_variable *variable_create(struct cox_coordinator *c)
{
    struct cox_variable *variable;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    const float values[] = {1, 2, 3};
    spec.name = "x";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 3;
    assert_code(0, cox_variable_create(c, &spec, &variable));
    assert_code(0, cox_variable_assign(c, variable, values, sizeof(values)));
    return variable;
}

static void assert_values(struct cox_coordinator *c, struct cox_variable *variable)
{
    float values[3];
    assert_code(0, cox_variable_read(c, variable, values, sizeof(values)));
    for (int i = 0; i < 3; i++) {
        assert_float_equal((float)i + 1, values[i], 0);
    }
}

TEST(discovery_finds_a_ps_that_has_moved_while_etcd_is_away_and_back)
{
    struct fixture f;
    fixture_open(&f);
    worker_start(&f.worker);
    ps_start(&f.ps);
    struct cox_coordinator *c = client_open(&f); /* the worker found it, too */
    struct cox_variable *variable = variable_create(c);
    gateway_down(f.g, true);
    assert_values(c, variable);
    program_kill(&f.ps, SIGKILL);
    (void)program_wait(&f.ps);
    ps_start(&f.ps); /* at another port */
    program_wait_printed(&f.ps, "event=etcd_lost");
    gateway_lose_data(f.g);
    gateway_down(f.g, false);
    assert_values(c, variable);
    assert_code(0, cox_close(c, 8000));
    fixture_close(&f);
}

TEST(discovery_lets_workers_go_over_to_a_client_that_starts_elsewhere)
{
    struct fixture f;
    fixture_open(&f);
    worker_start(&f.worker);
    ps_start(&f.ps);
    struct cox_coordinator *old = client_open(&f);
    (void)variable_create(old);
    assert_code(0, cox_checkpoint_save(old, NULL, NULL));
    struct cox_coordinator *new = client_open(&f); /* at another port */
    assert_code(COX_EFENCED, cox_close(old, 8000));
    assert_code(0, cox_close(new, 8000));
    fixture_close(&f);
}

TEST(discovery_says_which_ps_are_missing)
{
    struct fixture f;
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    fixture_open(&f);
    gateway_put(f.g, "/job/ps/1", "{\"address\":\"127.0.0.1:1\"}");
    gateway_put(f.g, "/job/ps/7", "{\"address\":\"127.0.0.1:1\"}");
    assert_code(0, cox_cluster_parse("{\"etcd\": {\"ps\": 3}}", &cluster));
    f.options.open_timeout_ms = 1000;
    assert_code(COX_ETIMEDOUT, cox_open(cluster, &f.options, &c));
    assert_error_names(
        "1 of 3 ps are registered in etcd beneath /job/ps; missing: 0, 2");
    gateway_down(f.g, true);
    assert_code(COX_ETIMEDOUT, cox_open(cluster, &f.options, &c));
    assert_error_names("the ps are not known: etcd at ");
    cox_cluster_free(cluster);
    gateway_close(f.g);
}

TEST(discovery_refuses_a_second_process_of_an_index)
{
    struct fixture f;
    struct program second;
    fixture_open(&f);
    ps_start(&f.ps);
    program_wait_printed(&f.ps, "event=registered");
    ps_start(&second);
    assert_int_equal(2, program_wait(&second));
    program_assert_printed(&second, "event=index_taken");
    program_kill(&f.ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&f.ps));
    assert_null(gateway_get(f.g, "/job/ps/0"));
    gateway_close(f.g);
}

static void assert_there(struct fixture *f, const char *key)
{
    char *value = gateway_get(f->g, key);
    assert_non_null(value);
    free(value);
}

static void assert_registered(struct fixture *f, const char *index, const char *key)
{
    program_wait_printed(&f->ps, "event=registered");
    program_assert_printed(&f->ps, index);
    assert_there(f, key);
    program_kill(&f->ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&f->ps));
}

/* `coxswain role` starts all processes of a job with one command line. */
TEST(discovery_registers_a_ps_at_the_index_of_its_task)
{
    static const char *const role[] = {"coxswain", "role", "--", "/bin/true", NULL};
    struct fixture f;
    fixture_open(&f);
    set("COX_CLUSTER", "{\"cluster\": {\"etcd\": {\"ps\": 2}}}");
    if (geteuid() == 0) {
        set("COX_PS_USER", "root");
    }
    set("COX_TASK", "ps:1");
    program_start(&f.ps, role);
    assert_registered(&f, "index=1 event=registered", "/job/ps/1");
    set("COX_TASK", "worker:0");
    ps_start(&f.ps);
    assert_int_equal(2, program_wait(&f.ps));
    program_assert_printed(&f.ps, "this is coxswain-ps");
    assert_int_equal(0, unsetenv("COX_TASK")); // NOLINT(concurrency-mt-unsafe)
    ps_start(&f.ps);
    assert_int_equal(2, program_wait(&f.ps));
    program_assert_printed(&f.ps, "COX_TASK=ps:INDEX");
    gateway_close(f.g);
}

/* One description for all: it says where etcd is, too. */
TEST(discovery_uses_the_etcd_that_cox_cluster_names)
{
    char json[256];
    struct fixture f;
    fixture_open(&f);
    assert_int_equal(0, unsetenv("COX_ETCD"));        // NOLINT(concurrency-mt-unsafe)
    assert_int_equal(0, unsetenv("COX_ETCD_PREFIX")); // NOLINT(concurrency-mt-unsafe)
    (void)snprintf(json, sizeof(json),
                   "{\"etcd\": {\"ps\": 1, \"endpoints\": [\"%s\"], "
                   "\"prefix\": \"/said\"}}",
                   gateway_url(f.g));
    set("COX_CLUSTER", json);
    worker_start(&f.worker);
    ps_start(&f.ps);
    struct cox_coordinator *c = client_open(&f);
    assert_values(c, variable_create(c));
    assert_there(&f, "/said/ps/0");
    assert_there(&f, "/said/worker/anna");
    assert_code(0, cox_close(c, 8000));
    fixture_close(&f);
}

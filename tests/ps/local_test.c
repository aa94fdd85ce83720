/* The program coxswain-ps and a client over the local path: answers are whole, and the
 * death of either leaves nothing behind. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rule.h"
#include "common/sync.h"
#include "coxswain/types.h"
#include "net/ps_client.h"
#include "net/ps_round.h"
#include "tests/program.h"
#include "tests/test.h"

enum { WAIT_MS = 8000, KILLED = 256 + SIGKILL, ELEMENTS = 1 << 20 };

static const struct coxi_session session = {1, 1, 1};

/* A ps, and a client of it. */
struct rig {
    struct program program;
    char address[256];
    struct coxi_key key; /* of the ps */
    struct coxi_links *links;
    struct coxi_psc *psc;
};

static void client_open(struct rig *rig)
{
    assert_code(0, coxi_links_new(WAIT_MS, &rig->links));
    assert_code(0, coxi_key_open(NULL, NULL, &rig->key));
    struct coxi_psc_options options = {
        .address = rig->address,
        .self = {.role = COXI_ROLE_CLIENT, .session = session},
        .links = rig->links,
        .connect_ms = WAIT_MS,
        .reconnect_ms = 0,
        .request_ms = WAIT_MS,
        .key = &rig->key,
        .local_path = true,
    };
    assert_code(0, coxi_psc_open(&options, &rig->psc));
    assert_code(0, coxi_psc_wait(rig->psc, WAIT_MS));
}

static void client_close(struct rig *rig)
{
    coxi_psc_close(rig->psc);
    coxi_links_free(rig->links);
}

static int call(struct rig *rig, const struct coxi_message *message,
                struct coxi_psc_request *request, enum coxi_message_kind expect)
{
    return coxi_psc_call(rig->psc, message, request, expect, NULL, NULL);
}

/* Claims the ps and makes variable 0, of ELEMENTS floats. */
static void create(struct rig *rig)
{
    struct coxi_psc_request request = {0};
    struct coxi_shard shard = {.count = ELEMENTS};
    struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {.session = session}};
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.session = session;
    message.create.closure = 1;
    message.create.incarnation = coxi_psc_incarnation(rig->psc);
    message.create.variable = (struct coxi_variable){.name = "v",
                                                     .dtype = COX_F32,
                                                     .rank = 1,
                                                     .shape = {ELEMENTS},
                                                     .shards = &shard,
                                                     .n_shards = 1};
    assert_code(0, call(rig, &claim, &request, COXI_STATUS));
    assert_code(0, call(rig, &message, &request, COXI_STATUS));
}

static int assign(struct rig *rig, uint64_t closure, uint64_t count,
                  const float *values)
{
    static const uint32_t touched[] = {0};
    struct coxi_update update = {0, COXI_OP_ASSIGN, 0, count};
    struct iovec segment = {(void *)(uintptr_t)values, count * sizeof(*values)};
    struct coxi_psc_request request = {.payload = &segment, .n_payload = 1};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){
        .session = session,
        .incarnation = coxi_psc_incarnation(rig->psc),
        .closure = closure,
        .attempt = 1,
        .last = true,
        .touched = touched,
        .n_touched = 1,
        .updates = &update,
        .n_updates = 1,
    };
    return call(rig, &message, &request, COXI_COMMITTED);
}

static int pull(struct rig *rig, uint64_t count, float *ret)
{
    struct coxi_pull_item item = {.variable = 0, .count = count};
    struct coxi_psc_request request = {.into = ret,
                                       .into_len = count * sizeof(*ret),
                                       .answer_len = count * sizeof(*ret)};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){.session = session,
                                      .incarnation = coxi_psc_incarnation(rig->psc),
                                      .items = &item,
                                      .n_items = 1};
    return call(rig, &message, &request, COXI_PULLED);
}

static float values[ELEMENTS];
static float found[ELEMENTS];

/* Asserts that assigned values are pulled again: long ones over one connection, short
 * ones over the other. */
static void assert_serves(struct rig *rig)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        values[i] = (float)(i * 7 % 100003);
    }
    create(rig);
    assert_code(0, assign(rig, 2, ELEMENTS, values));
    assert_code(0, pull(rig, ELEMENTS, found));
    assert_memory_equal(values, found, sizeof(values));
    values[0] = -1;
    assert_code(0, assign(rig, 3, 2, values));
    assert_code(0, pull(rig, 1, found));
    assert_true(found[0] == -1);
}

/* True if the ps has shared memory. */
static bool shares(const struct rig *rig)
{
    char path[64];
    char line[512];
    bool found_it = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)rig->program.pid);
    FILE *maps = fopen(path, "re");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        found_it = found_it || strstr(line, "/memfd:coxswain") != NULL;
    }
    (void)fclose(maps);
    return found_it;
}

static bool does_share(void *rig)
{
    return shares(rig);
}

static bool shares_no_more(void *rig)
{
    return !shares(rig);
}

static void rig_open(struct rig *rig)
{
    daemon_start(&rig->program, "coxswain-ps", 0, "tcp://127.0.0.1:0", rig->address);
}

static void rig_close(struct rig *rig)
{
    program_kill(&rig->program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&rig->program));
}

TEST(ps_program_serves_a_client_on_its_host_over_shared_memory)
{
    struct rig rig;
    rig_open(&rig);
    client_open(&rig);
    assert_true(shares(&rig));
    assert_serves(&rig);
    client_close(&rig);
    coxi_test_until(shares_no_more, &rig, "the memory to go with the client");
    rig_close(&rig);
}

TEST(ps_program_shares_no_memory_where_it_is_told_not_to)
{
    struct rig rig;
    assert_int_equal(0, setenv("COX_PS_LOCAL_PATH", "off", 1));
    rig_open(&rig);
    client_open(&rig);
    assert_serves(&rig);
    assert_false(shares(&rig));
    client_close(&rig);
    rig_close(&rig);
}

TEST(ps_program_that_is_killed_is_lost_at_once)
{
    struct rig rig;
    rig_open(&rig);
    client_open(&rig);
    create(&rig);
    assert_code(0, pull(&rig, ELEMENTS, found));
    program_pause(&rig.program); /* so that the next message is not answered */
    struct coxi_message message = {.kind = COXI_COUNT};
    coxi_psc_tell(rig.psc, &message);
    program_kill(&rig.program, SIGKILL);
    assert_int_equal(KILLED, program_wait(&rig.program));
    assert_code(COX_EPSLOST, pull(&rig, ELEMENTS, found));
    assert_code(COX_EPSLOST, pull(&rig, 1, found));
    client_close(&rig);
}

TEST(ps_program_keeps_nothing_of_a_client_that_is_killed)
{
    struct rig rig;
    rig_open(&rig);
    pid_t child = fork(); /* forked before this process has any connection */
    if (child == 0) {
        client_open(&rig);
        create(&rig);
        while (pull(&rig, ELEMENTS, found) == 0) {
        }
        _exit(1);
    }
    coxi_test_until(does_share, &rig, "the client");
    assert_int_equal(0, kill(child, SIGKILL));
    assert_int_equal(child, waitpid(child, NULL, 0));
    coxi_test_until(shares_no_more, &rig, "the memory to go with the client");
    client_open(&rig);
    struct coxi_psc_request request = {0};
    struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {.session = session}};
    assert_code(0, call(&rig, &claim, &request, COXI_STATUS));
    client_close(&rig);
    rig_close(&rig);
}

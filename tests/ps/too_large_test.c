/* Answers that are too large for a message: the ps refuses the request, so the peer
 * does not wait for ever. */
#include <stdio.h>

#include "common/layout.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

enum {
    PS = 1000, /* that a closure touches */
    /* the list of this many closures, with PS ps each, does not fit in a message */
    CLOSURES = 4300,
    /* this many variables, with COXI_PS_MAX shards each, do not fit either */
    VARIABLES = 720,
};

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};

static uint32_t touched[PS + 1];

/* Commits a closure that has touched PS ps, by turns from the first or the second on:
 * so no two closures in a row are alike. */
static int commit(struct coxi_psc *psc, uint64_t closure)
{
    struct coxi_psc_request request = {0};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){.session = run1,
                                          .incarnation = coxi_psc_incarnation(psc),
                                          .closure = closure,
                                          .attempt = 1,
                                          .last = true,
                                          .touched = touched + closure % 2,
                                          .n_touched = PS};
    return coxi_psc_call(psc, &message, &request, COXI_COMMITTED, NULL, NULL);
}

static int snapshot(struct coxi_psc *psc, uint64_t number)
{
    char name[32];
    struct coxi_message message = {.kind = COXI_SNAPSHOT};
    (void)snprintf(name, sizeof(name), "ckpt-%u.tmp", (unsigned)number);
    message.snapshot =
        (struct coxi_snapshot){.session = run1,
                               .number = number,
                               .path = harbour_shard(coxi_test_dir(), name),
                               .incarnation = coxi_psc_incarnation(psc)};
    return harbour_ask(psc, &message, COXI_SNAPSHOT_DONE);
}

TEST(ps_fails_a_snapshot_with_more_applied_than_a_message_holds)
{
    struct harbour h;
    for (uint32_t i = 0; i <= PS; i++) {
        touched[i] = i;
    }
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    for (uint64_t closure = 1; closure <= CLOSURES; closure++) {
        assert_code(0, commit(client, closure));
    }
    assert_code(COX_ELIMIT, snapshot(client, 1));
    assert_error_names("4300 intervals");
    assert_code(COX_ELIMIT, snapshot(client, 1)); /* and again when it is repeated */
    /* When the watermark has moved on, the answer is shorter. */
    struct coxi_message message = {.kind = COXI_WATERMARK};
    message.watermark =
        (struct coxi_watermark){run1, CLOSURES - 1, coxi_psc_incarnation(client)};
    coxi_psc_tell(client, &message);
    assert_code(0, commit(client, CLOSURES)); /* comes after it on the connection */
    assert_code(0, snapshot(client, 2));
    coxi_psc_close(client);
    harbour_close(&h);
}

static int create(struct coxi_psc *psc, uint32_t id)
{
    struct coxi_shard shards[COXI_PS_MAX];
    char name[32];
    struct coxi_message message = {.kind = COXI_CREATE};
    for (uint32_t p = 0; p < COXI_PS_MAX; p++) {
        shards[p] = (struct coxi_shard){.ps = p, .begin = p, .count = 1};
    }
    (void)snprintf(name, sizeof(name), "v%u", id);
    message.create.session = run1;
    message.create.closure = 1 + id;
    message.create.incarnation = coxi_psc_incarnation(psc);
    message.create.variable = (struct coxi_variable){.id = id,
                                                     .name = name,
                                                     .dtype = COX_F32,
                                                     .rank = 1,
                                                     .shape = {COXI_PS_MAX},
                                                     .shards = shards,
                                                     .n_shards = COXI_PS_MAX};
    return harbour_ask(psc, &message, COXI_STATUS);
}

TEST(ps_tells_a_tool_that_its_variables_are_too_many)
{
    static const struct coxi_session none;
    const struct coxi_message message = {.kind = COXI_DESCRIBE};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *tool = harbour_dial(&h, COXI_ROLE_TOOL, &none);
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    for (uint32_t id = 0; id < VARIABLES; id++) {
        assert_code(0, create(client, id));
    }
    assert_code(COX_ELIMIT, harbour_ask(tool, &message, COXI_LAYOUT));
    assert_error_names("too many variables to describe them all: 720");
    coxi_psc_close(tool);
    coxi_psc_close(client);
    harbour_close(&h);
}

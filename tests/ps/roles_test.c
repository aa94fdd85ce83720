/* What members of a run other than its client try at a ps, and what a client tries in
 * the place of another: all of it is refused, and the client goes on. */
#include <string.h>

#include "common/error.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

static const struct coxi_session run1 = {.run = 1, .generation = 3, .token = 11};
static const struct coxi_key run_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 3}};

/* A ps with a key, which a client has claimed. */
struct scene {
    struct harbour harbour;
    struct coxi_psc *client;
    uint64_t incarnation;
};

static void scene_open(struct scene *scene)
{
    const float values[2] = {7, 8};
    harbour_open_with(&scene->harbour, (struct coxi_ps_options){.key = &run_key});
    scene->client =
        harbour_dial_with(&scene->harbour, &run_key, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(scene->client, &run1));
    scene->incarnation = coxi_psc_incarnation(scene->client);
    assert_code(0, harbour_create(scene->client, &run1, 2));
    assert_code(0,
                harbour_commit(scene->client, &run1, scene->incarnation, 2, values, 2));
}

/* The client still has the ps, with what it has written, and goes on writing. */
static void scene_close(struct scene *scene)
{
    const float ones[2] = {1, 1};
    float found[2];
    assert_code(0,
                harbour_commit(scene->client, &run1, scene->incarnation, 3, ones, 2));
    assert_code(0, harbour_pull(scene->client, &run1, scene->incarnation, found, 2));
    assert_true(found[0] == 8 && found[1] == 9);
    coxi_psc_close(scene->client);
    harbour_close(&scene->harbour);
}

static struct caller *open_as(const struct scene *scene, enum coxi_role proven,
                              const struct coxi_hello *hello)
{
    const struct coxi_guard guard = {
        .key = run_key,
        .self = {.role = proven, .index = hello->index, .run = hello->session.run}};
    return caller_open_as(coxi_ps_url(scene->harbour.ps), &guard, hello);
}

/* A member of this role, with all that it knows of the run, is refused `message`. */
static void assert_refused(const struct scene *scene, enum coxi_role role,
                           struct coxi_message message)
{
    const struct coxi_hello hello = {.role = role, .session = run1};
    struct caller *caller = open_as(scene, role, &hello);
    (void)caller_expect(caller, COXI_HELLO);
    message.request = 9;
    caller_send(caller, &message, NULL, 0);
    const struct coxi_message *answer = caller_expect(caller, COXI_STATUS);
    if (answer->status.code != COX_EREFUSED) {
        fail_msg("role %d, message %d: %d", (int)role, (int)message.kind,
                 (int)answer->status.code);
    }
    caller_close(caller);
}

static const struct coxi_session next_one = {.run = 1, .generation = 4, .token = 12};

TEST(ps_lets_no_worker_claim_it)
{
    struct scene scene;
    scene_open(&scene);
    assert_refused(
        &scene, COXI_ROLE_WORKER,
        (struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = next_one}});
    assert_refused(
        &scene, COXI_ROLE_WORKER,
        (struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = run1}});
    scene_close(&scene);
}

TEST(ps_lets_no_reader_claim_it)
{
    struct scene scene;
    scene_open(&scene);
    assert_refused(
        &scene, COXI_ROLE_TOOL,
        (struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = next_one}});
    assert_refused(
        &scene, COXI_ROLE_TOOL,
        (struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = run1}});
    scene_close(&scene);
}

/* Of the requests of a client a worker may only pull and commit, and a reader read. */
TEST(ps_lets_only_its_client_change_what_there_is)
{
    struct scene scene;
    scene_open(&scene);
    const char *path = coxi_test_path("file");
    const uint64_t incarnation = scene.incarnation;
    const struct coxi_message requests[] = {
        {.kind = COXI_RELEASE, .release = run1},
        {.kind = COXI_WATERMARK, .watermark = {run1, 100, incarnation}},
        {.kind = COXI_VOID, .void_ = {run1, 3, 9, incarnation}},
        {.kind = COXI_SNAPSHOT, .snapshot = {.session = run1, .path = path}},
        {.kind = COXI_RESTORE, .restore = {.session = run1, .path = path}},
        {.kind = COXI_PROBE, .probe = {run1, path, true}},
        {.kind = COXI_LOAD, .load = {.session = run1, .closure = 4}},
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        assert_refused(&scene, COXI_ROLE_WORKER, requests[i]);
        assert_refused(&scene, COXI_ROLE_TOOL, requests[i]);
    }
    scene_close(&scene);
}

/* The proof is of one role, and the greeting names another. */
/* Rates and ends of rounds are commits, too, but no step's. */
TEST(ps_lets_no_worker_set_a_rate_or_end_a_round)
{
    struct scene scene;
    scene_open(&scene);
    static const uint32_t ops[] = {COXI_OP_RATE, COXI_OP_ROUND};
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        const struct coxi_update updates[] = {
            {.op = ops[i], .begin = 8, .count = ops[i] == COXI_OP_ROUND ? 1 : 0}};
        struct coxi_message message = {.kind = COXI_COMMIT};
        message.commit = (struct coxi_commit){.session = run1,
                                              .incarnation = scene.incarnation,
                                              .closure = 9,
                                              .attempt = 1,
                                              .last = true,
                                              .updates = updates,
                                              .n_updates = 1};
        assert_refused(&scene, COXI_ROLE_WORKER, message);
    }
    scene_close(&scene);
}

TEST(ps_lets_nobody_greet_in_a_role_that_it_has_not_proved)
{
    static const enum coxi_role roles[] = {COXI_ROLE_WORKER, COXI_ROLE_TOOL,
                                           COXI_ROLE_PS};
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
        const struct coxi_hello as_client = {.role = COXI_ROLE_CLIENT,
                                             .session = next_one};
        struct caller *caller = open_as(&scene, roles[i], &as_client);
        caller_expect_end(caller);
        caller_close(caller);
    }
    scene_close(&scene);
}

/* A client that has greeted as one generation claims another, which it has not. */
TEST(ps_takes_no_forged_generation)
{
    struct scene scene;
    scene_open(&scene);
    assert_refused(
        &scene, COXI_ROLE_CLIENT,
        (struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = next_one}});
    scene_close(&scene);
}

TEST(ps_lets_in_no_twin_of_its_client)
{
    const struct coxi_hello twin = {.role = COXI_ROLE_CLIENT,
                                    .session = {run1.run, run1.generation, 12}};
    struct scene scene;
    scene_open(&scene);
    struct caller *caller = open_as(&scene, COXI_ROLE_CLIENT, &twin);
    caller_expect_refusal(caller, COX_EFENCED, "generation 3");
    caller_close(caller);
    scene_close(&scene);
}

/*
 * Shards that go to the client and come from it (ps/carry.h): a peer plays the client,
 * turn by turn. The ps may only use files beneath a directory that does not exist, so it
 * opens none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/crc.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

enum { N = 1000 };

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 7};
static const struct coxi_session next = {.run = 1, .generation = 2, .token = 8};
static const struct coxi_session stranger = {.run = 1, .generation = 1, .token = 9};

struct scene {
    struct harbour harbour;
    struct coxi_psc *psc; /* the client's usual connection */
    struct caller *peer;  /* another one of the client, for its turns */
    struct coxi_session session;
    uint64_t incarnation;
    uint64_t request;
};

static void be_client(struct scene *scene, const struct coxi_session *session)
{
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = *session};
    scene->session = *session;
    scene->psc = harbour_dial(&scene->harbour, COXI_ROLE_CLIENT, session);
    assert_code(0, harbour_claim(scene->psc, session));
    assert_code(0, harbour_create(scene->psc, session, N));
    scene->incarnation = coxi_psc_incarnation(scene->psc);
    scene->peer = caller_join(coxi_ps_url(scene->harbour.ps), &hello);
}

static void scene_open(struct scene *scene)
{
    static float values[N];
    *scene = (struct scene){.request = 100};
    harbour_open_rooted(&scene->harbour, harbour_ipc(), "/nowhere");
    be_client(scene, &run1);
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)i;
    }
    assert_code(0, harbour_commit(scene->psc, &run1, scene->incarnation, 2, values, N));
}

static void leave(struct scene *scene)
{
    caller_close(scene->peer);
    coxi_psc_close(scene->psc);
}

static void scene_close(struct scene *scene)
{
    leave(scene);
    harbour_close(&scene->harbour);
}

/* ---- what the client sends */

static void ask_snapshot(struct scene *scene, uint64_t number, uint64_t carry)
{
    char path[64];
    struct coxi_message m = {.request = ++scene->request, .kind = COXI_SNAPSHOT};
    (void)snprintf(path, sizeof(path), "/d/ckpt-%d.tmp/ps-0-of-1.safetensors",
                   (int)number);
    m.snapshot = (struct coxi_snapshot){.session = scene->session,
                                        .number = number,
                                        .path = path,
                                        .incarnation = scene->incarnation,
                                        .carry = carry};
    caller_send(scene->peer, &m, NULL, 0);
}

static void ask_restore(struct scene *scene, const struct coxi_snapshot_done *done,
                        uint64_t carry)
{
    struct coxi_message m = {.request = ++scene->request, .kind = COXI_RESTORE};
    m.restore = (struct coxi_restore){.session = scene->session,
                                      .round = carry,
                                      .path = "/d/ckpt-1/ps-0-of-1.safetensors",
                                      .bytes = done->bytes,
                                      .crc32 = done->crc32,
                                      .incarnation = scene->incarnation,
                                      .carry = carry};
    caller_send(scene->peer, &m, NULL, 0);
}

static struct coxi_exchange turn_of(const struct scene *scene, uint64_t carry,
                                    uint64_t turn)
{
    return (struct coxi_exchange){.session = scene->session,
                                  .incarnation = scene->incarnation,
                                  .carry = carry,
                                  .turn = turn,
                                  .message = ""};
}

static void send_turn(struct scene *scene, struct coxi_exchange turn,
                      const void *payload, size_t len)
{
    struct coxi_message m = {.request = ++scene->request, .kind = COXI_EXCHANGE};
    m.exchange = turn;
    caller_send(scene->peer, &m, payload, len);
}

static struct coxi_exchanged expect_turn(struct scene *scene)
{
    const struct coxi_message *m = caller_pick(scene->peer, COXI_EXCHANGED);
    assert_int_equal(scene->request, m->request);
    return m->exchanged;
}

static void assert_turn_refused(struct scene *scene, struct coxi_exchange turn,
                                int code)
{
    send_turn(scene, turn, NULL, 0);
    assert_int_equal(code, expect_turn(scene).code);
}

static void assert_turn_over(struct scene *scene, struct coxi_exchange turn)
{
    send_turn(scene, turn, NULL, 0);
    struct coxi_exchanged exchanged = expect_turn(scene);
    assert_int_equal(0, exchanged.code);
    assert_true(exchanged.over);
}

/* The bytes of the answer's piece; for free(). */
static void *expect_piece(struct scene *scene, size_t *ret_len)
{
    struct coxi_exchanged exchanged = expect_turn(scene);
    const void *payload = caller_payload(scene->peer, ret_len);
    assert_int_equal(0, exchanged.code);
    assert_false(exchanged.over);
    assert_int_equal(0, exchanged.offset);
    assert_int_equal(exchanged.len, *ret_len);
    void *piece = malloc(*ret_len);
    assert_non_null(piece);
    memcpy(piece, payload, *ret_len);
    return piece;
}

static struct coxi_snapshot_done expect_done(struct scene *scene, int code)
{
    const struct coxi_message *m = caller_pick(scene->peer, COXI_SNAPSHOT_DONE);
    assert_int_equal(code, m->snapshot_done.code);
    return m->snapshot_done;
}

/* Takes a snapshot by a carry whose turns come first; for free(). */
static void *take(struct scene *scene, uint64_t number,
                  struct coxi_snapshot_done *ret_done)
{
    size_t len;
    struct coxi_exchange turn = turn_of(scene, number, 1);
    send_turn(scene, turn, NULL, 0);
    uint64_t first = scene->request;
    ask_snapshot(scene, number, number);
    scene->request = first;
    void *shard = expect_piece(scene, &len);
    scene->request = first + 1;
    turn.turn = 2;
    assert_turn_over(scene, turn);
    *ret_done = expect_done(scene, 0);
    assert_int_equal(len, ret_done->bytes);
    assert_int_equal(ret_done->crc32, coxi_crc32(0, shard, len));
    return shard;
}

/* ---- what the ps does */

TEST(a_shard_that_the_client_fetches_is_the_file_that_the_ps_would_write)
{
    struct scene scene;
    struct coxi_snapshot_done done;
    struct coxi_st_file *file;
    const char *path = coxi_test_path("shard");
    scene_open(&scene);
    void *shard = take(&scene, 1, &done);
    coxi_test_write(path, shard, done.bytes);
    assert_code(0, coxi_st_open(path, done.bytes, &done.crc32, &file));
    assert_string_equal("0", coxi_st_metadata(file, "ps"));
    coxi_st_close(file);
    free(shard);
    scene_close(&scene);
}

TEST(a_turn_that_comes_again_gets_the_same_answer)
{
    struct scene scene;
    size_t len;
    size_t again_len;
    scene_open(&scene);
    ask_snapshot(&scene, 1, 1);
    send_turn(&scene, turn_of(&scene, 1, 1), NULL, 0);
    void *shard = expect_piece(&scene, &len);
    send_turn(&scene, turn_of(&scene, 1, 1), NULL, 0);
    void *again = expect_piece(&scene, &again_len);
    assert_int_equal(len, again_len);
    assert_memory_equal(shard, again, len);
    assert_turn_over(&scene, turn_of(&scene, 1, 2));
    (void)expect_done(&scene, 0);
    assert_turn_over(&scene, turn_of(&scene, 1, 2));
    free(shard);
    free(again);
    scene_close(&scene);
}

TEST(a_client_restores_a_ps_with_the_bytes_that_the_ps_asks_for)
{
    struct scene scene;
    struct coxi_snapshot_done done;
    static float values[N];
    scene_open(&scene);
    void *shard = take(&scene, 1, &done);
    leave(&scene);
    be_client(&scene, &next);
    ask_restore(&scene, &done, 1);
    struct coxi_exchange turn = turn_of(&scene, 1, 1);
    turn.restores = true;
    send_turn(&scene, turn, NULL, 0);
    struct coxi_exchanged wanted = expect_turn(&scene);
    assert_int_equal(0, wanted.offset);
    assert_int_equal(done.bytes, wanted.len);
    turn.turn = 2;
    send_turn(&scene, turn, shard, done.bytes);
    assert_true(expect_turn(&scene).over);
    assert_int_equal(0, caller_pick(scene.peer, COXI_STATUS)->status.code);
    assert_code(0, harbour_pull(scene.psc, &next, scene.incarnation, values, N));
    assert_true(values[1] != 0);
    free(shard);
    scene_close(&scene);
}

TEST(a_restore_fails_with_the_error_of_its_client)
{
    struct scene scene;
    const struct coxi_snapshot_done done = {.bytes = (uint64_t)1 << 60, .crc32 = 1};
    scene_open(&scene);
    ask_restore(&scene, &done, 1);
    struct coxi_exchange turn = turn_of(&scene, 1, 1);
    turn.restores = true;
    send_turn(&scene, turn, NULL, 0);
    assert_int_equal(COXI_CARRY_BLOCK, expect_turn(&scene).len);
    turn.turn = 2;
    turn.code = COX_EIO;
    turn.message = "this disk is gone";
    send_turn(&scene, turn, NULL, 0);
    assert_true(expect_turn(&scene).over);
    const struct coxi_message *m = caller_pick(scene.peer, COXI_STATUS);
    assert_int_equal(COX_EIO, m->status.code);
    assert_non_null(strstr(m->status.message, "this disk is gone"));
    scene_close(&scene);
}

TEST(a_piece_of_another_length_ends_a_restore)
{
    struct scene scene;
    const struct coxi_snapshot_done done = {.bytes = 4096, .crc32 = 1};
    scene_open(&scene);
    ask_restore(&scene, &done, 1);
    struct coxi_exchange turn = turn_of(&scene, 1, 1);
    turn.restores = true;
    send_turn(&scene, turn, NULL, 0);
    assert_int_equal(4096, expect_turn(&scene).len);
    turn.turn = 2;
    send_turn(&scene, turn, "short", 5);
    assert_true(expect_turn(&scene).over);
    assert_int_equal(COX_EPROTO, caller_pick(scene.peer, COXI_STATUS)->status.code);
    scene_close(&scene);
}

TEST(a_ps_refuses_turns_that_cannot_be)
{
    static uint8_t huge[COXI_CARRY_BLOCK + 1];
    struct scene scene;
    scene_open(&scene);
    struct coxi_exchange turn = turn_of(&scene, 1, 1);
    turn.lane = COXI_CARRY_LANES;
    assert_turn_refused(&scene, turn, COX_EPROTO);
    assert_turn_refused(&scene, turn_of(&scene, 1, 2), COX_EPROTO);
    assert_turn_refused(&scene, turn_of(&scene, 1, UINT64_MAX), COX_EPROTO);
    turn = turn_of(&scene, 1, 1);
    turn.session = stranger;
    send_turn(&scene, turn, NULL, 0);
    assert_int_equal(COX_EFENCED, caller_pick(scene.peer, COXI_STATUS)->status.code);
    turn = turn_of(&scene, 1, 1);
    turn.incarnation++;
    send_turn(&scene, turn, NULL, 0);
    assert_int_equal(COX_EPSLOST, caller_pick(scene.peer, COXI_STATUS)->status.code);
    turn = turn_of(&scene, 1, 1);
    turn.restores = true;
    send_turn(&scene, turn, huge, sizeof(huge));
    assert_true(caller_pick(scene.peer, COXI_STATUS)->status.code != 0);
    scene_close(&scene);
}

TEST(a_snapshot_whose_client_gives_up_fails_and_the_next_one_is_taken)
{
    struct scene scene;
    size_t len;
    struct coxi_snapshot_done done;
    scene_open(&scene);
    ask_snapshot(&scene, 1, 1);
    send_turn(&scene, turn_of(&scene, 1, 1), NULL, 0);
    free(expect_piece(&scene, &len));
    struct coxi_exchange turn = turn_of(&scene, 1, 2);
    turn.code = COX_EIO;
    turn.message = "the disk is full";
    send_turn(&scene, turn, NULL, 0);
    assert_true(expect_turn(&scene).over);
    done = expect_done(&scene, COX_EIO);
    assert_non_null(strstr(done.message, "the disk is full"));
    free(take(&scene, 2, &done));
    scene_close(&scene);
}

TEST(a_client_that_has_nowhere_to_put_a_shard_says_so_before_it_is_taken)
{
    struct scene scene;
    scene_open(&scene);
    struct coxi_exchange turn = turn_of(&scene, 1, 1);
    turn.code = COX_ENOMEM;
    assert_turn_over(&scene, turn);
    ask_snapshot(&scene, 1, 1);
    (void)expect_done(&scene, COX_EAGAIN);
    scene_close(&scene);
}

TEST(a_snapshot_whose_turns_do_not_come_gives_way_to_the_next_carry)
{
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = run1};
    struct scene scene;
    size_t len;
    struct coxi_snapshot_done done;
    scene_open(&scene);
    ask_snapshot(&scene, 1, 1);
    send_turn(&scene, turn_of(&scene, 1, 1), NULL, 0);
    free(expect_piece(&scene, &len));
    caller_close(scene.peer); /* with a piece under way */
    scene.peer = caller_join(coxi_ps_url(scene.harbour.ps), &hello);
    free(take(&scene, 2, &done));
    scene_close(&scene);
}

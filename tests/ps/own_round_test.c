/* Rounds that a ps ends itself, and pulls that wait for the end of a round. */
#include <pthread.h>
#include <string.h>

#include "ps/rounds.h"
#include "tests/ps/round_stock.h"

/* A pull of `v` that must see a round, on a thread of its own. */
struct seeing {
    struct stock *s;
    uint32_t v;
    uint64_t after;
    int code;
    float value;
    unsigned refused; /* how often the round had not ended in time */
};

static int see_once(struct seeing *seeing)
{
    struct coxi_pull_item item = {seeing->v, 0, 1, 0};
    struct coxi_pull pull = {.session = seeing->s->session,
                             .incarnation = coxi_store_incarnation(seeing->s->store),
                             .items = &item,
                             .n_items = 1,
                             .after = seeing->after};
    struct coxi_buffer answer = {0};
    struct coxi_buffer versions = {0};
    int r = coxi_store_pull(seeing->s->store, &pull, NULL, 0, &answer, &versions);
    if (r == 0) {
        memcpy(&seeing->value, answer.data, sizeof(seeing->value));
    }
    coxi_buffer_fini(&answer);
    coxi_buffer_fini(&versions);
    return r;
}

static void *see(void *arg)
{
    struct seeing *seeing = arg;
    while ((seeing->code = see_once(seeing)) == COX_ECANCELLED) {
        seeing->refused++;
    }
    return NULL;
}

TEST(pull_that_must_see_a_round_is_answered_when_that_has_ended)
{
    struct stock s;
    pthread_t thread;
    stock_open(&s);
    struct seeing seeing = {
        .s = &s, .v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1), .after = ROUND};
    assert_code(COX_ECANCELLED, see_once(&seeing));
    assert_non_null(strstr(coxi_test_error(), "round 105"));
    assert_int_equal(0, pthread_create(&thread, NULL, see, &seeing));
    for (uint64_t i = 0; i < MEMBERS; i++) {
        assert_code(0, push(&s, FIRST + i, 1, seeing.v, &(float){-1}, 1, NULL));
    }
    end_all(&s, 1);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, seeing.code);
    assert_true(seeing.value == MEMBERS);
    /* so is one that comes later, and one that must see what lies below the watermark */
    assert_code(0, see_once(&seeing));
    assert_code(0, coxi_store_advance(
                       s.store, &(struct coxi_watermark){.session = s.session,
                                                         .watermark = ROUND + 5}));
    seeing.after = ROUND + 5;
    assert_code(0, see_once(&seeing));
    stock_close(&s);
}

TEST(pull_that_must_see_a_round_ends_when_another_client_claims_the_ps)
{
    struct stock s;
    pthread_t thread;
    stock_open(&s);
    struct seeing seeing = {
        .s = &s, .v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1), .after = ROUND};
    assert_int_equal(0, pthread_create(&thread, NULL, see, &seeing));
    struct coxi_session next = s.session;
    next.generation++;
    assert_code(0, coxi_store_claim(s.store, &next, NULL));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(COX_EFENCED, seeing.code);
    stock_close(&s);
}

/* ---- rounds that the ps ends itself */

/* Commits the gradient `-value` of a closure that says what the ps must know. */
static void push_share(struct stock *s, uint64_t closure, uint32_t attempt, uint32_t v,
                       float value, struct coxi_share share)
{
    struct stock_commit commit;
    const float gradient = -value;
    begin(s, closure, attempt, &commit);
    commit.head.touched = ps_0;
    commit.head.n_touched = 1;
    commit.head.share = share;
    stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &gradient, sizeof(gradient));
    assert_code(0, stock_commit(s, &commit, NULL));
}

static float value_of(struct stock *s, uint32_t v)
{
    float value;
    stock_pull(s, v, 1, &value, sizeof(value));
    return value;
}

TEST(round_of_which_all_is_here_ends_without_the_client)
{
    static const uint8_t order[MEMBERS] = {2, 0, 3, 1};
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    for (size_t i = 0; i < MEMBERS; i++) {
        struct coxi_share share = {
            .n = MEMBERS, .mean = true, .weight = (float)(1 + order[i])};
        assert_false(coxi_store_has_ended(s.store, ROUND));
        push_share(&s, FIRST + order[i], 1, v, (float)order[i], share);
    }
    assert_true(coxi_store_has_ended(s.store, ROUND));
    assert_true(value_of(&s, v) == 2); /* (0 + 2 + 6 + 12) / 10 */
    /* a late attempt, and the client's own end, change nothing */
    push_share(&s, FIRST, 2, v, 7, (struct coxi_share){0});
    struct coxi_round_part parts[MEMBERS] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    bool duplicate = false;
    assert_code(0, end_with(&s, parts, MEMBERS, &duplicate));
    assert_true(duplicate);
    assert_true(value_of(&s, v) == 2);
    stock_close(&s);
}

#include "ps/rounds.h"
__typeof__(coxi_rounds_let_go) __real_coxi_rounds_let_go, __wrap_coxi_rounds_let_go;

static struct stock
    *racing; /* the client ends its round before it is let go; or NULL */

static void *client_ends(void *arg)
{
    end_all(arg, 1);
    return NULL;
}
void __wrap_coxi_rounds_let_go(struct coxi_rounds *rounds, uint64_t number)
{
    struct stock *s = racing;
    racing = NULL;
    if (s != NULL) {
        pthread_t thread;
        assert_int_equal(0, pthread_create(&thread, NULL, client_ends, s));
        assert_int_equal(0, pthread_join(thread, NULL));
    }
    __real_coxi_rounds_let_go(rounds, number);
}

/* The last commit has come twice, because its connection broke: the second copy is
 * answered, and the client ends the round, while the first copy is still handled. */
TEST(round_may_be_ended_by_the_client_while_the_ps_looks_whether_it_is_whole)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    for (uint64_t i = 0; i < MEMBERS; i++) {
        racing = i == MEMBERS - 1 ? &s : NULL;
        push_share(&s, FIRST + i, 1, v, 1, (struct coxi_share){MEMBERS, false, 1, 0});
    }
    assert_true(value_of(&s, v) == 4);
    stock_close(&s);
}

TEST(round_is_left_to_the_client_unless_all_of_it_is_here)
{
    enum { CASES = 7 };
    for (int how = 0; how < CASES; how++) {
        struct stock s;
        stock_open(&s);
        uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
        for (uint64_t i = 0; i < MEMBERS; i++) {
            struct coxi_share share = {.n = MEMBERS, .weight = 1};
            const uint32_t both[] = {0, 1};
            struct stock_commit commit;
            begin(&s, FIRST + i, 1, &commit);
            commit.head.touched = ps_0;
            commit.head.n_touched = 1;
            bool is_odd = i == 1;
            share.n = is_odd && how == 0 ? 0 : share.n;
            share.n = is_odd && how == 1 ? MEMBERS - 1 : share.n;
            share.after = i == MEMBERS - 1 && how == 2 ? FIRST - 50 : 0;
            share.mean = is_odd && how == 6;
            commit.head.share = share;
            commit.head.attempt = is_odd && how == 3 ? 2 : 1;
            commit.head.last = !(is_odd && how == 4);
            if (is_odd && how == 5) {
                commit.head.touched = both;
                commit.head.n_touched = 2;
            }
            stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &(float){-1}, sizeof(float));
            assert_code(0, stock_commit(&s, &commit, NULL));
        }
        assert_false(coxi_store_has_ended(s.store, ROUND));
        assert_true(value_of(&s, v) == 0);
        stock_close(&s);
    }
}

TEST(round_whose_end_is_voided_is_not_ended_by_the_ps)
{
    struct stock s;
    struct coxi_buffer segments = {0};
    struct coxi_buffer touched = {0};
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    const struct coxi_void voided = {
        .session = s.session, .closure = ROUND, .attempt = 1};
    assert_code(0, coxi_store_void(s.store, &voided, &segments, &touched));
    assert_int_equal(0, segments.len);
    for (uint64_t i = 0; i < MEMBERS; i++) {
        push_share(&s, FIRST + i, 1, v, 1, (struct coxi_share){MEMBERS, false, 1, 0});
    }
    assert_false(coxi_store_has_ended(s.store, ROUND));
    assert_true(value_of(&s, v) == 0);
    coxi_buffer_fini(&segments);
    coxi_buffer_fini(&touched);
    stock_close(&s);
}

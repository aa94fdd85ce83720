/* Peers that own the store, and files, that contain impossible numbers. */
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/error.h"
#include "common/layout.h"
#include "ps/applied.h"
#include "ps/payloads.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};

/* ---- shapes */

/* The elements and the accumulator of their only row have 2^64 bytes together, which
 * wrap to 0; and so do the elements alone when they are rounded up. */
TEST(store_makes_no_variable_whose_bytes_wrap_to_few)
{
    struct stock s;
    struct coxi_shard shard = {.count = 1};
    struct coxi_variable huge = {
        .name = "huge",
        .dtype = COX_F32,
        .rank = 2,
        .shape = {1, UINT64_MAX / 4},
        .shards = &shard,
        .n_shards = 1,
        .optimizer = {.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD, .learning_rate = 1}};
    stock_open(&s);
    struct coxi_create create = {s.session, 1, huge, STOCK_INCARNATION};
    assert_code(COX_ELIMIT, coxi_store_create(s.store, &create));
    assert_error_names("'huge'");
    create.variable.dtype = COX_U8;
    create.variable.optimizer = (struct coxi_optimizer){0};
    create.variable.shape[1] = UINT64_MAX;
    assert_code(COX_ELIMIT, coxi_store_create(s.store, &create));
    stock_close(&s);
}

TEST(store_takes_no_table_with_more_shards_than_there_can_be_ps)
{
    static struct coxi_shard shards[COXI_PS_MAX + 1];
    struct stock s;
    stock_open(&s);
    struct coxi_create create = {s.session,
                                 1,
                                 {.name = "t",
                                  .kind = COXI_KIND_TABLE,
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {4},
                                  .shards = shards,
                                  .n_shards = COXI_PS_MAX + 1},
                                 STOCK_INCARNATION};
    assert_code(COX_EINVAL, coxi_store_create(s.store, &create));
    stock_close(&s);
}

/* The shape of an empty tensor may claim any number of rows: 2^61 rows of 8 bytes wrap
 * to 0 bytes, which is what the file has. */
TEST(restore_reads_no_rows_that_the_file_only_claims_to_have)
{
    const struct coxi_st_metadata metadata[] = {{"run", "0000000000000001"},
                                                {"ps", "0"}};
    const uint64_t rows = UINT64_C(1) << 61;
    const struct coxi_st_tensor tensors[] = {
        {.name = "t/keys", .dtype = "U64", .rank = 2, .shape = {rows, 0}},
        {.name = "t/values", .dtype = "F32", .rank = 2, .shape = {rows, 0}}};
    struct stock s;
    struct coxi_st_writer *writer;
    uint64_t bytes = 0;
    struct coxi_restore request = {.session = {.run = 1, .generation = 1, .token = 11},
                                   .round = 1,
                                   .path = coxi_test_path("claims.st")};
    stock_open(&s);
    (void)stock_table(&s, "t", 8);
    assert_code(0, coxi_st_create(request.path, tensors, 2, metadata, 2, &writer));
    assert_code(0, coxi_st_finish(writer, &bytes, &request.crc32));
    request.bytes = bytes;
    assert_code(COX_EFORMAT, coxi_store_restore(s.store, &request));
    assert_error_names("'t/keys'");
    stock_close(&s);
}

/* ---- ids */

TEST(applied_takes_no_ids_above_which_there_is_no_window)
{
    const uint64_t ids[] = {COXI_CLOSURE_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
    struct coxi_applied *applied;
    struct coxi_buffer none = {0};
    assert_code(0, coxi_applied_new(&applied));
    assert_code(0, coxi_applied_advance(applied, COXI_CLOSURE_MAX - 1));
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        const struct coxi_commit commit = {.closure = ids[i], .attempt = 1};
        assert_code(COX_ELIMIT, coxi_applied_begin(applied, &commit));
        assert_code(COX_ELIMIT, coxi_applied_void(applied, ids[i], 1, &none, &none));
        assert_code(COX_ELIMIT, coxi_applied_advance(applied, ids[i]));
    }
    const struct coxi_commit last = {.closure = COXI_CLOSURE_MAX, .attempt = 1};
    assert_code(0, coxi_applied_begin(applied, &last));
    coxi_applied_end(applied, COXI_CLOSURE_MAX, 0);
    assert_code(0, coxi_applied_advance(applied, COXI_CLOSURE_MAX));
    assert_code(0, coxi_applied_advance(applied, COXI_CLOSURE_MAX));
    coxi_applied_free(applied);
}

static int load(uint64_t watermark, const struct coxi_interval *interval)
{
    static uint32_t touched[COXI_PS_MAX + 1];
    struct coxi_interval copy = *interval;
    const struct coxi_applied_list list = {.watermark = watermark,
                                           .intervals = &copy,
                                           .n_intervals = 1,
                                           .touched = touched,
                                           .n_touched = COXI_PS_MAX + 1};
    struct coxi_applied *applied;
    assert_code(0, coxi_applied_new(&applied));
    int r = coxi_applied_load(applied, &list);
    coxi_applied_free(applied);
    return r;
}

TEST(applied_loads_no_such_ids_and_no_more_ps_than_there_can_be)
{
    const struct coxi_interval good = {.first = 3, .last = 3, .touched_n = COXI_PS_MAX};
    const struct coxi_interval end = {.first = UINT64_MAX, .last = UINT64_MAX};
    const struct coxi_interval above = {.first = COXI_CLOSURE_MAX,
                                        .last = COXI_CLOSURE_MAX + 1};
    const struct coxi_interval crowd = {
        .first = 3, .last = 3, .touched_n = COXI_PS_MAX + 1};
    assert_code(0, load(2, &good));
    assert_code(COX_EFORMAT, load(UINT64_MAX - 1, &end));
    assert_code(COX_EFORMAT, load(COXI_CLOSURE_MAX - 1, &above));
    assert_code(COX_EFORMAT, load(2, &crowd));
}

TEST(store_takes_no_commit_that_names_more_ps_than_there_can_be)
{
    static uint32_t touched[COXI_PS_MAX + 1];
    struct stock s;
    struct stock_commit commit;
    stock_open(&s);
    stock_begin(&s, 10, &commit);
    commit.head.touched = touched;
    commit.head.n_touched = COXI_PS_MAX + 1;
    assert_code(COX_ELIMIT, stock_commit(&s, &commit, NULL));
    stock_begin(&s, 10, &commit);
    commit.head.touched = touched;
    commit.head.n_touched = COXI_PS_MAX;
    assert_code(0, stock_commit(&s, &commit, NULL));
    stock_close(&s);
}

/* With such ids the applied set would hold its lock for ever. Each request is refused,
 * and the ps still answers. */
TEST(ps_refuses_ids_near_the_end_of_all_numbers_and_goes_on)
{
    const struct coxi_hello as_client = {.role = COXI_ROLE_CLIENT, .session = run1};
    struct harbour h;
    const float ones[] = {1, 1};
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    uint64_t incarnation = coxi_psc_incarnation(client);
    assert_code(0, harbour_create(client, &run1, 2));
    struct caller *caller = caller_join(coxi_ps_url(h.ps), &as_client);
    struct coxi_message message = {.kind = COXI_WATERMARK,
                                   .watermark = {run1, UINT64_MAX - 1, incarnation}};
    caller_send(caller, &message, NULL, 0);
    caller_expect_end(caller);
    caller_close(caller);
    assert_code(COX_ELIMIT,
                harbour_commit(client, &run1, incarnation, UINT64_MAX, ones, 2));
    message = (struct coxi_message){.request = 3, .kind = COXI_VOID};
    message.void_ = (struct coxi_void){run1, UINT64_MAX, 1, incarnation};
    caller = caller_join(coxi_ps_url(h.ps), &as_client);
    caller_send(caller, &message, NULL, 0);
    assert_int_equal(COX_ELIMIT, caller_expect(caller, COXI_VOIDED)->voided.code);
    caller_close(caller);
    assert_code(0, harbour_commit(client, &run1, incarnation, 7, ones, 2));
    coxi_psc_close(client);
    harbour_close(&h);
}

/* ---- pulls that must see rounds */

/* Readers and workers ask for rounds that never end. Each of these pulls waits for a tenth
 * of a second, and each connection has 1000 in line: others go on, and the ps can be
 * stopped. */
TEST(pulls_that_wait_in_vain_keep_no_other_waiting)
{
    enum { CALLERS = 8, PULLS = 1000 };
    struct harbour h;
    struct caller *callers[CALLERS];
    const float ones[] = {1, 1};
    float found[2];
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    uint64_t incarnation = coxi_psc_incarnation(client);
    assert_code(0, harbour_create(client, &run1, 2));
    for (size_t i = 0; i < CALLERS; i++) {
        const struct coxi_hello hello = {
            .role = i % 2 == 0 ? COXI_ROLE_WORKER : COXI_ROLE_TOOL, .session = run1};
        struct coxi_message message = {.kind = COXI_PULL};
        message.pull = (struct coxi_pull){
            .session = run1, .incarnation = incarnation, .after = 1000};
        callers[i] = caller_join(coxi_ps_url(h.ps), &hello);
        for (message.request = 1; message.request <= PULLS; message.request++) {
            caller_send(callers[i], &message, NULL, 0);
        }
    }
    const struct coxi_message *first = caller_expect(callers[0], COXI_PULLED);
    assert_int_equal(COX_ECANCELLED, first->status.code);
    assert_code(0, harbour_commit(client, &run1, incarnation, 7, ones, 2));
    assert_code(0, harbour_pull(client, &run1, incarnation, found, 2));
    assert_true(found[0] == 1);
    caller_close(callers[1]);
    coxi_psc_close(client);
    harbour_close(&h);
    for (size_t i = 0; i < CALLERS; i++) {
        caller_close(i != 1 ? callers[i] : NULL);
    }
}

/* ---- payloads */

/* Only builds with a sanitizer have this function. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL
               ? __sanitizer_get_current_allocated_bytes()
               : 0;
}

/* Sends a long commit of this session. The payload is lent, so this side allocates no
 * memory for it. */
static int commit_long(struct coxi_psc *psc, const struct coxi_session *session,
                       uint64_t incarnation)
{
    static uint8_t bytes[32 << 20];
    const struct iovec payload = {bytes, sizeof(bytes) - 24};
    struct coxi_psc_request request = {.payload = &payload, .n_payload = 1};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){
        .session = *session, .incarnation = incarnation, .closure = 5, .attempt = 1};
    return coxi_psc_call(psc, &message, &request, COXI_COMMITTED, NULL, NULL);
}

static void be_a_stranger(const char *listen)
{
    const struct coxi_session twin = {.run = 1, .generation = 1, .token = 12};
    const struct coxi_message count = {.kind = COXI_COUNT};
    struct harbour h;
    harbour_open(&h, listen);
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    uint64_t incarnation = coxi_psc_incarnation(client);
    struct coxi_psc *stranger = harbour_dial(&h, COXI_ROLE_WORKER, &twin);
    size_t before = allocated();
    assert_code(COX_EFENCED, commit_long(stranger, &twin, incarnation));
    assert_code(COX_EPSLOST, commit_long(stranger, &run1, incarnation + 1));
    assert_code(COX_EFENCED, commit_long(stranger, &twin, incarnation));
    assert_true(allocated() < before + ((size_t)8 << 20));
    assert_code(0, harbour_ask(stranger, &count, COXI_COUNTS));
    coxi_psc_close(stranger);
    coxi_psc_close(client);
    harbour_close(&h);
}

TEST(ps_takes_no_memory_for_long_payloads_of_strangers)
{
    be_a_stranger(harbour_ipc());
    be_a_stranger("tcp://127.0.0.1:0");
}

TEST(ps_closes_where_a_message_without_payload_has_a_long_one)
{
    static uint8_t payload[1 << 20];
    const struct coxi_hello as_client = {.role = COXI_ROLE_CLIENT, .session = run1};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *caller = caller_join(coxi_ps_url(h.ps), &as_client);
    struct coxi_message message = {.kind = COXI_COUNT};
    caller_send(caller, &message, payload, sizeof(payload));
    caller_expect_end(caller);
    caller_close(caller);
    harbour_close(&h);
}

TEST(payloads_of_all_connections_have_a_budget)
{
    const size_t MIB = (size_t)1 << 20;
    struct stock s;
    struct coxi_payloads payloads;
    struct coxi_peer peers[2] = {{0}};
    stock_open(&s);
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit.session = s.session;
    message.commit.incarnation = STOCK_INCARNATION;
    coxi_payloads_init(&payloads, s.store, 1);
    assert_code(0, coxi_payloads_take(&payloads, &peers[0], &message, 200 * MIB));
    assert_code(COX_ENOMEM,
                coxi_payloads_take(&payloads, &peers[1], &message, 100 * MIB));
    assert_code(0, coxi_payloads_take(&payloads, &peers[1], &message, 56 * MIB));
    /* memory that a connection has serves its next payload */
    assert_code(0, coxi_payloads_take(&payloads, &peers[0], &message, 200 * MIB));
    coxi_payloads_give(&payloads, &peers[0]);
    assert_code(0, coxi_payloads_take(&payloads, &peers[1], &message, 256 * MIB));
    coxi_payloads_give(&payloads, &peers[1]);
    coxi_payloads_init(&payloads, s.store, 512 * MIB);
    assert_code(0, coxi_payloads_take(&payloads, &peers[0], &message, 512 * MIB));
    coxi_payloads_give(&payloads, &peers[0]);
    stock_close(&s);
}

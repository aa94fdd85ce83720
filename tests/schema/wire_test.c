/* The codec: its encoding, that messages are read as they were written, and that no
 * bytes can crash it. */
#include "schema/wire.h"

#include <stdio.h>
#include <string.h>

#include "common/rand.h"
#include "tests/schema/samples.h"
#include "tests/test.h"

/* Bytes in memory of exactly their length, so that ASan sees a read past the end. */
struct bytes {
    uint8_t *data;
    size_t len;
};

static struct bytes bytes_copy(const void *data, size_t len)
{
    struct bytes bytes = {malloc(len > 0 ? len : 1), len};
    assert_non_null(bytes.data);
    memcpy(bytes.data, data, len);
    return bytes;
}

static struct bytes encode(const struct coxi_message *message)
{
    const void *data;
    size_t len;
    assert_true(coxi_message_encode(message, &data, &len));
    return bytes_copy(data, len);
}

static bool decode(struct bytes bytes, struct coxi_message *ret)
{
    return coxi_message_decode(bytes.data, bytes.len, ret);
}

static void set_u32(struct bytes bytes, size_t at, uint32_t value)
{
    assert_true(at + sizeof(value) <= bytes.len);
    memcpy(bytes.data + at, &value, sizeof(value));
}

/* Finds `part`, which occurs once in the bytes. */
static size_t find(struct bytes bytes, const void *part, size_t len)
{
    const uint8_t *at = memmem(bytes.data, bytes.len, part, len);
    assert_non_null(at);
    return (size_t)(at - bytes.data);
}

/* ---- what it writes */

#include "tests/schema/wire_golden.inc"

static void print_golden(const char *name, struct bytes bytes)
{
    (void)fprintf(stderr, "static const uint8_t %s[] = {", name);
    for (size_t i = 0; i < bytes.len; i++) {
        (void)fprintf(stderr, "%s0x%02x,", i % 12 == 0 ? "\n    " : " ", bytes.data[i]);
    }
    (void)fprintf(stderr, "\n};\n");
}

static void assert_golden(enum coxi_message_kind kind, const uint8_t *expected,
                          size_t len, const char *name)
{
    struct coxi_message message = sample(kind);
    struct coxi_message decoded;
    struct bytes bytes = encode(&message);
    if (bytes.len != len || memcmp(bytes.data, expected, len) != 0) {
        print_golden(name, bytes);
        fail_msg("%s is encoded otherwise than in wire_golden.inc", name);
    }
    free(bytes.data);
    bytes = bytes_copy(expected, len);
    assert_true(decode(bytes, &decoded));
    assert_same_message(&message, &decoded);
    free(bytes.data);
}

#define ASSERT_GOLDEN(kind, array) assert_golden(kind, array, sizeof(array), #array)

TEST(wire_writes_the_committed_bytes_and_reads_them)
{
    ASSERT_GOLDEN(COXI_HELLO, golden_hello);
    ASSERT_GOLDEN(COXI_SNAPSHOT_DONE, golden_snapshot_done);
    ASSERT_GOLDEN(COXI_COMMIT, golden_commit);
    ASSERT_GOLDEN(COXI_LAYOUT, golden_layout);
    ASSERT_GOLDEN(COXI_DISPATCH, golden_dispatch);
    ASSERT_GOLDEN(COXI_DONE, golden_done);
}

/* How many kinds the schema has: those between the braces of `union Body`. */
static int kinds_of_schema(void)
{
    static const char body[] = "\nunion Body {";
    size_t len;
    char *text = coxi_test_read(WIRE_FBS, &len);
    const char *at = memmem(text, len, body, sizeof(body) - 1);
    assert_non_null(at);
    int n = 1;
    for (; *at != '}'; at++) {
        assert_true(at + 1 < text + len);
        n += *at == ',';
    }
    free(text);
    return n;
}

TEST(there_is_a_sample_of_every_kind_of_the_schema)
{
    assert_int_equal(kinds_of_schema(), SAMPLE_KINDS);
}

TEST(wire_reads_back_every_kind)
{
    for (int kind = 1; kind <= SAMPLE_KINDS; kind++) {
        struct coxi_message message = sample((enum coxi_message_kind)kind);
        struct coxi_message decoded;
        struct bytes bytes = encode(&message);
        assert_int_equal(0, bytes.len % 4);
        assert_true(decode(bytes, &decoded));
        assert_same_message(&message, &decoded);
        free(bytes.data);
    }
}

TEST(wire_reads_back_every_kind_with_nothing_set)
{
    for (int kind = 1; kind <= SAMPLE_KINDS; kind++) {
        struct coxi_message message = {.kind = (enum coxi_message_kind)kind};
        if (kind == COXI_HELLO) {
            message.hello.version = COXI_WIRE_VERSION;
            message.hello.role = COXI_ROLE_CLIENT;
        } else if (kind == COXI_CREATE) {
            message.create.variable.rank = 1;
        }
        struct coxi_message decoded, copy;
        uint64_t sum;
        struct bytes bytes = encode(&message);
        assert_true(decode(bytes, &decoded));
        assert_true(walk_message(&decoded, &copy, &sum)); /* no string is NULL */
        struct bytes again = encode(&copy);
        assert_int_equal(bytes.len, again.len);
        assert_memory_equal(bytes.data, again.data, bytes.len);
        free(bytes.data);
        free(again.data);
    }
}

TEST(wire_leaves_out_the_text_of_an_answer_that_went_well)
{
    struct coxi_message message = sample(COXI_COMMITTED);
    struct coxi_message decoded;
    message.status.code = 0;
    struct bytes bytes = encode(&message);
    assert_true(decode(bytes, &decoded));
    assert_string_equal("", decoded.status.message);
    assert_true(decoded.status.duplicate);
    free(bytes.data);
}

TEST(wire_reads_only_the_version_of_a_hello_of_another_version)
{
    struct coxi_message message = sample(COXI_HELLO);
    struct coxi_message decoded;
    message.hello.version = COXI_WIRE_VERSION + 41;
    /* another version may give it any meaning */
    message.hello.role = (enum coxi_role)0;
    struct bytes bytes = encode(&message);
    assert_true(decode(bytes, &decoded));
    assert_int_equal(COXI_WIRE_VERSION + 41, decoded.hello.version);
    assert_int_equal(0, decoded.hello.incarnation);
    free(bytes.data);
}

/* ---- limits */

static void fill_name(char *name, size_t len)
{
    memset(name, 'x', len);
    name[len] = '\0';
}

static bool can_encode(const struct coxi_message *message)
{
    const void *data = NULL;
    size_t len = 0;
    return coxi_message_encode(message, &data, &len);
}

TEST(wire_does_not_write_names_and_ranks_past_the_limits)
{
    char name[COXI_WIRE_NAME_MAX + 2];
    struct coxi_message create = sample(COXI_CREATE);
    struct coxi_message layout = sample(COXI_LAYOUT);
    layout.layout.variables = &create.create.variable;
    layout.layout.n_variables = 1;
    create.create.variable.name = name;
    fill_name(name, COXI_WIRE_NAME_MAX);
    assert_true(can_encode(&create));
    assert_true(can_encode(&layout));
    fill_name(name, COXI_WIRE_NAME_MAX + 1);
    assert_false(can_encode(&create));
    assert_false(can_encode(&layout));
    create.create.variable.name = "short";
    create.create.variable.rank = COXI_WIRE_RANK_MAX;
    assert_true(can_encode(&create));
    assert_true(can_encode(&layout));
    create.create.variable.rank = COXI_WIRE_RANK_MAX + 1;
    assert_false(can_encode(&create));
    assert_false(can_encode(&layout));
    create.create.variable.rank = 0;
    assert_false(can_encode(&create));
    assert_false(can_encode(&layout));
}

TEST(wire_does_not_write_more_than_a_peer_reads)
{
    size_t n = COXI_WIRE_META_MAX / sizeof(struct coxi_update);
    struct coxi_message commit = sample(COXI_COMMIT);
    struct coxi_update *updates = calloc(n, sizeof(*updates));
    assert_non_null(updates);
    commit.commit.updates = updates;
    commit.commit.n_updates = n;
    assert_false(can_encode(&commit));
    commit.commit.n_updates = n - 1000;
    struct bytes bytes = encode(&commit);
    struct coxi_message decoded;
    assert_true(bytes.len <= COXI_WIRE_META_MAX);
    assert_true(decode(bytes, &decoded));
    assert_int_equal(n - 1000, decoded.commit.n_updates);
    free(bytes.data);
    free(updates);
}

/* What a program sees of a peer's code is 0 or an error. */
TEST(wire_reads_no_code_above_0)
{
    static const enum coxi_message_kind kinds[] = {
        COXI_STATUS, COXI_PULLED, COXI_COMMITTED,  COXI_MODULE_LOADED,
        COXI_REACH,  COXI_VOIDED, COXI_RESOURCE,   COXI_RESOURCE_MADE,
        COXI_RESULT, COXI_DONE,   COXI_FILE_BYTES, COXI_SNAPSHOT_DONE};
    struct coxi_done_head heads[2] = {{.code = -1}, {.code = 1}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct coxi_message message = {.kind = kinds[i]};
        struct coxi_message decoded;
        if (message.kind == COXI_DONE) {
            message.done = (struct coxi_done){.closures = heads, .n_closures = 2};
        } else if (message.kind == COXI_VOIDED) {
            message.voided.code = 1;
        } else if (message.kind == COXI_RESOURCE) {
            message.resource.code = 1;
        } else if (message.kind == COXI_RESULT) {
            message.result.code = 1;
        } else if (message.kind == COXI_FILE_BYTES) {
            message.file_bytes.code = 1;
        } else if (message.kind == COXI_SNAPSHOT_DONE) {
            message.snapshot_done.code = 1;
        } else {
            message.status.code = 1;
        }
        struct bytes bytes = encode(&message);
        assert_false(decode(bytes, &decoded));
        free(bytes.data);
    }
}

TEST(wire_writes_a_restore_of_every_snapshot_that_it_writes)
{
    enum { PATH_LEN = 4095, STEP = 16 };
    static char path[PATH_LEN + 1];
    size_t n = COXI_WIRE_META_MAX / sizeof(uint32_t);
    uint32_t *touched = calloc(n, sizeof(*touched));
    const void *bytes;
    size_t len;
    struct coxi_message message = {.kind = COXI_SNAPSHOT_DONE};
    assert_non_null(touched);
    memset(path, 'p', PATH_LEN);
    message.snapshot_done.touched = touched;
    message.snapshot_done.n_touched = n;
    assert_false(coxi_message_encode(&message, &bytes, &len));
    while (n > 0 && !coxi_message_encode(&message, &bytes, &len)) {
        n -= STEP;
        message.snapshot_done.n_touched = n;
    }
    assert_true(n > 0);
    message = (struct coxi_message){.kind = COXI_RESTORE};
    message.restore.path = path;
    message.restore.touched = touched;
    message.restore.n_touched = n;
    assert_true(coxi_message_encode(&message, &bytes, &len));
    free(touched);
}

TEST(wire_does_not_write_strings_and_shards_that_a_peer_would_not_read)
{
    struct coxi_message create = sample(COXI_CREATE);
    struct coxi_message status = sample(COXI_STATUS);
    size_t n = COXI_WIRE_META_MAX / sizeof(struct coxi_shard);
    struct coxi_shard *shards = calloc(n, sizeof(*shards));
    char *text = malloc(COXI_WIRE_META_MAX);
    assert_non_null(shards);
    assert_non_null(text);
    create.create.variable.shards = shards;
    create.create.variable.n_shards = n;
    assert_false(can_encode(&create));
    memset(text, 'x', COXI_WIRE_META_MAX - 1);
    text[COXI_WIRE_META_MAX - 1] = '\0';
    status.status.message = text;
    assert_false(can_encode(&status));
    text[COXI_WIRE_META_MAX - 1000] = '\0';
    struct bytes bytes = encode(&status);
    struct coxi_message decoded;
    assert_true(decode(bytes, &decoded));
    assert_string_equal(text, decoded.status.message);
    free(bytes.data);
    free(text);
    free(shards);
}

/* A string may end where the message does: there it can be made longer. */
TEST(wire_refuses_names_past_the_limit)
{
    char name[COXI_WIRE_NAME_MAX + 1];
    struct coxi_message create = sample(COXI_CREATE);
    struct coxi_message decoded;
    create.create.variable.name = name;
    fill_name(name, COXI_WIRE_NAME_MAX);
    struct bytes bytes = encode(&create);
    size_t at = find(bytes, name, COXI_WIRE_NAME_MAX);
    bytes.data = realloc(bytes.data, bytes.len + 8);
    assert_non_null(bytes.data);
    memset(bytes.data + bytes.len, 0, 8);
    bytes.len += 8;
    set_u32(bytes, 0, (uint32_t)bytes.len - 4);
    assert_true(decode(bytes, &decoded));
    set_u32(bytes, at - 4, COXI_WIRE_NAME_MAX + 1);
    bytes.data[at + COXI_WIRE_NAME_MAX] = 'x';
    assert_int_equal('\0', bytes.data[at + COXI_WIRE_NAME_MAX + 1]);
    assert_false(decode(bytes, &decoded));
    free(bytes.data);
}

TEST(wire_refuses_ranks_past_the_limit)
{
    struct coxi_message create = sample(COXI_CREATE);
    struct coxi_message decoded;
    struct coxi_variable *v = &create.create.variable;
    v->rank = COXI_WIRE_RANK_MAX;
    memset(v->shape, 0x5a, sizeof(v->shape));
    struct bytes bytes = encode(&create);
    size_t at = find(bytes, v->shape, sizeof(v->shape));
    assert_true(decode(bytes, &decoded));
    assert_int_equal(COXI_WIRE_RANK_MAX, decoded.create.variable.rank);
    set_u32(bytes, at - 4, COXI_WIRE_RANK_MAX + 1);
    assert_false(decode(bytes, &decoded));
    set_u32(bytes, at - 4, 0);
    assert_false(decode(bytes, &decoded));
    free(bytes.data);
}

/* Sets the first byte of `part`, found in the message, to `value`: then it is refused.
 */
static void assert_refused_with(const struct coxi_message *message, const uint8_t *part,
                                size_t len, uint8_t value)
{
    struct coxi_message decoded, before;
    struct bytes bytes = encode(message);
    assert_true(decode(bytes, &decoded));
    memset(&decoded, 0x77, sizeof(decoded));
    memcpy(&before, &decoded, sizeof(before));
    bytes.data[find(bytes, part, len)] = value;
    assert_false(decode(bytes, &decoded));
    assert_memory_equal(&before, &decoded, sizeof(before));
    free(bytes.data);
}

TEST(wire_refuses_enum_values_out_of_range_and_leaves_the_output)
{
    /* Fields that follow each other in the bytes: role, channel, version; kind, id; op,
     * begin. */
    static const uint8_t hello[] = {
        COXI_ROLE_WORKER, COXI_CHANNEL_DATA, COXI_WIRE_VERSION, 0, 0, 0};
    static const uint8_t op[] = {COXI_OP_ASSIGN, 0, 0, 0, 0xdd, 0xdd};
    static const uint8_t kind[] = {COXI_KIND_TABLE, 8, 0, 0, 0};
    static const struct coxi_update update = {1, COXI_OP_ASSIGN, 0xdddd, 1};
    struct coxi_message message = sample(COXI_HELLO);
    assert_refused_with(&message, hello, sizeof(hello), 0);
    assert_refused_with(&message, hello, sizeof(hello), COXI_ROLE_TOOL + 1);
    assert_refused_with(&message, hello + 1, sizeof(hello) - 1, COXI_CHANNEL_DATA + 1);
    message = sample(COXI_COMMIT);
    message.commit.updates = &update;
    message.commit.n_updates = 1;
    message.commit.n_pulled = 0;
    assert_refused_with(&message, op, sizeof(op), COXI_OP_COMPENSATED + 1);
    message = sample(COXI_CREATE);
    message.create.variable.kind = COXI_KIND_TABLE;
    assert_refused_with(&message, kind, sizeof(kind), COXI_KIND_TABLE + 1);
}

TEST(wire_refuses_versions_of_more_updates_than_there_are)
{
    struct coxi_message message = sample(COXI_COMMIT);
    struct coxi_message decoded;
    for (size_t n = 0; n < 3; n++) {
        message.commit.n_updates = n;
        struct bytes bytes = encode(&message);
        assert_int_equal(n >= message.commit.n_pulled, decode(bytes, &decoded));
        free(bytes.data);
    }
}

/* ---- bytes that are no message */

/* Decodes random bytes. If that succeeds, asserts that the message can be read, encoded
 * and decoded again. */
static bool try_bytes(struct bytes bytes)
{
    static uint64_t sums;
    struct coxi_message decoded, copy, again;
    uint64_t sum;
    if (!decode(bytes, &decoded)) {
        return false;
    }
    bool usable = walk_message(&decoded, &copy, &sum);
    sums += sum;
    if (usable) {
        struct bytes first = encode(&copy);
        assert_true(decode(first, &again));
        assert_true(walk_message(&again, &copy, &sum));
        struct bytes second = encode(&copy);
        assert_int_equal(first.len, second.len);
        assert_memory_equal(first.data, second.data, first.len);
        free(first.data);
        free(second.data);
    }
    return true;
}

TEST(wire_refuses_every_truncation)
{
    for (int kind = 1; kind <= SAMPLE_KINDS; kind++) {
        struct coxi_message message = sample((enum coxi_message_kind)kind);
        struct bytes whole = encode(&message);
        for (size_t len = 0; len < whole.len; len++) {
            struct bytes part = bytes_copy(whole.data, len);
            assert_false(try_bytes(part));
            if (len >= 4) { /* also if the message says that it has this length */
                set_u32(part, 0, (uint32_t)len - 4);
                (void)try_bytes(part);
            }
            free(part.data);
        }
        free(whole.data);
    }
}

TEST(wire_refuses_bytes_that_go_on_or_are_not_aligned)
{
    struct coxi_message message = sample(COXI_HELLO);
    struct coxi_message decoded;
    struct bytes bytes = encode(&message);
    uint8_t *moved = calloc(1, bytes.len + 8);
    assert_non_null(moved);
    memcpy(moved, bytes.data, bytes.len);
    assert_true(coxi_message_decode(moved, bytes.len, &decoded));
    assert_false(coxi_message_decode(moved, bytes.len + 8, &decoded));
    memmove(moved + 4, moved, bytes.len);
    assert_false(coxi_message_decode(moved + 4, bytes.len, &decoded));
    assert_false(coxi_message_decode(NULL, bytes.len, &decoded));
    free(moved);
    free(bytes.data);
}

TEST(wire_survives_every_mutated_byte)
{
    size_t n_read = 0, n_refused = 0;
    for (int kind = 1; kind <= SAMPLE_KINDS; kind++) {
        struct coxi_message message = sample((enum coxi_message_kind)kind);
        struct bytes bytes = encode(&message);
        for (size_t i = 0; i < bytes.len; i++) {
            uint8_t right = bytes.data[i];
            for (int value = 0; value < 256; value += 3) {
                bytes.data[i] = (uint8_t)value;
                bool read = try_bytes(bytes);
                n_read += read;
                n_refused += !read;
            }
            bytes.data[i] = right;
        }
        assert_true(try_bytes(bytes));
        free(bytes.data);
    }
    assert_true(n_read > 1000 && n_refused > 1000); /* both cases occurred often */
}

/* Decodes random bytes, and messages in which some bytes are replaced by random
 * ones. */
static void survive_garbage(uint64_t seed, int rounds)
{
    uint64_t state = seed;
    for (int round = 0; round < rounds; round++) {
        struct coxi_message message =
            sample((enum coxi_message_kind)(1 + coxi_rand(&state) % SAMPLE_KINDS));
        struct bytes bytes = encode(&message);
        bool all = coxi_rand(&state) % 4 == 0;
        size_t n = all ? bytes.len : 1 + coxi_rand(&state) % 8;
        for (size_t i = 0; i < n; i++) {
            size_t at = all ? i : coxi_rand(&state) % bytes.len;
            bytes.data[at] = (uint8_t)(coxi_rand(&state) >> 32);
        }
        if (all) { /* get past the length, and past the identifier half of the time */
            set_u32(bytes, 0, (uint32_t)bytes.len - 4);
            if (coxi_rand(&state) % 2 == 0) {
                memcpy(bytes.data + 8, "COXM", 4);
            }
        }
        (void)try_bytes(bytes);
        free(bytes.data);
    }
}

TEST(wire_survives_garbage)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        survive_garbage(seed, 2000);
    }
}

/* Records that only the two ends of a connection can make; and everything that is no such
 * record. */
#include "net/seal.h"

#include <string.h>

#include "common/buffer.h"
#include "tests/test.h"

static const uint8_t key[COXI_KEY_BYTES] = {1, 2, 3};
static const uint8_t other_key[COXI_KEY_BYTES] = {1, 2, 4};

/* One direction: the end that seals, and the end that opens. */
struct way {
    struct coxi_sealer *sealer;
    struct coxi_sealer *opener;
};

struct record {
    uint8_t bytes[1024];
    size_t len;
};

static struct way way_open(const struct coxi_sealing *how)
{
    struct way way;
    assert_code(0, coxi_sealer_new(key, how, &way.sealer));
    assert_code(0, coxi_sealer_new(key, how, &way.opener));
    return way;
}

static void way_close(struct way *way)
{
    coxi_sealer_free(way->sealer);
    coxi_sealer_free(way->opener);
}

static struct record seal(struct way *way, const char *text)
{
    struct record record;
    const struct iovec body = {(void *)(uintptr_t)text, strlen(text)};
    assert_code(0, coxi_sealer_seal(way->sealer, &body, 1, record.bytes));
    record.len = body.iov_len + COXI_SEAL_MORE;
    return record;
}

static int open_with(struct coxi_sealer *opener, const struct record *record,
                     char text[1024])
{
    const struct iovec body = {text, 1023};
    memset(text, 0, 1024);
    return coxi_sealer_open(opener, record->bytes, &body, 1);
}

static void assert_opens(struct way *way, const struct record *record, const char *text)
{
    char got[1024];
    assert_code(0, open_with(way->opener, record, got));
    assert_string_equal(text, got);
}

static void assert_refused(struct way *way, const struct record *record)
{
    char got[1024];
    assert_code(COX_EDENIED, open_with(way->opener, record, got));
    assert_error_names("changed bytes on their way");
}

/* Runs `check` for every seal and cipher. */
static void for_each_way(void (*check)(const struct coxi_sealing *how))
{
    for (int i = 0; i < 4; i++) {
        const struct coxi_sealing how = {
            .seal = i % 2 == 0 ? COXI_SEAL_FULL : COXI_SEAL_MAC,
            .cipher =
                i / 2 == 0 ? COXI_CIPHER_AES_128_GCM : COXI_CIPHER_CHACHA20_POLY1305,
            .rekey_records = 3,
        };
        check(&how);
    }
}

static void check_opens(const struct coxi_sealing *how)
{
    struct way way = way_open(how);
    for (int i = 0; i < 10; i++) {
        const struct record record = seal(&way, "some bytes");
        assert_opens(&way, &record, "some bytes");
    }
    way_close(&way);
}

/* Also across changes of the key. */
TEST(a_sealed_record_opens)
{
    for_each_way(check_opens);
}

/* Bodies of every length around the cipher's blocks, from several pieces into several. */
static void check_pieces(const struct coxi_sealing *how)
{
    static uint8_t from[COXI_SEAL_BODY_MAX];
    static uint8_t to[COXI_SEAL_BODY_MAX];
    static uint8_t record[COXI_SEAL_BODY_MAX + COXI_SEAL_MORE];
    static const size_t lens[] = {1, 15, 16, 17, 100, 4095, COXI_SEAL_BODY_MAX};
    struct way way = way_open(how);
    for (size_t i = 0; i < sizeof(from); i++) {
        from[i] = (uint8_t)(i * 7 + i / 256);
    }
    for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
        size_t len = lens[i];
        size_t body_len = 0;
        const struct iovec out[] = {
            {from, len / 3}, {from + len / 3, 0}, {from + len / 3, len - len / 3}};
        const struct iovec in[] = {
            {to, len / 2}, {to + len / 2, len - len / 2}, {NULL, 0}};
        memset(to, 0, sizeof(to));
        assert_code(0, coxi_sealer_seal(way.sealer, out, 3, record));
        assert_code(0, coxi_seal_body_len(record, &body_len));
        assert_int_equal(len, body_len);
        assert_code(0, coxi_sealer_open(way.opener, record, in, 3));
        assert_memory_equal(from, to, len);
    }
    way_close(&way);
}

TEST(a_sealed_record_has_pieces_of_any_length)
{
    for_each_way(check_pieces);
}

static bool shows(const struct record *record, const char *text)
{
    return memmem(record->bytes, record->len, text, strlen(text)) != NULL;
}

static void check_secrecy(const struct coxi_sealing *how)
{
    struct way way = way_open(how);
    const struct record first = seal(&way, "a secret of sixteen bytes and more");
    const struct record second = seal(&way, "a secret of sixteen bytes and more");
    const size_t at = COXI_SEAL_HEAD;
    assert_int_equal(how->seal == COXI_SEAL_MAC, shows(&first, "secret"));
    assert_int_equal(how->seal == COXI_SEAL_MAC,
                     memcmp(first.bytes + at, second.bytes + at, 34) == 0);
    /* the tags differ in any case */
    assert_memory_not_equal(first.bytes + at + 34, second.bytes + at + 34,
                            COXI_SEAL_TAG);
    way_close(&way);
}

TEST(equal_bodies_are_encrypted_differently)
{
    for_each_way(check_secrecy);
}

/* ---- attacks */

/* Each bit of the length, the body and the tag. */
static void check_flips(const struct coxi_sealing *how)
{
    for (size_t bit = 0; bit < (10 + COXI_SEAL_MORE) * 8; bit++) {
        struct way way = way_open(how);
        struct record record = seal(&way, "some bytes");
        memset(record.bytes + record.len, 0, sizeof(record.bytes) - record.len);
        record.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        size_t len;
        /* A longer record would not have come as a whole. */
        if (coxi_seal_body_len(record.bytes, &len) != 0 || len < 1000) {
            assert_refused(&way, &record);
        }
        way_close(&way);
    }
}

TEST(a_record_with_a_flipped_bit_is_refused)
{
    for_each_way(check_flips);
}

static void check_replay(const struct coxi_sealing *how)
{
    struct way way = way_open(how);
    const struct record first = seal(&way, "first");
    assert_opens(&way, &first, "first");
    assert_refused(&way, &first);
    way_close(&way);
}

TEST(a_replayed_record_is_refused)
{
    for_each_way(check_replay);
}

static void check_drop(const struct coxi_sealing *how)
{
    for (int n_dropped = 1; n_dropped < 8; n_dropped++) {
        struct way way = way_open(how);
        for (int i = 0; i < n_dropped; i++) {
            (void)seal(&way, "dropped");
        }
        const struct record next = seal(&way, "next");
        assert_refused(&way, &next);
        way_close(&way);
    }
}

/* And so is a swapped one: it comes before its predecessor. */
TEST(a_record_after_a_dropped_one_is_refused)
{
    for_each_way(check_drop);
}

static void check_other_key(const struct coxi_sealing *how)
{
    struct way way = way_open(how);
    struct way other = {0};
    assert_code(0, coxi_sealer_new(other_key, how, &other.sealer));
    const struct record record = seal(&other, "some bytes");
    assert_refused(&way, &record);
    way_close(&other);
    way_close(&way);
}

/* That of another connection, or of the other direction. */
TEST(a_record_of_another_key_is_refused)
{
    for_each_way(check_other_key);
}

static void check_other_seal(const struct coxi_sealing *how)
{
    struct way way = way_open(how);
    struct coxi_sealing others = *how;
    others.seal = how->seal == COXI_SEAL_FULL ? COXI_SEAL_MAC : COXI_SEAL_FULL;
    struct way other = way_open(&others);
    const struct record record = seal(&other, "some bytes");
    assert_refused(&way, &record);
    way_close(&other);
    way_close(&way);
}

TEST(a_record_of_another_seal_is_refused)
{
    for_each_way(check_other_seal);
}

TEST(a_forged_length_is_refused_before_it_is_used)
{
    static const uint32_t lens[] = {0, COXI_SEAL_BODY_MAX + 1, 0x7fffffff, 0x80000000,
                                    UINT32_MAX};
    for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
        uint8_t head[COXI_SEAL_HEAD];
        size_t len = 77;
        memcpy(head, &lens[i], sizeof(head));
        assert_code(COX_EDENIED, coxi_seal_body_len(head, &len));
        assert_int_equal(77, len);
    }
}

/* An opener that changes its key later than the sealer opens nothing after the change. */
static void check_rekey(const struct coxi_sealing *how)
{
    struct coxi_sealing later = *how;
    later.rekey_records++;
    struct way way = way_open(how);
    coxi_sealer_free(way.opener);
    assert_code(0, coxi_sealer_new(key, &later, &way.opener));
    for (int i = 0; i < 3; i++) {
        const struct record record = seal(&way, "the first key");
        assert_opens(&way, &record, "the first key");
    }
    const struct record record = seal(&way, "the second key");
    assert_refused(&way, &record);
    way_close(&way);
}

TEST(the_key_is_another_after_so_many_records)
{
    for_each_way(check_rekey);
}

static void check_numbers(const struct coxi_sealing *how)
{
    struct coxi_sealing last = *how;
    last.first = UINT64_MAX - 2;
    struct way way = way_open(&last);
    struct record record;
    char got[1024];
    for (int i = 0; i < 2; i++) {
        record = seal(&way, "one of the last");
        assert_opens(&way, &record, "one of the last");
    }
    const struct iovec body = {got, 8};
    for (int i = 0; i < 3; i++) {
        assert_code(COX_ELIMIT, coxi_sealer_seal(way.sealer, &body, 1, record.bytes));
    }
    record = (struct record){.bytes = {8}, .len = 8 + COXI_SEAL_MORE};
    assert_code(COX_ELIMIT, open_with(way.opener, &record, got));
    way_close(&way);
}

/* A nonce that came twice would give the key away. */
TEST(no_number_is_used_twice)
{
    for_each_way(check_numbers);
}

/* tf.Example: a message of TensorFlow's, and messages made by hand. */
#include "common/rand.h"
#include "coxswain/dataset.h"
#include "data/format_tfrecord.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { MUTATIONS = 10000 };

/* ads: 3, -1, 300; age: -7; click: 1.0; none: no list; other: "zzz"; raw: "\0\xff";
 * word: "ab", "c"; x: 0.5, 2.0. Serialized by protobuf 7 of TensorFlow 2.21. */
static const char golden[] =
    "0a95010a180a0361647312111a0f0a0d03ffffffffffffffffff01ac020a150a03616765120e1a0c"
    "0a0af9ffffffffffffffff010a110a05636c69636b120812060a040000803f0a080a046e6f6e6512"
    "000a100a056f7468657212070a050a037a7a7a0a0d0a0372617712060a040a0200ff0a110a04776f"
    "726412090a070a0261620a01630a110a0178120c120a0a080000003f00000040";

static uint8_t nibble(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static size_t from_hex(const char *hex, uint8_t *to)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        to[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    }
    return n;
}

/* A TFRecord file of one message. */
static struct coxi_buffer file_of(const char *hex)
{
    uint8_t bytes[512];
    struct coxi_buffer file = {0};
    assert_true(strlen(hex) / 2 <= sizeof(bytes));
    assert_code(0, coxi_tfrecord_append(&file, bytes, from_hex(hex, bytes)));
    return file;
}

static struct coxi_task task_of(const struct cox_column *columns, uint32_t n)
{
    struct coxi_task task = records_task("file", COX_TFRECORD);
    task.decoding.content = COX_EXAMPLE;
    task.decoding.columns = columns;
    task.decoding.n_columns = n;
    assert_code(0, coxi_decoding_check(&task.decoding));
    return task;
}

static struct records read_columns(const char *hex, const struct cox_column *columns,
                                   uint32_t n)
{
    struct records records = {0};
    struct coxi_buffer file = file_of(hex);
    struct coxi_task task = task_of(columns, n);
    records_read_memory(&task, file.data, file.len, &records);
    coxi_buffer_fini(&file);
    return records;
}

static const struct cox_column all[] = {
    {.name = "word", .kind = COX_COLUMN_KEY},
    {.name = "ads", .kind = COX_COLUMN_KEY, .buckets = 1000},
    {.name = "x", .kind = COX_COLUMN_DENSE, .width = 2, .log = 1},
    {.name = "click", .kind = COX_COLUMN_LABEL},
    {.name = "ads", .kind = COX_COLUMN_KEY, .integers = 1},
    {.name = "age", .kind = COX_COLUMN_WEIGHT},
    {.name = "age", .kind = COX_COLUMN_DENSE, .log = 1},
    {.name = "raw", .kind = COX_COLUMN_BYTES},
};
enum { ALL = sizeof(all) / sizeof(*all) };

TEST(features_become_columns)
{
    static const char *const expected[] = {
        "1 *-7 [0.405465096] [1.09861231] [0] 0:12138170336140424028 "
        "0:10106114510314666011 1:368 1:416 1:860"
        " 2:3 2:18446744073709551615 2:300 |\\00\\ff"};
    struct records records = read_columns(golden, all, ALL);
    records_assert(&records, expected, 1);
    records_free(&records);
}

TEST(missing_features_become_what_their_columns_say)
{
    static const struct cox_column columns[] = {
        {.name = "no", .kind = COX_COLUMN_KEY},
        {.name = "none",
         .kind = COX_COLUMN_DENSE,
         .width = 2,
         .missing = 0.5F,
         .log = 1},
        {.name = "No", .kind = COX_COLUMN_LABEL, .missing = -1},
        {.name = "nO", .kind = COX_COLUMN_WEIGHT, .missing = 1},
        {.name = "NO", .kind = COX_COLUMN_BYTES},
        {.name = "age", .kind = COX_COLUMN_KEY, .integers = 1},
    };
    static const char *const expected[] = {
        "-1 *1 [0.5] [0.5] 1:18446744073709551609 |"};
    struct records records = read_columns(golden, columns, 6);
    records_assert(&records, expected, 1);
    records_free(&records);
}

/* Numbers one by one, and both ways in one list; unknown fields of every kind. */
TEST(numbers_need_not_be_packed)
{
    static const struct cox_column columns[] = {
        {.name = "i", .kind = COX_COLUMN_KEY, .integers = 1},
        {.name = "f", .kind = COX_COLUMN_DENSE, .width = 3},
    };
    static const char *const expected[] = {" [1] [2] [0.5] 0:1 0:2 0:3 0:4"};
    struct records records = read_columns(
        "50015978787878787878780a350a110a0169120c1a0a08010a020203100508040a200a"
        "0166121b12190d0000803f0a04000000401901020304050607080d0000003f65616263"
        "646a027a7a",
        columns, 2);
    records_assert(&records, expected, 1);
    records_free(&records);
}

TEST(malformed_messages_are_bad_records)
{
    static const struct cox_column columns[] = {
        {.name = "i", .kind = COX_COLUMN_KEY, .integers = 1},
        {.name = "f", .kind = COX_COLUMN_DENSE, .width = 3},
        {.name = "b", .kind = COX_COLUMN_BYTES},
    };
    static const struct {
        const char *hex;
        const char *reason;
    } bad[] = {
        {"0a", "no tf.Example"},
        {"0a05", "no tf.Example"},
        {"0aff", "no tf.Example"},
        {"0b", "no tf.Example"},
        {"0f", "no tf.Example"},
        {"08ffffffffffffffffffff01", "no tf.Example"},
        {"0a020a05", "no tf.Example"},
        {"0a070a050a01691205", "no tf.Example"},
        {"0a090a070a016912001200", "no tf.Example"},
        {"0a090a070a016912021a05", "feature 'i': malformed"},
        {"0a0d0a0b0a016912061a0208011a00", "feature 'i': malformed"},
        {"0a0a0a080a016912031a0108", "feature 'i': malformed"},
        {"0a0c0a0a0a016912051a030a0180", "feature 'i': malformed"},
        {"0a0b0a090a016912040a020a02", "feature 'i': malformed"},
        {"0a0e0a0c0a0169120712050d00000000", "feature 'i': floats"},
        {"0a0e0a0c0a0166120712050a03000000", "feature 'f': malformed"},
        {"0a0c0a0a0a016612050a030a0131", "feature 'f': bytes"},
        {"0a0f0a0d0a016612081a060a0401020304", "feature 'f': more numbers"},
        {"0a0d0a0b0a016612061a040a020102", "feature 'f': fewer numbers"},
        {"0a090a070a016212021a00", "feature 'b': numbers"},
        {"0a0d0a0b0a016212060a040a000a00", "feature 'b': more than one"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct records records = read_columns(bad[i].hex, columns, 3);
        if (records.code != COX_EFORMAT || strstr(records.error, "file:0: ") == NULL ||
            strstr(records.error, bad[i].reason) == NULL) {
            fail_msg("'%s': %d, %s", bad[i].hex, records.code, records.error);
        }
        records_free(&records);
    }
}

TEST(a_malformed_message_can_be_left_out)
{
    static const char *const expected[] = {"-7", "-7"};
    static const struct cox_column column = {.name = "age", .kind = COX_COLUMN_LABEL};
    struct records records = {0};
    struct coxi_buffer file = file_of(golden);
    uint64_t second = file.len;
    struct coxi_task task = task_of(&column, 1);
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    assert_code(0, coxi_tfrecord_append(&file, "\n", 1));
    assert_code(0, coxi_buffer_reserve(&file, second));
    assert_code(0, coxi_buffer_append_raw(&file, file.data, second));
    records_read_memory(&task, file.data, file.len, &records);
    records_assert(&records, expected, 2);
    assert_int_equal(1, records.counts.bad);
    assert_int_equal(second, records.counts.first_bad[0]);
    assert_string_equal("no tf.Example", records.counts.first_reason);
    records_free(&records);
    coxi_buffer_fini(&file);
}

/* The messages are changed, and the checksums are right. */
TEST(ten_thousand_changed_messages_are_read_or_refused)
{
    uint8_t bytes[512];
    uint64_t rng = 9;
    size_t len = from_hex(golden, bytes);
    struct coxi_task task = task_of(all, ALL);
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    struct coxi_buffer file = {0};
    struct records records = {0};
    for (size_t i = 0; i < MUTATIONS; i++) {
        uint8_t changed[512];
        memcpy(changed, bytes, len);
        for (uint64_t n = 1 + coxi_rand(&rng) % 4; n > 0; n--) {
            changed[coxi_rand(&rng) % len] = (uint8_t)coxi_rand(&rng);
        }
        size_t cut = coxi_rand(&rng) % 8 == 0 ? coxi_rand(&rng) % len : len;
        assert_code(0, coxi_tfrecord_append(&file, changed, cut));
    }
    records_read_memory(&task, file.data, file.len, &records);
    assert_int_equal(COX_EEOF, records.code);
    assert_int_equal(MUTATIONS, records.n + records.counts.bad);
    assert_true(records.n > 0 && records.counts.bad > 0);
    records_free(&records);
    coxi_buffer_fini(&file);
}

/* Criteo's click logs. The keys are those of Python's xxhash. */
#include <stdio.h>

#include "coxswain/dataset.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { MUTATIONS = 10000, BUCKETS = 1000 };

#define LINE                                                                           \
    "1\t5\t110\t\t-3\t\t1\t0\t14\t7\t1\t\t306\t70000\t62770d79\te21f5d58\tafea442f"    \
    "\t945c7fcf\t38b02748\t6fcd6dcb\t3580aa21\t28808903\t46dedfa6\t2e027dc1"           \
    "\t0c7c4231\t95981d1f\t\tbe4ee537\t8a0b74cc\tlonger than usual\tshort\tb8170bba"   \
    "\t9512c20b\tc38e2f28\t14f65a5d\t25b1b089\td7c1fc0b\t\t\t"
#define NUMBERS                                                                        \
    " [1.79175949] [4.70953035] [0] [0] [0] [0.693147182] [0] [2.70805025]"            \
    " [2.07944155] [0.693147182] [0] [5.72684765] [11.1562653]"
#define KEYS                                                                           \
    " 0:895 1:523 2:767 3:184 4:451 5:409 6:410 7:114 8:102 9:237 10:603 11:616"       \
    " 12:528 13:370 14:970 15:958 16:101 17:584 18:122 19:778 20:727 21:870 22:208"    \
    " 23:119 24:643 25:785"
#define LONG_KEYS                                                                      \
    " 0:12421346426657543895 1:16333558062866851523 2:6464307345876170767"             \
    " 3:17339753610699507184 4:17657134311270920451 5:2397784620418950409"             \
    " 6:5672093943440561410 7:15388394127414190114 8:17406448100582017102"             \
    " 9:6798137421964366237 10:2323457309989503603 11:935494301141918616"              \
    " 12:11918560363554360528 13:2807554739850738370 14:15704274572499309970"          \
    " 15:4425719293959164958 16:11072110308890553101 17:679461097707473584"            \
    " 18:1913915324469683122 19:15490901154588597778 20:9095500001471319727"           \
    " 21:7533048639563391870 22:3363539167185138208 23:11726675294023891119"           \
    " 24:17627218985247602643 25:17978128097015415785"

static const char *const expected[] = {"1" NUMBERS KEYS};

static struct records read_with(const char *text, uint64_t buckets, uint32_t header)
{
    struct records records = {0};
    struct coxi_task task = records_task("file", COX_CRITEO);
    task.decoding.buckets = buckets;
    task.decoding.header = header;
    records_read_memory(&task, text, strlen(text), &records);
    return records;
}

TEST(integers_become_logarithms_and_categories_keys)
{
    static const char *const long_keys[] = {"1" NUMBERS LONG_KEYS};
    struct records records = read_with(LINE "\n", BUCKETS, 0);
    records_assert(&records, expected, 1);
    records_free(&records);
    records = read_with(LINE "\n", 0, 0);
    records_assert(&records, long_keys, 1);
    records_free(&records);
}

TEST(lines_end_as_on_any_system)
{
    static const char *const texts[] = {
        LINE,
        LINE "\r\n",
        "\n\r\n" LINE "\n\r\n",
        LINE "\r",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct records records = read_with(texts[i], BUCKETS, 0);
        records_assert(&records, expected, 1);
        records_free(&records);
    }
}

TEST(a_header_is_left_out_once)
{
    struct records records = read_with("label\tI1\r\n" LINE "\n", BUCKETS, 1);
    records_assert(&records, expected, 1);
    records_free(&records);
    records = read_with("label\tI1", BUCKETS, 1);
    records_assert(&records, NULL, 0);
    records = read_with("", BUCKETS, 1);
    records_assert(&records, NULL, 0);
}

TEST(a_malformed_line_is_named_by_its_offset)
{
    static const struct {
        const char *line;
        const char *reason;
    } bad[] = {
        {"\t" LINE, "byte 1 of the line: no label"},
        {"x" LINE, "no label"},
        {"1", "byte 2 of the line: no label"},
        {"1\t1.5\t", "byte 3 of the line: no integer with a tab behind it"},
        {"1\t-\t", "no integer"},
        {"1\t+1\t", "no integer"},
        {"1\t1", "no integer"},
        {"1\t18446744073709551616\t", "no integer"},
        {LINE "\t", "more than 40 columns"},
        {"1\t\t\t\t\t\t\t\t\t\t\t\t\t\ta\tb", "fewer than 40 columns"},
        {"1\t\t\t\t\t\t\t\t\t\t\t\t\t\t", "fewer than 40 columns"},
        {"1\t\t\t\t\t\t\t\t\t\t\t\t\t", "no integer"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text), "\n\n%s\r\n" LINE "\n", bad[i].line);
        struct records records = read_with(text, BUCKETS, 0);
        if (records.code != COX_EFORMAT || strstr(records.error, "file:2: ") == NULL ||
            strstr(records.error, bad[i].reason) == NULL) {
            fail_msg("'%s': %d, %s", bad[i].line, records.code, records.error);
        }
        assert_int_equal(0, records.n);
        records_free(&records);
    }
}

TEST(each_byte_can_be_a_cut)
{
    static const char text[] = LINE "\r\n\n0" LINE "\n";
    struct coxi_task task = records_task(coxi_test_path("file"), COX_CRITEO);
    task.decoding.buckets = BUCKETS;
    for (uint32_t header = 0; header < 2; header++) {
        task.decoding.header = header;
        records_assert_cuts(&task, text, strlen(text), 2 - header);
    }
}

TEST(ten_thousand_changed_files_are_read_or_refused)
{
    static const char text[] = LINE "\n0" LINE "\r\n" LINE "\n";
    struct coxi_task task = records_task("file", COX_CRITEO);
    task.decoding.buckets = BUCKETS;
    records_mutate(&task, text, strlen(text), MUTATIONS);
}

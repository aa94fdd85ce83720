/* Files of events for TensorBoard: their framing, and a disk without room. tensorboard.sh
 * reads such files with TensorBoard's own reader. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "coordinator/monitor/event_file.h"
#include "coordinator/monitor/tensorboard.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/dead_disk.h"
#include "tests/test.h"

/* The only file in the directory; for free(). */
static char *read_only_file(const char *dir, size_t *ret_len)
{
    char path[4096] = "";
    DIR *all = opendir(dir);
    const struct dirent *entry;
    assert_non_null(all);
    while ((entry = readdir(all)) != NULL) {
        if (entry->d_name[0] != '.') {
            assert_string_equal("", path);
            assert_non_null(strstr(entry->d_name, "tfevents"));
            (void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        }
    }
    (void)closedir(all);
    return coxi_test_read(path, ret_len);
}

static uint32_t sum_at(const char *at)
{
    uint32_t sum;
    memcpy(&sum, at, sizeof(sum));
    return coxi_crc32c_unmasked(sum);
}

/* Checks that the bytes are whole records. Returns their number; *ret_last: the last. */
static size_t check_records(const char *bytes, size_t len, const char **ret_last,
                            size_t *ret_last_len)
{
    size_t n = 0;
    for (size_t at = 0; at < len; n++) {
        uint64_t event_len;
        assert_true(len - at >= 16);
        memcpy(&event_len, bytes + at, sizeof(event_len));
        assert_int_equal(coxi_crc32c(0, bytes + at, 8), sum_at(bytes + at + 8));
        assert_true(len - at - 16 >= event_len);
        assert_int_equal(coxi_crc32c(0, bytes + at + 12, event_len),
                         sum_at(bytes + at + 12 + event_len));
        *ret_last = bytes + at + 12;
        *ret_last_len = event_len;
        at += 16 + event_len;
    }
    return n;
}

TEST(a_file_has_its_version_the_restart_and_points)
{
    struct coxi_event_file *file;
    const char *last;
    size_t last_len;
    size_t len;
    char *dir = coxi_test_path("train");
    assert_code(0, coxi_event_file_new(dir, 300, &file));
    assert_code(0, coxi_event_file_scalar(file, "loss", 300, 1.5, 0.25));
    assert_code(0, coxi_event_file_flush(file));
    coxi_event_file_free(file);
    char *bytes = read_only_file(dir, &len);
    assert_int_equal(3, check_records(bytes, len, &last, &last_len));
    assert_memory_equal("brain.Event:2", bytes + 12 + 9 + 2, 13);
    /* wall_time 1.5, step 300, summary {value {tag "loss", simple_value 0.25}} */
    static const uint8_t expected[] = {
        0x09, 0,  0,    0, 0,   0,   0,   0xf8, 0x3f, 0x10, 0xac, 2,    0x2a, 13,
        0x0a, 11, 0x0a, 4, 'l', 'o', 's', 's',  0x15, 0,    0,    0x80, 0x3e};
    assert_int_equal(sizeof(expected), last_len);
    assert_memory_equal(expected, last, last_len);
    free(bytes);
}

/* TensorBoard reads nothing of a file in which a tag is no UTF-8. */
TEST(a_tag_is_utf_8_whatever_its_bytes)
{
    static const char expected[] = "\x0a\x0e"
                                   "a\xef\xbf\xbd<\xc3\xa4>\xef\xbf\xbd";
    struct coxi_event_file *file;
    const char *last;
    size_t last_len;
    size_t len;
    char *dir = coxi_test_path("train");
    assert_code(0, coxi_event_file_new(dir, 0, &file));
    assert_code(0, coxi_event_file_scalar(file, "a\xff<\xc3\xa4>\xe2\x82", 1, 1, 1));
    assert_code(0, coxi_event_file_flush(file));
    coxi_event_file_free(file);
    char *bytes = read_only_file(dir, &len);
    assert_int_equal(3, check_records(bytes, len, &last, &last_len));
    assert_non_null(memmem(last, last_len, expected, sizeof(expected) - 1));
    free(bytes);
}

TEST(a_later_file_sorts_behind_an_earlier_one)
{
    struct coxi_event_file *files[3];
    struct dirent **names;
    char *dir = coxi_test_path("train");
    /* of nobody's time */
    assert_int_equal(0, mkdir(dir, 0700));
    coxi_test_write(coxi_test_path("train/events.out.tfevents.9223372036854775807.x"),
                    "", 0);
    for (int i = 0; i < 3; i++) {
        char tag[2] = {(char)('a' + i), '\0'};
        assert_code(0, coxi_event_file_new(dir, 0, &files[i]));
        assert_code(0, coxi_event_file_scalar(files[i], tag, 1, 1, 1));
        assert_code(0, coxi_event_file_flush(files[i]));
        coxi_event_file_free(files[i]);
    }
    assert_int_equal(6, scandir(dir, &names, NULL, alphasort));
    for (int i = 0; i < 6; i++) {
        char path[4096];
        size_t len;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (i >= 2 && i < 5) { /* "9..." sorts behind those of this millennium */
            char *bytes = coxi_test_read(path, &len);
            assert_int_equal('a' + i - 2, bytes[len - 10]);
            free(bytes);
        }
        free(names[i]);
    }
    free(names);
}

/* A file in which a scalar waits, for which there is no room until the limit is *ret_all
 * again. */
static struct coxi_event_file *open_without_room(const char *dir,
                                                 struct rlimit *ret_all)
{
    struct coxi_event_file *file;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, ret_all));
    assert_code(0, coxi_event_file_new(dir, 0, &file));
    assert_code(0, coxi_event_file_flush(file));
    assert_code(0, coxi_event_file_scalar(file, "loss", 1, 1, 1));
    assert_int_equal(0,
                     setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, ret_all->rlim_max}));
    return file;
}

TEST(without_room_nothing_is_cut_and_all_is_written_later)
{
    struct rlimit all;
    const char *last;
    size_t last_len;
    size_t len;
    char *dir = coxi_test_path("train");
    struct coxi_event_file *file = open_without_room(dir, &all);
    assert_code(COX_EIO, coxi_event_file_flush(file));
    char *bytes = read_only_file(dir, &len);
    assert_int_equal(2, check_records(bytes, len, &last, &last_len));
    free(bytes);
    int r = 0;
    while (r == 0) { /* what waits is bounded */
        r = coxi_event_file_scalar(file, "loss", 2, 1, 1);
    }
    assert_int_equal(COX_EIO, r);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &all));
    assert_code(0, coxi_event_file_flush(file));
    assert_code(0, coxi_event_file_scalar(file, "loss", 3, 1, 1));
    assert_code(0, coxi_event_file_flush(file));
    coxi_event_file_free(file);
    bytes = read_only_file(dir, &len);
    assert_true(check_records(bytes, len, &last, &last_len) > 1000);
    free(bytes);
}

static bool cannot_cut;
int __real_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len);

int __wrap_ftruncate(int fd, off_t len)
{
    errno = EIO;
    return cannot_cut ? -1 : __real_ftruncate(fd, len);
}

/* A part of a record in the file would hide all later ones. */
TEST(a_record_that_cannot_be_cut_off_at_once_is_cut_off_later)
{
    struct rlimit all;
    const char *last;
    size_t last_len;
    size_t len;
    char *dir = coxi_test_path("train");
    struct coxi_event_file *file = open_without_room(dir, &all);
    cannot_cut = true;
    assert_code(COX_EIO, coxi_event_file_flush(file));
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &all));
    assert_code(COX_EIO, coxi_event_file_flush(file));
    cannot_cut = false;
    assert_code(0, coxi_event_file_flush(file));
    coxi_event_file_free(file);
    char *bytes = read_only_file(dir, &len);
    assert_int_equal(3, check_records(bytes, len, &last, &last_len));
    free(bytes);
}

TEST(points_that_find_no_room_when_a_run_goes_on_are_written_later)
{
    static const char history[] =
        "{\"seq\":3,\"t\":1.0,\"kind\":\"scalar\",\"name\":\"a\","
        "\"step\":100,\"value\":1,\"source\":\"client\"}\n";
    struct coxi_tensorboard *board;
    struct rlimit all;
    uint64_t left_out = 1;
    const struct coxi_repeated repeated = {.seq = 5, .closure = 10};
    const char *last;
    size_t last_len;
    size_t len;
    char *dir = coxi_test_path("board");
    coxi_test_write(coxi_test_path("metrics.jsonl"), history, sizeof(history) - 1);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &all));
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, all.rlim_max}));
    assert_code(
        0, coxi_tensorboard_new(dir, coxi_test_dir(), &repeated, &left_out, &board));
    assert_int_equal(0, left_out);
    assert_code(COX_EIO, coxi_tensorboard_flush(board, 0, true));
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &all));
    assert_code(0, coxi_tensorboard_flush(board, 0, true));
    coxi_tensorboard_free(board);
    char *bytes = read_only_file(coxi_test_path("board/train"), &len);
    assert_int_equal(3, check_records(bytes, len, &last, &last_len));
    free(bytes);
}

/* ---- a client */

/* metrics.jsonl has a scalar. */
static bool has_scalar(void *path)
{
    size_t len;
    if (access(path, F_OK) != 0) {
        return false;
    }
    char *text = coxi_test_read(path, &len);
    bool has = strstr(text, "\"kind\":\"scalar\"") != NULL;
    free(text);
    return has;
}

/* A closure settles after its successor, and after what that has logged was taken from
 * the history, but before the files for TensorBoard have their turn. */
TEST(points_are_in_the_order_of_closures_that_settle_while_the_disk_is_slow)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    const char *gate = coxi_test_path("gate");
    const struct cox_value arg = COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate);
    char path[4096];
    const char *last;
    size_t last_len;
    size_t len;
    coxi_test_write(gate, "", 0);
    options.tensorboard_dir = coxi_test_path("curves");
    crew_open(&crew, 1, 2, "scalars", &options);
    (void)crew_counter(&crew, "c0"); /* 1 */
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "train_behind"), &call,
                                NULL)); /* 2 */
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "train"), NULL, NULL)); /* 3 */
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", crew.log_dir);
    coxi_test_until(has_scalar, path, "a point");
    dead_disk_begin("metrics.jsonl");
    assert_code(0, cox_log_config(crew.c, "{}"));
    coxi_test_until(dead_disk_is_waiting, NULL, "a write that waits");
    assert_int_equal(0, unlink(gate));
    assert_code(0, cox_join(crew.c, -1));
    dead_disk_end();
    crew_close(&crew);
    char *bytes = read_only_file(coxi_test_path("curves/train"), &len);
    assert_int_equal(2 + 4, check_records(bytes, len, &last, &last_len));
    assert_int_equal(0x10, last[9]); /* the tag of a step */
    assert_int_equal(3, last[10]);
    free(bytes);
}

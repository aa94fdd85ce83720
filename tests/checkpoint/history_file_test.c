/* metrics.jsonl: writers that are killed or find no room, and readers. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/history_file.h"
#include "tests/test.h"

static const char *const lines[] = {
    "{\"seq\":1,\"t\":1.000,\"kind\":\"run\",\"pid\":1}\n",
    "{\"seq\":2,\"t\":1.000,\"kind\":\"scalar\",\"name\":\"a\",\"step\":1,\"value\":1,"
    "\"source\":\"f\"}\n",
    "{\"seq\":3,\"t\":1.000,\"kind\":\"scalar\",\"name\":\"a\",\"step\":2,\"value\":2,"
    "\"source\":\"f\"}\n",
};

static void append(struct coxi_history_file *file, const char *line)
{
    assert_code(0, coxi_history_file_append(file, line, strlen(line)));
}

static void write_three(const char *dir)
{
    struct coxi_history_file file;
    assert_code(0, coxi_history_file_open(dir, &file));
    for (int i = 0; i < 3; i++) {
        append(&file, lines[i]);
    }
    coxi_history_file_close(&file);
}

static char *read_file(void)
{
    size_t len;
    return coxi_test_read(coxi_test_path("metrics.jsonl"), &len);
}

/* All that a reader of the directory knows; for free(). */
static char *known(struct coxi_records *records)
{
    struct coxi_buffer out = {0};
    uint64_t at;
    assert_code(0, coxi_records_since(records, 0, 1 << 20, &out, &at));
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    return (char *)out.data;
}

static void note_seq(void *arg, const struct coxi_record *record)
{
    uint64_t *sum = arg;
    *sum = 10 * *sum + record->seq;
}

TEST(a_reader_gets_the_records_of_the_kinds_that_it_asks_for)
{
    uint64_t seen = 0;
    const char *dir = coxi_test_dir();
    const unsigned runs = COXI_RECORDS_OF(COXI_RECORD_RUN);
    const unsigned scalars = COXI_RECORDS_OF(COXI_RECORD_SCALAR);
    struct coxi_history_file file;
    write_three(dir);
    assert_code(0, coxi_history_file_open(dir, &file));
    /* in another order, and so read as JSON; a kind that begins like another */
    append(&file, "{\"kind\":\"scalar\",\"seq\":4,\"t\":1,\"name\":\"a\",\"step\":1,"
                  "\"value\":1,\"source\":\"f\"}\n");
    append(&file, "{\"seq\":5,\"t\":1.000,\"kind\":\"runs\"}\n");
    coxi_history_file_close(&file);
    assert_code(0, coxi_history_each(dir, runs, note_seq, &seen));
    assert_int_equal(1, seen);
    seen = 0;
    assert_code(0, coxi_history_each(dir, scalars, note_seq, &seen));
    assert_int_equal(234, seen);
    seen = 0;
    assert_code(0, coxi_history_each(dir, runs | scalars, note_seq, &seen));
    assert_int_equal(1234, seen);
    seen = 0;
    assert_code(0, coxi_history_scalars(dir, 3, 0, note_seq, &seen));
    assert_int_equal(34, seen);
    seen = 0;
    assert_code(0, coxi_history_scalars(dir, 0, 2, note_seq, &seen));
    assert_int_equal(3, seen);
}

TEST(a_reader_finds_what_was_written_and_what_is_appended)
{
    struct coxi_history *history;
    const char *dir = coxi_test_dir();
    assert_code(COX_ENOENT, coxi_history_open(dir, &history));
    write_three(dir);
    assert_code(0, coxi_history_open(dir, &history));
    assert_int_equal(3, coxi_records_last(coxi_history_records(history)));
    struct coxi_history_file file;
    assert_code(0, coxi_history_file_open(dir, &file));
    append(&file, "{\"seq\":4,\"t\":1.000,\"kind\":\"event\",\"code\":\"x\"}\n");
    assert_code(0, coxi_history_update(history));
    char *text = known(coxi_history_records(history));
    assert_non_null(strstr(text, "\"code\":\"x\""));
    free(text);
    /* another run begins its file anew */
    coxi_history_file_close(&file);
    assert_code(0, coxi_history_file_retire(dir));
    assert_code(0, coxi_history_file_open(dir, &file));
    append(&file, "{\"seq\":5,\"t\":1.000,\"kind\":\"run\",\"pid\":2}\n");
    coxi_history_file_close(&file);
    assert_code(0, coxi_history_update(history));
    text = known(coxi_history_records(history));
    assert_string_equal("{\"seq\":5,\"t\":1.000,\"kind\":\"run\",\"pid\":2}\n", text);
    free(text);
    coxi_history_close(history);
}

TEST(a_line_that_was_cut_is_skipped_and_mended)
{
    struct coxi_history *history;
    const char *dir = coxi_test_dir();
    write_three(dir);
    char *whole = read_file();
    for (size_t cut = 1; cut < strlen(lines[2]); cut++) {
        coxi_test_write(coxi_test_path("metrics.jsonl"), whole, strlen(whole) - cut);
        assert_code(0, coxi_history_open(dir, &history));
        assert_int_equal(2, coxi_records_last(coxi_history_records(history)));
        struct coxi_history_file file;
        assert_code(0, coxi_history_file_open(dir, &file));
        append(&file, lines[2]);
        coxi_history_file_close(&file);
        char *mended = read_file();
        assert_string_equal(whole, mended);
        free(mended);
        assert_code(0, coxi_history_update(history));
        assert_int_equal(3, coxi_records_last(coxi_history_records(history)));
        coxi_history_close(history);
    }
    free(whole);
}

TEST(lines_that_are_no_records_are_skipped)
{
    static const char text[] =
        "\n\0\0{\"seq\":1,\"t\":1,\"kind\":\"sample\"}\nnonsense\n"
        "{\"seq\":2,\"t\":1,\"kind\":\"of another version\"}\n"
        "{\"seq\":3,\"t\":1,\"kind\":\"sample\"}\n";
    struct coxi_history *history;
    coxi_test_write(coxi_test_path("metrics.jsonl"), text, sizeof(text) - 1);
    assert_code(0, coxi_history_open(coxi_test_dir(), &history));
    char *all = known(coxi_history_records(history));
    assert_string_equal("{\"seq\":1,\"t\":1.000,\"kind\":\"sample\"}\n"
                        "{\"seq\":3,\"t\":1.000,\"kind\":\"sample\"}\n",
                        all);
    free(all);
    coxi_history_close(history);
}

TEST(a_reader_goes_on_with_another_run_that_counts_from_1)
{
    static const char text[] = "{\"seq\":1,\"t\":2.000,\"kind\":\"run\",\"pid\":2}\n";
    struct coxi_history *history;
    const char *dir = coxi_test_dir();
    write_three(dir);
    assert_code(0, coxi_history_open(dir, &history));
    assert_int_equal(0, unlink(coxi_test_path("metrics.jsonl")));
    coxi_test_write(coxi_test_path("metrics.jsonl"), text, sizeof(text) - 1);
    assert_code(0, coxi_history_update(history));
    char *all = known(coxi_history_records(history));
    assert_string_equal(text, all);
    free(all);
    coxi_history_close(history);
}

TEST(a_pipe_in_the_place_of_the_file_holds_nobody_up)
{
    struct coxi_history *history;
    struct coxi_history_file file;
    const char *dir = coxi_test_dir();
    assert_int_equal(0, mkfifo(coxi_test_path("metrics.jsonl"), 0600));
    assert_code(COX_EIO, coxi_history_open(dir, &history));
    assert_code(COX_EIO, coxi_history_file_open(dir, &file));
}

TEST(scalars_that_a_later_client_repeats_are_not_shown)
{
    struct coxi_history *history;
    struct coxi_history_file file;
    const char *dir = coxi_test_dir();
    write_three(dir);
    assert_code(0, coxi_history_file_open(dir, &file));
    append(&file,
           "{\"seq\":4,\"t\":1.000,\"kind\":\"run\",\"resumed\":{\"checkpoint\":1,"
           "\"closure\":1,\"seq\":2}}\n");
    coxi_history_file_close(&file);
    assert_code(0, coxi_history_open(dir, &history));
    char *all = known(coxi_history_records(history));
    assert_non_null(strstr(all, "\"step\":1,"));
    assert_null(strstr(all, "\"step\":2,"));
    free(all);
    coxi_history_close(history);
}

/* A limit on the size of files stands for a disk without room. */
static void set_room(size_t bytes)
{
    struct rlimit limit;
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = bytes;
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
}

TEST(without_room_on_the_disk_the_file_stays_whole_and_goes_on_later)
{
    struct coxi_history_file file;
    const char *dir = coxi_test_dir();
    struct rlimit before;
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &before));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_code(0, coxi_history_file_open(dir, &file));
    append(&file, lines[0]);
    for (size_t room = 1; room < strlen(lines[1]); room++) {
        set_room(strlen(lines[0]) + room);
        assert_code(COX_EIO,
                    coxi_history_file_append(&file, lines[1], strlen(lines[1])));
        char *now = read_file();
        assert_string_equal(lines[0], now);
        free(now);
    }
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &before));
    append(&file, lines[1]);
    coxi_history_file_close(&file);
    char *now = read_file();
    assert_int_equal(strlen(lines[0]) + strlen(lines[1]), strlen(now));
    free(now);
}

/* Steps take the records of a task. */
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "coxswain/dataset.h"
#include "data/task.h"
#include "tests/test.h"
#include "tests/worker/rig.h"
#include "worker/client_files.h"

enum { RECORDS = 100, BATCH = 8 };

struct fixture {
    struct rig rig;
    uint32_t visits;
    const char *path;
    struct coxi_task task;
    struct coxi_buffer packed;
    uint64_t last; /* the last closure */
};

/* A file of RECORDS lines, each with a key of its own. */
static void write_lines(struct fixture *f, const char *last_line)
{
    char text[RECORDS * 16 + 64];
    size_t len = 0;
    for (int i = 0; i < RECORDS; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "1 %d:1\n", i);
    }
    len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", last_line);
    assert_code(0, coxi_file_write(f->path, text, len));
}

static void fixture_open(struct fixture *f, const char *last_line)
{
    memset(f, 0, sizeof(*f));
    f->path = coxi_test_path("lines");
    write_lines(f, last_line);
    f->task = (struct coxi_task){.dataset = "lines",
                                 .file = f->path,
                                 .end = UINT64_MAX,
                                 .batch_size = BATCH,
                                 .prefetch = 2,
                                 .decoding = {.format = COX_LIBSVM}};
    const struct coxi_variable visits = {.name = "visits",
                                         .kind = COXI_KIND_DENSE,
                                         .dtype = COX_I64,
                                         .rank = 1,
                                         .shape = {RECORDS}};
    rig_open(&f->rig, 2, 1, 16);
    f->visits = rig_create(&f->rig, &visits, 0, 2);
    assert_code(0, rig_layout(&f->rig));
    assert_code(0, rig_load(&f->rig, 1, "visit", true));
}

static void fixture_close(struct fixture *f)
{
    coxi_buffer_fini(&f->packed);
    rig_close(&f->rig);
}

/* Runs `visit` on the task, with an argument; expects `code`. */
static struct rig_done visit(struct fixture *f, const char *name, int64_t number,
                             int code)
{
    f->packed.len = 0;
    assert_code(0, coxi_task_pack(&f->task, &f->packed));
    const struct cox_value args[] = {
        COX_VECTOR(COXI_TASK_ARGUMENT, COX_U8, f->packed.len, f->packed.data),
        COX_SCALAR(name, COX_I64, &number)};
    rig_push(&f->rig, ++f->last, 1, "visit", args, 2);
    return rig_expect(&f->rig, f->last, code);
}

static struct coxi_reader_counts counts_of(const struct rig_done *done)
{
    struct coxi_reader_counts counts;
    struct cox_value read = rig_value(done, COXI_TASK_RESULT);
    assert_code(0, coxi_counts_unpack(read.data, read.shape[0], &counts));
    return counts;
}

TEST(step_takes_each_record_of_its_task_once)
{
    struct fixture f;
    fixture_open(&f, "");
    struct rig_done done = visit(&f, "none", 0, 0);
    assert_int_equal(RECORDS, rig_result(&done, "records"));
    assert_int_equal((RECORDS + BATCH - 1) / BATCH, rig_result(&done, "batches"));
    assert_int_equal(1, rig_result(&done, "args")); /* the task is none of the step's */
    assert_int_equal(RECORDS, counts_of(&done).records);
    fixture_close(&f);
}

TEST(step_may_flush_after_each_batch)
{
    struct fixture f;
    fixture_open(&f, "");
    struct rig_done done = visit(&f, "flush", 1, 0);
    assert_int_equal(RECORDS, rig_result(&done, "records"));
    fixture_close(&f);
}

TEST(step_that_leaves_records_counts_those_that_it_took)
{
    struct fixture f;
    fixture_open(&f, "");
    struct rig_done done = visit(&f, "batches", 3, 0);
    assert_int_equal(3 * BATCH, rig_result(&done, "records"));
    assert_int_equal(3 * BATCH, counts_of(&done).records);
    fixture_close(&f);
}

TEST(step_with_a_malformed_task_fails_with_file_and_offset)
{
    struct fixture f;
    char expected[1024];
    fixture_open(&f, "nothing\n");
    (void)snprintf(expected, sizeof(expected), "%s:690", f.path);
    struct rig_done done = visit(&f, "none", 0, COX_EFORMAT);
    assert_non_null(strstr(done.result, expected));
    done = visit(&f, "forgive", 1, COX_EFORMAT); /* whatever it returns */
    assert_non_null(strstr(done.result, expected));
    fixture_close(&f);
}

TEST(step_whose_file_has_changed_is_told_so)
{
    struct fixture f;
    fixture_open(&f, "");
    f.task.mark.bytes = 1;
    struct rig_done done = visit(&f, "none", 0, COX_ECONFLICT);
    assert_non_null(strstr(done.result, f.path));
    fixture_close(&f);
}

TEST(step_whose_file_is_gone_is_told_so)
{
    struct fixture f;
    fixture_open(&f, "");
    f.task.file = "/nowhere/at/all";
    struct rig_done done = visit(&f, "none", 0, COX_ENOENT);
    assert_non_null(strstr(done.result, "/nowhere/at/all"));
    fixture_close(&f);
}

TEST(step_without_a_task_gets_no_batch)
{
    struct fixture f;
    fixture_open(&f, "");
    rig_push(&f.rig, 1, 1, "visit", NULL, 0);
    struct rig_done done = rig_expect(&f.rig, 1, COX_ESTEP);
    assert_non_null(strstr(done.result, "cox_schedule_next"));
    fixture_close(&f);
}

TEST(step_may_not_give_a_result_a_reserved_name)
{
    struct fixture f;
    fixture_open(&f, "");
    rig_push(&f.rig, 1, 1, "pose", NULL, 0);
    struct rig_done done = rig_expect(&f.rig, 1, COX_ESTEP);
    assert_non_null(strstr(done.result, "begins with"));
    fixture_close(&f);
}

/* ---- files of the client */

/* Answers the worker's next request with `bytes`. */
static void answer_bytes(struct fixture *f, uint64_t block, const void *bytes,
                         size_t len, uint64_t file_bytes)
{
    const struct coxi_message *wanted = caller_expect(f->rig.caller, COXI_FILE_READ);
    const struct coxi_file_bytes answer = {.message = "", .bytes = file_bytes};
    assert_string_equal("lines", wanted->file_read.dataset);
    assert_string_equal("at the client", wanted->file_read.file);
    assert_int_equal(3, wanted->file_read.place);
    assert_int_equal(block * COXI_FILE_BLOCK, wanted->file_read.offset);
    assert_code(0, coxi_client_files_answer(&f->rig.run->files, wanted->request,
                                            &answer, bytes, len));
}

/* Begins a task of a file that only the client has. */
static void push_client_task(struct fixture *f)
{
    f->task.file = "at the client";
    f->task.source = COX_SOURCE_CLIENT;
    f->task.place = 3;
    f->packed.len = 0;
    assert_code(0, coxi_task_pack(&f->task, &f->packed));
    const struct cox_value task =
        COX_VECTOR(COXI_TASK_ARGUMENT, COX_U8, f->packed.len, f->packed.data);
    rig_push(&f->rig, ++f->last, 1, "visit", &task, 1);
}

static const char two_lines[] = "1 7:1\n1 8:1\n";

static void expect_two_records(struct fixture *f)
{
    struct rig_done done = rig_expect(&f->rig, f->last, 0);
    assert_int_equal(2, rig_result(&done, "records"));
}

/* Runs a task of a file of two lines, for which the client is asked. */
static void read_two_lines(struct fixture *f)
{
    push_client_task(f);
    answer_bytes(f, 0, two_lines, strlen(two_lines), strlen(two_lines));
    expect_two_records(f);
}

TEST(step_reads_a_file_of_the_client)
{
    struct fixture f;
    fixture_open(&f, "");
    read_two_lines(&f);
    push_client_task(&f); /* the worker has kept it */
    expect_two_records(&f);
    fixture_close(&f);
}

/* The rig's worker keeps 4 blocks. */
TEST(step_does_not_take_an_answer_that_is_cut_off_for_the_files_end)
{
    struct fixture f;
    fixture_open(&f, "");
    push_client_task(&f);
    answer_bytes(&f, 0, two_lines, 6, strlen(two_lines));
    (void)rig_expect(&f.rig, f.last, COX_ECONFLICT);
    read_two_lines(&f); /* it is asked for again */
    fixture_close(&f);
}

TEST(step_reads_more_of_the_client_than_is_kept)
{
    struct fixture f;
    enum { BLOCKS = 7, LINE = 64 << 10 };
    char *block = malloc(COXI_FILE_BLOCK);
    assert_non_null(block);
    memset(block, ' ', COXI_FILE_BLOCK);
    for (size_t at = 0; at < COXI_FILE_BLOCK; at += LINE) {
        block[at] = '1';
        block[at + 2] = '5';
        block[at + 3] = ':';
        block[at + 4] = '1';
        block[at + LINE - 1] = '\n';
    }
    fixture_open(&f, "");
    for (int round = 0; round < 2; round++) {
        push_client_task(&f);
        for (uint64_t i = 0; i < BLOCKS; i++) {
            answer_bytes(&f, i, block, COXI_FILE_BLOCK,
                         (uint64_t)BLOCKS * COXI_FILE_BLOCK);
        }
        struct rig_done done = rig_expect(&f.rig, f.last, 0);
        assert_int_equal(BLOCKS * (COXI_FILE_BLOCK / LINE),
                         rig_result(&done, "records"));
    }
    fixture_close(&f);
    free(block);
}

TEST(step_is_told_what_the_client_cannot_read)
{
    struct fixture f;
    fixture_open(&f, "");
    push_client_task(&f);
    const struct coxi_message *wanted = caller_expect(f.rig.caller, COXI_FILE_READ);
    const struct coxi_file_bytes answer = {COX_EIO, "cannot read it: a bad disk", 0, 0};
    assert_code(0, coxi_client_files_answer(&f.rig.run->files, wanted->request, &answer,
                                            NULL, 0));
    struct rig_done done = rig_expect(&f.rig, f.last, COX_EIO);
    assert_non_null(strstr(done.result, "a bad disk"));
    fixture_close(&f);
}

TEST(bytes_that_nobody_asked_for_are_refused)
{
    struct fixture f;
    const struct coxi_file_bytes answer = {0, "", 1, 1};
    fixture_open(&f, "");
    assert_code(COX_EPROTO,
                coxi_client_files_answer(&f.rig.run->files, 9, &answer, "a", 1));
    fixture_close(&f);
}

TEST(step_ends_when_the_client_is_gone)
{
    struct fixture f;
    fixture_open(&f, "");
    push_client_task(&f);
    (void)caller_expect(f.rig.caller, COXI_FILE_READ);
    coxi_client_files_close(&f.rig.run->files);
    struct rig_done done = rig_expect(&f.rig, f.last, COX_ECLOSED);
    assert_non_null(strstr(done.result, "the client is gone"));
    fixture_close(&f);
}

/* Recalls the running closure; it must return, because its process would end. */
static void recall(struct fixture *f)
{
    const struct coxi_recall_head head = {f->last, 1, 0};
    const struct coxi_recall wanted = {
        .closures = &head, .n_closures = 1, .running = true, .grace_ms = 60000};
    assert_code(0, coxi_slots_recall(f->rig.slots, f->rig.run, &wanted));
}

TEST(step_that_waits_for_the_client_is_cancelled)
{
    struct fixture f;
    fixture_open(&f, "");
    push_client_task(&f);
    (void)caller_expect(f.rig.caller, COXI_FILE_READ);
    recall(&f);
    (void)rig_expect(&f.rig, f.last, COX_ECANCELLED);
    read_two_lines(&f); /* it is asked for again */
    fixture_close(&f);
}

TEST(step_gives_up_a_client_that_does_not_answer)
{
    struct fixture f;
    fixture_open(&f, "");
    f.rig.run->files.wait_ms = 20;
    push_client_task(&f);
    const struct coxi_message *wanted = caller_expect(f.rig.caller, COXI_FILE_READ);
    uint64_t request = wanted->request;
    struct rig_done done = rig_expect(&f.rig, f.last, COX_ETIMEDOUT);
    assert_non_null(strstr(done.result, "at the client: the client has sent no bytes"));
    /* what comes too late does no harm, and is of no use */
    const struct coxi_file_bytes late = {.message = "", .bytes = 1};
    assert_code(0, coxi_client_files_answer(&f.rig.run->files, request, &late, "x", 1));
    f.rig.run->files.wait_ms = COXI_FILE_WAIT_MS;
    read_two_lines(&f);
    fixture_close(&f);
}

struct reading {
    struct coxi_source source;
    uint64_t offset;
    int code;
};

static void *read_a_byte(void *arg)
{
    struct reading *reading = arg;
    uint8_t byte;
    size_t len;
    reading->code = coxi_source_read(&reading->source, reading->offset, &byte, 1, &len);
    return NULL;
}

/* Reads a byte of block `block`, for which the client is asked, and has it answered. */
static void read_block(struct fixture *f, struct reading *reading, uint64_t block,
                       uint64_t file_bytes)
{
    pthread_t thread;
    const uint64_t begin = block * COXI_FILE_BLOCK;
    const uint64_t left = file_bytes - begin;
    char *bytes = calloc(1, COXI_FILE_BLOCK);
    assert_non_null(bytes);
    reading->offset = begin;
    assert_int_equal(0, pthread_create(&thread, NULL, read_a_byte, reading));
    answer_bytes(f, block, bytes, left < COXI_FILE_BLOCK ? left : COXI_FILE_BLOCK,
                 file_bytes);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, reading->code);
    free(bytes);
}

TEST(an_error_of_a_block_that_was_read_ahead_is_not_kept)
{
    struct fixture f;
    struct reading reading = {0};
    const uint64_t bytes = COXI_FILE_BLOCK + 100;
    const struct coxi_file_bytes error = {COX_EIO, "a bad moment", 0, 0};
    fixture_open(&f, "");
    f.task.file = "at the client";
    f.task.place = 3;
    assert_code(0,
                coxi_source_open_client(&f.rig.run->files, &f.task, &reading.source));
    read_block(&f, &reading, 0, bytes);
    const struct coxi_message *ahead = caller_expect(f.rig.caller, COXI_FILE_READ);
    assert_int_equal(COXI_FILE_BLOCK, ahead->file_read.offset);
    assert_code(0, coxi_client_files_answer(&f.rig.run->files, ahead->request, &error,
                                            NULL, 0));
    read_block(&f, &reading, 1, bytes);
    coxi_source_close(&reading.source);
    fixture_close(&f);
}

/* The client reads its files for the workers, from disks and for workers that are not as
 * they should be. A wrapper of coxi_source_open makes the disk. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/sync.h"
#include "data/sources.h"
#include "tests/coordinator/datasets/dataset.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

enum { BLOCK = 1 << 20, WANTED = 64, MOST = 16 };

/* ---- the disk */

static atomic_bool is_ours; /* otherwise files are what they are */
static atomic_bool is_dead; /* reads do not return */
static atomic_int n_reading;
static atomic_int n_open;
static atomic_int n_read[2]; /* of rows-0, and of the others */

static int disk_read(void *self, uint64_t offset, void *to, size_t len, size_t *ret_len)
{
    const atomic_int *of = self;
    (void)offset;
    (void)atomic_fetch_add(&n_reading, 1);
    while (atomic_load(&is_dead)) {
        (void)sched_yield();
    }
    (void)atomic_fetch_sub(&n_reading, 1);
    memset(to, ' ', len);
    *ret_len = len;
    (void)atomic_fetch_add((atomic_int *)(uintptr_t)of, 1);
    return 0;
}

static int disk_stat(void *self, struct coxi_file_mark *ret)
{
    (void)self;
    *ret = (struct coxi_file_mark){.bytes = (uint64_t)WANTED * BLOCK, .changed_ns = 1};
    return 0;
}

static void disk_close(void *self)
{
    (void)self;
    (void)atomic_fetch_sub(&n_open, 1);
}

int __real_coxi_source_open(const char *name, struct coxi_source *ret);
int __wrap_coxi_source_open(const char *name, struct coxi_source *ret);

int __wrap_coxi_source_open(const char *name, struct coxi_source *ret)
{
    static const struct coxi_source_kind kind = {
        .read = disk_read, .stat = disk_stat, .close = disk_close};
    if (!atomic_load(&is_ours)) {
        return __real_coxi_source_open(name, ret);
    }
    (void)atomic_fetch_add(&n_open, 1);
    return coxi_source_init(&kind, &n_read[strstr(name, "rows-0") == NULL], name, ret);
}

static bool reads(void *arg)
{
    (void)arg;
    return atomic_load(&n_reading) > 0;
}

static bool has_closed(void *arg)
{
    (void)arg;
    return atomic_load(&n_open) == 0;
}

static bool has_read_most(void *arg)
{
    (void)arg;
    return atomic_load(&n_read[0]) >= MOST;
}

/* ---- the data set */

/* Opens a client whose task i is file i; returns a worker that has joined it. */
static struct caller *open_client(struct yard *yard)
{
    struct cox_dataset *dataset;
    struct cox_dataset_spec spec = rows_spec();
    spec.source = COX_SOURCE_CLIENT;
    spec.task_bytes = BLOCK;
    atomic_store(&is_ours, false);
    yard_open(yard, NULL);
    assert_code(0, cox_dataset_create(yard->crew.c, &spec, &dataset));
    atomic_store(&is_ours, true);
    struct caller *worker = fake_worker(yard, "anna", 7, 0);
    fake_worker_accept(worker, 0);
    return worker;
}

static struct coxi_message wants(uint64_t request, uint64_t place)
{
    struct coxi_message message = {.request = request, .kind = COXI_FILE_READ};
    message.file_read = (struct coxi_file_read){
        "rows", coxi_test_path(place == 0 ? "rows-0" : "rows-1"), place, 0, BLOCK};
    return message;
}

TEST(a_client_whose_disk_is_dead_is_closed_in_time)
{
    struct yard yard;
    struct caller *worker = open_client(&yard);
    const struct coxi_message message = wants(1, 0);
    atomic_store(&is_dead, true);
    caller_send(worker, &message, NULL, 0);
    coxi_test_until(reads, NULL, "the read has begun");
    yard_close(&yard);
    assert_int_equal(1, atomic_load(&n_reading));
    atomic_store(&is_dead, false);
    coxi_test_until(has_closed, NULL, "the thread has ended");
    caller_close(worker);
}

/* Connects as a worker that asks for WANTED blocks, and receives nothing at all. */
static struct coxi_link *deaf_worker(struct yard *yard)
{
    static const struct coxi_link_events none = {0};
    struct coxi_hello hello = fake_worker_hello("deaf", 1);
    struct coxi_link *link;
    struct coxi_key key;
    assert_code(0, coxi_key_open(NULL, NULL, &key));
    const struct coxi_guard guard = coxi_hello_guard(&key, &hello);
    assert_code(
        0, coxi_link_connect(cox_listen_address(yard->crew.c), &guard, 5000, &link));
    coxi_link_listen_to(link, &none, NULL);
    assert_code(0, coxi_hello_send(link, &hello));
    for (uint64_t i = 1; i <= WANTED; i++) {
        const struct coxi_message message = wants(i, 0);
        assert_code(0, coxi_message_send(link, &message, NULL, false));
    }
    return link;
}

TEST(a_worker_that_does_not_receive_keeps_no_other_waiting)
{
    struct yard yard;
    struct caller *worker = open_client(&yard);
    struct coxi_link *deaf = deaf_worker(&yard);
    coxi_test_until(has_read_most, NULL, "the other worker's bytes are under way");
    for (uint64_t i = 1; i <= 2; i++) {
        const struct coxi_message message = wants(i, 1);
        caller_send(worker, &message, NULL, 0);
        const struct coxi_message *answer = caller_expect(worker, COXI_FILE_BYTES);
        assert_int_equal(i, answer->request);
        assert_int_equal(0, answer->file_bytes.code);
    }
    /* the system's own buffers may have taken a few */
    assert_in_range(atomic_load(&n_read[0]), MOST, MOST + 4);
    assert_int_equal(2, atomic_load(&n_read[1]));
    coxi_link_close(deaf, COX_ECLOSED, "the test ends");
    coxi_link_unref(deaf);
    caller_close(worker);
    yard_close(&yard);
    assert_int_equal(0, atomic_load(&n_open));
}

/* Data sets whose files the client reads for the workers. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/coordinator/datasets/dataset.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

/* True if this process has a file open whose path ends in `name`. */
static bool is_open(const char *name)
{
    char path[PATH_MAX];
    char target[PATH_MAX];
    bool found = false;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return false;
    }
    for (struct dirent *e;
         (e = readdir(dir)) != NULL;) { // NOLINT(concurrency-mt-unsafe)
        assert_code(0, coxi_path(path, "/proc/self/fd/%s", e->d_name));
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        size_t len = strlen(target);
        found = found ||
                (len >= strlen(name) && strcmp(target + len - strlen(name), name) == 0);
    }
    (void)closedir(dir);
    return found;
}

static struct cox_dataset_spec client_spec(void)
{
    struct cox_dataset_spec spec = rows_spec();
    spec.source = COX_SOURCE_CLIENT;
    return spec;
}

TEST(the_client_reads_its_files_for_the_workers)
{
    struct rows rows;
    struct cox_dataset_spec spec = client_spec();
    spec.epochs = 3;
    spec.shuffle = 1;
    rows_open(&rows, 2, NULL, &spec);
    assert_false(is_open("/rows-0"));
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 3);
    assert_true(is_open("/rows-0") && is_open("/rows-2"));
    assert_int_equal(rows_progress(&rows).retries, 0);
    rows_close(&rows);
}

TEST(a_client_file_that_is_gone_fails_its_tasks)
{
    struct rows rows;
    struct cox_dataset_spec spec = client_spec();
    spec.failures_max = 1;
    rows_open(&rows, 1, NULL, &spec);
    assert_int_equal(0, unlink(coxi_test_path("rows-1")));
    assert_code(COX_ENOENT, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("rows-1");
    rows_close(&rows);
}

/* Asks as a worker for a file; asserts the code of the answer. */
static void ask(struct caller *worker, const struct coxi_file_read *wanted, int code)
{
    struct coxi_message message = {.request = 7, .kind = COXI_FILE_READ};
    message.file_read = *wanted;
    caller_send(worker, &message, NULL, 0);
    const struct coxi_message *answer = caller_expect(worker, COXI_FILE_BYTES);
    assert_int_equal(7, answer->request);
    assert_int_equal(code, answer->file_bytes.code);
}

TEST(a_worker_gets_files_of_the_data_set_only)
{
    struct yard yard;
    struct cox_dataset *dataset;
    struct cox_dataset_spec spec = client_spec();
    struct cox_dataset_spec own = rows_spec();
    const char *path = coxi_test_path("rows-0");
    size_t len = 0;
    own.name = "own";
    yard_open(&yard, NULL);
    assert_code(0, cox_dataset_create(yard.crew.c, &spec, &dataset));
    assert_code(0, cox_dataset_create(yard.crew.c, &own, &dataset));
    struct caller *worker = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(worker, 0);
    ask(worker, &(struct coxi_file_read){"rows", path, 0, 0, 100}, 0);
    const void *bytes = caller_payload(worker, &len);
    assert_int_equal(100, len);
    assert_memory_equal("0 0:1\n", bytes, 6);
    ask(worker, &(struct coxi_file_read){"rows", "/etc/passwd", 0, 0, 100},
        COX_EREFUSED);
    ask(worker, &(struct coxi_file_read){"rows", path, UINT64_MAX, 0, 100},
        COX_EREFUSED);
    ask(worker, &(struct coxi_file_read){"own", path, 0, 0, 100}, COX_EREFUSED);
    ask(worker, &(struct coxi_file_read){"none", path, 0, 0, 100}, COX_ENOTREADY);
    ask(worker, &(struct coxi_file_read){"rows", path, 0, 0, 1u << 30}, COX_EINVAL);
    ask(worker, &(struct coxi_file_read){"rows", path, 0, 1u << 30, 100}, 0);
    caller_close(worker);
    yard_close(&yard);
}

/* The data sets of a manifest, as JSON. */
#include "checkpoint/manifest_datasets.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "coxswain/types.h"
#include "tests/test.h"

static struct coxi_manifest_dataset sample(void)
{
    static uint8_t spec[] = {1, 2, 3};
    static char name[] = "clicks";
    static char failure[] = "clicks:0: no label";
    return (struct coxi_manifest_dataset){.name = name,
                                          .epochs = 2,
                                          .n_tasks = 10,
                                          .n_files = 1,
                                          .spec = spec,
                                          .spec_len = sizeof(spec),
                                          .next = 5,
                                          .done = 3,
                                          .failed = 1,
                                          .code = COX_ESTEP,
                                          .failure = failure};
}

/* Writes it `n` times, and reads that again. */
static bool is_read(struct coxi_manifest_dataset *dataset, size_t n,
                    struct coxi_manifest_datasets *ret)
{
    struct coxi_manifest_datasets datasets = {calloc(n, sizeof(*datasets.all)), n};
    assert_non_null(datasets.all);
    for (size_t i = 0; i < n; i++) {
        datasets.all[i] = *dataset;
    }
    json_t *json = coxi_manifest_datasets_json(&datasets);
    bool read = coxi_manifest_datasets_read(json, ret);
    json_decref(json);
    free(datasets.all);
    return read;
}

TEST(data_sets_are_read_as_they_were_written)
{
    struct coxi_manifest_dataset written = sample();
    struct coxi_manifest_datasets read = {0};
    assert_true(is_read(&written, COXI_DATASETS_MAX, &read));
    assert_int_equal(read.n, COXI_DATASETS_MAX);
    assert_string_equal(read.all[7].name, "clicks");
    assert_int_equal(read.all[7].code, COX_ESTEP);
    assert_int_equal(read.all[7].next, 5);
    coxi_manifest_datasets_fini(&read);
    assert_false(is_read(&written, COXI_DATASETS_MAX + 1, &read));
}

/* The next client returns that code as the error of a call. */
TEST(a_task_that_has_failed_without_a_code_is_refused)
{
    static const int wrong[] = {0, 1, -COX_ESTEP};
    struct coxi_manifest_dataset written = sample();
    struct coxi_manifest_datasets read = {0};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        written.code = wrong[i];
        assert_false(is_read(&written, 1, &read));
    }
    written.failed = 0;
    written.skipped = 1;
    written.code = 0;
    assert_false(is_read(&written, 1, &read));
    written.skipped = 0;
    assert_true(is_read(&written, 1, &read));
    coxi_manifest_datasets_fini(&read);
}

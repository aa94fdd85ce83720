/*
 * What is packed about data sets: tasks (in closures, replay logs and backlogs), workers'
 * counts, and specs (in manifests). The first byte says which.
 *
 * Check: what was unpacked is packed as the same bytes again and again.
 */
#include <stdlib.h>
#include <string.h>

#include "coordinator/datasets/spec.h"
#include "data/task.h"
#include "tests/fuzz/fuzz.h"

/* Unpacks, and packs what that has given. 0: it was well-formed. */
typedef int (*pack_again)(const void *bytes, size_t len, struct coxi_buffer *to);

static int task_again(const void *bytes, size_t len, struct coxi_buffer *to)
{
    struct coxi_task task;
    int r = coxi_task_unpack(bytes, len, &task);
    if (r == 0) {
        r = coxi_task_pack(&task, to);
        coxi_task_fini(&task);
    }
    return r;
}

static int counts_again(const void *bytes, size_t len, struct coxi_buffer *to)
{
    struct coxi_reader_counts counts;
    int r = coxi_counts_unpack(bytes, len, &counts);
    return r == 0 ? coxi_counts_pack(&counts, to) : r;
}

static int spec_again(const void *bytes, size_t len, struct coxi_buffer *to)
{
    struct coxi_spec spec;
    int r = coxi_spec_unpack(bytes, len, &spec);
    if (r == 0) {
        r = coxi_spec_pack(&spec, to);
        coxi_decoding_fini(&spec.decoding);
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pack_again kinds[] = {task_again, counts_again, spec_again};
    struct coxi_buffer first = {0};
    struct coxi_buffer second = {0};
    if (size == 0) {
        return 0;
    }
    pack_again again = kinds[data[0] % 3];
    if (again(data + 1, size - 1, &first) == 0 &&
        (again(first.data, first.len, &second) != 0 || first.len != second.len ||
         memcmp(first.data, second.data, first.len) != 0)) {
        fuzz_fail("what was packed is read as something else");
    }
    coxi_buffer_fini(&first);
    coxi_buffer_fini(&second);
    return 0;
}

/* The backlog of a checkpoint: closures, their arguments and inputs. */
#include "checkpoint/backlog.h"
#include "common/crc.h"
#include "tests/fuzz/fuzz.h"

/* Adds up everything to which the backlog refers. */
static uint64_t walk(const struct coxi_backlog *backlog)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < backlog->n; i++) {
        const struct coxi_backlog_head *head = &backlog->heads[i];
        for (uint64_t k = 0; k < head->args_len; k++) {
            sum += backlog->args[head->args_at + k];
        }
        if (head->function < backlog->n_functions) {
            sum += (uint64_t)*backlog->functions[head->function].name;
        }
    }
    for (size_t i = 0; i < backlog->n_inputs; i++) {
        sum += backlog->inputs[i].closure + (uint64_t)*backlog->inputs[i].name;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coxi_backlog_file *file = NULL;
    uint32_t crc = coxi_crc32(0, data, size);
    if (coxi_backlog_open(fuzz_file("backlog", data, size), size, crc, &file) == 0 &&
        walk(coxi_backlog_of(file)) == 1) {
        fuzz_fail("cannot be");
    }
    coxi_backlog_close(file);
    return 0;
}

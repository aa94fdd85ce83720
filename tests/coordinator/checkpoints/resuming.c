/* See resuming.h. */
#include "tests/coordinator/checkpoints/resuming.h"

#include "tests/test.h"

struct cox_options resuming_options(const char *dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    return options;
}

struct cox_progress resuming_progress(const struct crew *crew)
{
    struct cox_progress progress = COX_PROGRESS_INIT;
    assert_code(0, cox_progress(crew->c, &progress));
    return progress;
}

void resuming_schedule(struct crew *crew, const char *function, int64_t n,
                       uint64_t first, uint64_t count)
{
    struct cox_value arg = COX_SCALAR("n", COX_I64, &n);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (uint64_t i = 0; i < count; i++) {
        call.cursor = first + i;
        assert_code(0,
                    cox_schedule(crew->c, crew_function(crew, function), &call, NULL));
    }
}

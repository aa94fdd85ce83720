/* Futures: results that nobody wants. */

#include "tests/client/crew.h"
#include "tests/client/inside.h"
#include "tests/test.h"

static struct cox_future *schedule(struct crew *crew, const char *name)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, name), NULL, &future));
    return future;
}

/* A crew of one worker whose step is held. */
static void open_held(struct crew *crew, struct crew_hold *hold)
{
    crew_open(crew, 1, 1, "hold", NULL);
    crew_hold(hold, crew, "hold", true);
    crew_hold_wait(hold);
}

static void close_held(struct crew *crew, struct crew_hold *hold)
{
    cox_future_free(hold->future);
    crew_close(crew);
}

TEST(result_is_copied_only_for_a_future_that_is_held)
{
    const uint8_t result[8] = {1};
    struct crew crew;
    struct crew_hold hold;
    open_held(&crew, &hold);
    struct cox_future *kept = schedule(&crew, "nothing");
    struct cox_future *freed = schedule(&crew, "nothing");
    cox_future_free(freed);
    /* Both wait behind the held step, so the loop still has them. */
    assert_false(inside_keeps(crew.c, freed, result, sizeof(result)));
    assert_true(inside_keeps(crew.c, kept, result, sizeof(result)));
    crew_hold_release(&hold);
    assert_code(0, cox_join(crew.c, -1));
    cox_future_free(kept);
    close_held(&crew, &hold);
}

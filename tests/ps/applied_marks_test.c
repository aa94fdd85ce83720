/* The applied set, with steps that touch different ps. */
#include "common/rand.h"
#include "coxswain/types.h"
#include "ps/applied.h"
#include "tests/test.h"

static int begin_touching(struct coxi_applied *applied, uint64_t closure, size_t n)
{
    static const uint32_t touched[] = {3, 5, 8};
    struct coxi_commit commit = {.closure = closure,
                                 .attempt = 1,
                                 .last = true,
                                 .touched = touched,
                                 .n_touched = n};
    return coxi_applied_begin(applied, &commit);
}

/* Closures touch changing sets of ps; some fail, and the watermark follows. Above it
 * the set always lists exactly the segments that were applied. */
TEST(applied_tells_which_ps_were_touched_however_they_alternate)
{
    enum { CLOSURES = 5000, WINDOW = 40 };
    static size_t n_of[CLOSURES + 1]; /* 0: it failed */
    struct coxi_applied *applied;
    uint64_t random = 815;
    size_t n = 2;
    assert_code(0, coxi_applied_new(&applied));
    for (uint64_t id = 1; id <= CLOSURES; id++) {
        n = coxi_rand(&random) % 16 == 0 ? 1 + coxi_rand(&random) % 3 : n;
        bool fails = coxi_rand(&random) % 5 == 0;
        assert_code(0, begin_touching(applied, id, n));
        coxi_applied_end(applied, id, fails ? COX_EINVAL : 0);
        n_of[id] = fails ? 0 : n;
        uint64_t first = id > WINDOW ? id - WINDOW : 1;
        uint64_t asked = first + coxi_rand(&random) % (id - first + 1);
        size_t there = n_of[asked];
        if (there != 0) {
            assert_code(COX_EEXIST, begin_touching(applied, asked, there));
            assert_code(COX_EDIVERGED, begin_touching(applied, asked, there % 3 + 1));
        }
        if (id > WINDOW && coxi_rand(&random) % 2 == 0) {
            coxi_applied_advance(applied, id - WINDOW - 1);
        }
    }
    coxi_applied_free(applied);
}

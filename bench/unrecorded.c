/*
 * ps/applied.h without an applied set, only for the benchmark's own ps (unrecorded/
 * coxswain-ps): it does not record which commits it has applied, so a commit that comes
 * twice counts twice. Case `train` compares exactly once with it.
 *
 * Linked before the ps's library, so that nothing of ps/applied.c is linked.
 */
#include "ps/applied.h"

struct coxi_applied {
    char nothing;
};

static struct coxi_applied none;

int coxi_applied_new(struct coxi_applied **ret)
{
    *ret = &none;
    return 0;
}

void coxi_applied_free(struct coxi_applied *applied)
{
    (void)applied;
}

int coxi_applied_check(const struct coxi_commit *commit)
{
    (void)commit;
    return 0;
}

int coxi_applied_begin(struct coxi_applied *applied, const struct coxi_commit *commit)
{
    (void)applied;
    (void)commit;
    return 0;
}

void coxi_applied_end(struct coxi_applied *applied, uint64_t closure, int failed)
{
    (void)applied;
    (void)closure;
    (void)failed;
}

int coxi_applied_ask(struct coxi_applied *applied, uint64_t closure)
{
    (void)applied;
    (void)closure;
    return 0;
}

int coxi_applied_void(struct coxi_applied *applied, uint64_t closure, uint32_t attempt,
                      struct coxi_buffer *segments, struct coxi_buffer *touched)
{
    (void)applied;
    (void)closure;
    (void)attempt;
    (void)segments;
    (void)touched;
    return 0;
}

int coxi_applied_advance(struct coxi_applied *applied, uint64_t watermark)
{
    (void)applied;
    (void)watermark;
    return 0;
}

int coxi_applied_list(struct coxi_applied *applied, struct coxi_applied_list *ret)
{
    (void)applied;
    *ret = (struct coxi_applied_list){0};
    return 0;
}

int coxi_applied_load(struct coxi_applied *applied,
                      const struct coxi_applied_list *list)
{
    (void)applied;
    (void)list;
    return 0;
}

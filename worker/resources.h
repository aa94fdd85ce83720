/*
 * The resources of a run on this worker. A slot makes each of them once. They are kept
 * for steps that ask for them by name, and released when nobody needs them any more.
 *
 *   WAITING -> MAKING -> MADE | FAILED     in order of arrival, one at a time
 *   WAITING -> FAILED                      the client says not to make it
 *
 * A closure finds a resource as of its own id, because it may run again after resources
 * have come and gone. Among the resources of the name that are not hidden from it, it
 * finds the newest that existed when it was scheduled (`position`), else the oldest.
 * When the client releases a resource while older closures may still run, the resource
 * is hidden from newer closures (`until`).
 *
 * A resource that is dropped is not found any more. It is released by its last user (a
 * step that has its value, or the slot that makes it), or, without users, by the next
 * slot that calls coxi_resources_tend. So only slots run a module's release functions,
 * and with one slot no code of a module runs beside a step. Only resources that are
 * left when the worker ends are released by its main thread.
 *
 * Threads: any, except as noted below.
 */
#ifndef COXI_WORKER_RESOURCES_H
#define COXI_WORKER_RESOURCES_H

#include <stdbool.h>

#include "common/buffer.h"
#include "common/sync.h"
#include "net/message.h"

enum {
    COXI_RESOURCES_MAX = 1024, /* of a run, hidden ones too, dropped ones not */
    COXI_RESOURCE_TEXT_MAX = 512,
};

enum coxi_kept_state {
    COXI_KEPT_WAITING,
    COXI_KEPT_MAKING,
    COXI_KEPT_MADE,
    COXI_KEPT_FAILED,
};

/* A resource, made or to be made. */
struct coxi_kept {
    struct coxi_kept *next;
    enum coxi_kept_state state;
    bool dropped;
    uint32_t users;
    /* of the step that makes it; closure: 0, attempt: the resource's id */
    struct coxi_closure_head head;
    /* the id that the next closure had when the resource was created */
    uint64_t position;
    /* hidden from closures with this id or a higher one; 0: from none */
    uint64_t until;
    /* layouts that the run had received when the resource came: a ps that was replaced
     * since then refuses what the making step asks of it */
    uint64_t layouts;
    struct coxi_buffer args;
    char *name;
    bool kept; /* `value` and `release` are set */
    /* set while it is made, then fixed; so are all fields below */
    void *value;
    void (*release)(void *value); /* or NULL */
    int code;                     /* why it could not be made, or 0 */
    char text[COXI_RESOURCE_TEXT_MAX];
};

struct coxi_resources {
    struct coxi_mutex lock; /* leaf */
    struct coxi_kept *first COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock); /* resources that are not dropped */
    bool making COXI_GUARDED_BY(lock);
    bool
        closed COXI_GUARDED_BY(lock); /* the client is gone: nothing is made any more */
};

void coxi_resources_init(struct coxi_resources *resources);

/* Releases and frees the resources that are left. Nobody may use one any more. */
void coxi_resources_fini(struct coxi_resources *resources);

/*
 * Adds a resource that the client wants made, after `layouts` layouts. *ret_waits: true
 * if a slot must make it (coxi_resources_tend); false if it is settled, because the
 * client says not to make it, and must be answered. COX_EPROTO: malformed, or more than
 * COXI_RESOURCES_MAX. COX_ENOMEM, COX_ECLOSED.
 */
int coxi_resources_add(struct coxi_resources *resources,
                       const struct coxi_resource *wanted, const void *args, size_t len,
                       uint64_t layouts, bool *ret_waits);

/* Hides resource `id`, if it exists, from closures with ids from `until` on. */
void coxi_resources_hide(struct coxi_resources *resources, uint32_t id, uint64_t until);

/* _drop drops resource `id`, if it exists; _close drops all, and accepts no more. */
void coxi_resources_drop(struct coxi_resources *resources, uint32_t id);
void coxi_resources_close(struct coxi_resources *resources);

/* True if a slot should call coxi_resources_tend. */
bool coxi_resources_wait(struct coxi_resources *resources);

/* Releases dropped resources without users. Returns the next one to be made, or NULL. A
 * slot. */
struct coxi_kept *coxi_resources_tend(struct coxi_resources *resources);

/* True if the resource that is being made was dropped meanwhile. */
bool coxi_resources_dropped(struct coxi_resources *resources,
                            const struct coxi_kept *kept);

/* Ends the making of `kept`, with `code` and `text`. If it failed, releases what its
 * step has kept. The slot that made it. */
void coxi_resources_made(struct coxi_resources *resources, struct coxi_kept *kept,
                         int code, const char *text);

/*
 * Finds the resource called `name` as of closure `closure`; it is MADE or FAILED. Give
 * it back with coxi_resources_unuse. COX_ENOENT. Both are for the slot that uses the
 * resource, because its last user releases a dropped resource.
 */
int coxi_resources_use(struct coxi_resources *resources, const char *name,
                       uint64_t closure, struct coxi_kept **ret);
void coxi_resources_unuse(struct coxi_resources *resources, struct coxi_kept *kept);

#endif

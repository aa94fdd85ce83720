/*
 * Requests that take long, off the threads of the connections that brought them: these go on
 * with whatever comes next, and the answer is sent when it is there. One request is done at a
 * time, in the order of their coming.
 *
 * A client whose connection breaks asks again on the next one. What it asked for on the one
 * that broke is dropped if its turn has not come; a request that comes twice has to mean the
 * same again, for which its turn comes when the first has been done.
 */
#ifndef COXI_PS_DEFERRED_H
#define COXI_PS_DEFERRED_H

#include <stdbool.h>

#include "net/message.h"

struct coxi_deferred;

/* Does the request and answers it, on the thread of `ret`, which is called `name`. */
typedef void (*coxi_deferred_run)(void *arg, struct coxi_link *link,
                                  const struct coxi_message *request);

int coxi_deferred_new(const char *name, coxi_deferred_run run, void *arg,
                      struct coxi_deferred **ret);

/* Puts the request of a frame, which is copied, in line. COX_ELIMIT, COX_ENOMEM. Any
 * thread. */
int coxi_deferred_add(struct coxi_deferred *deferred, struct coxi_link *link,
                      const struct coxi_frame *frame);

/* True where a request is being done that nobody waits for any more: neither its connection
 * nor one with another in line is open. Any thread. */
bool coxi_deferred_is_orphaned(struct coxi_deferred *deferred);

/* Drops what is in line, and waits for what is being done. When nobody adds any more. Takes
 * NULL. */
void coxi_deferred_free(struct coxi_deferred *deferred);

#endif

/*
 * Runs long requests on a thread of their own, so that the connections' threads go on
 * with other messages; the answer is sent when it is ready. It runs one request at a
 * time, in the order of arrival.
 *
 * A client whose connection breaks sends the request again on the next one. The request
 * of the broken connection is dropped if it has not begun. So a request may run twice,
 * one after the other, and the second time must change nothing.
 */
#ifndef COXI_PS_DEFERRED_H
#define COXI_PS_DEFERRED_H

#include <stdbool.h>

#include "net/message.h"
#include "ps/payloads.h"

struct coxi_deferred;

/* Does the request and answers it. Runs on the thread called `name` of a
 * coxi_deferred. */
typedef void (*coxi_deferred_run)(void *arg, struct coxi_link *link,
                                  const struct coxi_message *request);

/* Queued requests count in `payloads` (borrowed). */
int coxi_deferred_new(const char *name, coxi_deferred_run run, void *arg,
                      struct coxi_payloads *payloads, struct coxi_deferred **ret);

/* Queues the request of a frame, which is copied. COX_ELIMIT, COX_ENOMEM. Any
 * thread. */
int coxi_deferred_add(struct coxi_deferred *deferred, struct coxi_link *link,
                      const struct coxi_frame *frame);

/* True if nobody waits for the running request any more: its connection is closed, and
 * so are those of queued requests. Any thread. */
bool coxi_deferred_is_orphaned(struct coxi_deferred *deferred);

/* Drops queued requests and waits for the running one. Nobody may add requests any
 * more. Takes NULL. */
void coxi_deferred_free(struct coxi_deferred *deferred);

#endif

/*
 * One parameter server as a worker or a client sees it: requests and their answers.
 *
 * Two connections: small requests go over control, long ones (in either direction) over
 * data, which is opened on first need. A connection that breaks is made again and what
 * was unanswered is sent again: every request may reach the ps twice, and means the
 * same then. Where the ps is on the same host, each goes on over memory that the two share
 * (net/link), unless one of them does not want that.
 *
 * Threads: any may submit. Each connection has a thread that connects and receives;
 * `done` and `on_batch` run there and must not wait for other requests.
 */
#ifndef COXI_NET_PS_CLIENT_H
#define COXI_NET_PS_CLIENT_H

#include "net/message.h"

struct coxi_psc;

struct coxi_psc_options {
    const char *address;      /* copied */
    uint32_t index;           /* of the ps, for messages */
    struct coxi_hello self;   /* how to greet */
    struct coxi_links *links; /* that watch the connections */
    int connect_ms;           /* one attempt to connect */
    int reconnect_ms;         /* without a connection for this long: lost; -1: never */
    int request_ms;           /* unanswered for this long: COX_ETIMEDOUT */
    bool same_incarnation;    /* a restarted ps is lost, too */
    bool local_path;          /* taken where the ps is on the same host */
    struct coxi_gather
        *gather;      /* receives there for the small requests' connection, with
                                   those of other ps (gather.h); NULL: its own thread does.
                                   Outlives the client */
    int unreached_ms; /* out of reach: said after so long, see on_reach; 0: never */
    /* The ps is lost, with the reason (coxi_psc_wait has the code); once, from one of its
     * threads. Optional. */
    void (*on_lost)(void *arg, struct coxi_psc *psc, const char *text);
    /*
     * With unreached_ms: the ps has been out of reach for so long (`text`: why), or is within
     * reach again (NULL). Between the two every request ends with COX_EPSLOST, and another
     * daemon at the address is no end, but dialled again. Called by coxi_psc_tick and
     * coxi_psc_follow.
     */
    void (*on_reach)(void *arg, struct coxi_psc *psc, const char *text);
    /* The answers of one read have been handed out. Optional. */
    void (*on_batch)(void *arg);
    void *arg;
};

struct coxi_psc_request {
    /* Set by the caller; all must stay until `done`. */
    const struct iovec *payload; /* what follows the message */
    size_t n_payload;
    void *into; /* where the answer's payload goes if it has into_len bytes, or NULL */
    size_t into_len;
    size_t answer_len; /* of the answer's payload, as far as known: chooses the
                          connection */
    int timeout_ms;    /* instead of the client's request_ms; 0: that */
    /*
     * The answer (code 0), valid during the call, or why there is none. Exactly once if
     * coxi_psc_submit returned 0.
     */
    void (*done)(struct coxi_psc_request *request, int code,
                 const struct coxi_message *answer, void *payload, size_t payload_len);

    /* The ps client's own. */
    struct coxi_psc_meta *meta;
    uint64_t id;
    uint64_t deadline_ms;
    enum coxi_channel channel;
    int ends; /* with this code, once its connection is closed; 0: it does not */
};

/* Starts connecting. */
int coxi_psc_open(const struct coxi_psc_options *options, struct coxi_psc **ret);

/*
 * Waits for the first connection. COX_ETIMEDOUT with the last reason; COX_EVERSION,
 * COX_ECONFLICT (another daemon is at the address), COX_EFENCED (another client has taken
 * it), COX_EPSLOST: for good.
 */
int coxi_psc_wait(struct coxi_psc *psc, int timeout_ms);

/*
 * Why waiting for the first connection is no use; 0: it may come. What coxi_psc_wait returns for
 * good, or COX_EADDRESS: the address is wrong, or its host's name could not be resolved at the
 * last attempt. Does not wait.
 */
int coxi_psc_check(struct coxi_psc *psc);

/* The ps has greeted on the small requests' connection, and that has not broken since. */
bool coxi_psc_is_up(struct coxi_psc *psc);

/* The incarnation of the ps that was met last, from the answer to a claim on the one that it
 * says (ps/store.h); 0 before the first. */
uint64_t coxi_psc_incarnation(struct coxi_psc *psc);
uint32_t coxi_psc_index(const struct coxi_psc *psc);
/* Lives until the client is closed, though the ps may move. */
const char *coxi_psc_address(const struct coxi_psc *psc);

/*
 * From now on the ps is the process `incarnation` (0: any) at `address`. Connections to
 * another one are closed, and made anew at once; so is one to another process at that
 * address, again and again. What has been asked of another incarnation ends with
 * COX_EPSLOST. One thread at a time. COX_ENOMEM: it is looked for where it was.
 */
int coxi_psc_follow(struct coxi_psc *psc, const char *address, uint64_t incarnation);

/*
 * Sends a request (its `request` number is chosen here); see the struct. `later`: with
 * the next flush. Blocks while too much is in line or unanswered. COX_EPSLOST or
 * COX_ECANCELLED: the ps is lost or this client is closing; `done` is not called then.
 */
int coxi_psc_submit(struct coxi_psc *psc, const struct coxi_message *message,
                    struct coxi_psc_request *request, bool later);

/* The same, but never blocks, however much is in line: for loops, which must see that a
 * ps is lost. The caller bounds how many it has under way. */
int coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                        struct coxi_psc_request *request, bool later);
void coxi_psc_flush(struct coxi_psc *psc);

/* A message that has no answer; lost with the connection. */
void coxi_psc_tell(struct coxi_psc *psc, const struct coxi_message *message);

/* Gives the ps up: every request ends with COX_EPSLOST, now and later. Any thread. */
void coxi_psc_give_up(struct coxi_psc *psc, const char *text);

/* Looks for requests past their deadline. Call now and then. */
void coxi_psc_tick(struct coxi_psc *psc);

/*
 * Ends every request, ends the threads and frees what they had: `code` and `text` are why,
 * unless it has failed before. Others may go on to call it until it is closed: whatever they ask fails.
 * Not on its threads.
 */
void coxi_psc_retire(struct coxi_psc *psc, int code, const char *text);

/* The same with COX_ECANCELLED, and frees the rest. Takes NULL. */
void coxi_psc_close(struct coxi_psc *psc);

#endif

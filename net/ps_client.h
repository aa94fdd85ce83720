/*
 * A ps client: a parameter server as a worker or a client sees it, with requests and
 * their answers.
 *
 * It has two connections. Small requests use the control connection; requests with long
 * payloads or long answers use the data connection, which is opened when it is first
 * needed. When a connection breaks, the ps client connects again and repeats the
 * unanswered requests. So every request may reach the ps twice, and the second time
 * must change nothing. If the ps is on the same host, each connection uses shared
 * memory (net/link), unless one side does not want that.
 *
 * Threads: any thread may submit. Each connection has a thread that connects and
 * receives; `done` and `on_batch` run on it, or, if the ps client has a gatherer, on
 * the gatherer's thread. They must not wait for other requests. On the gatherer's
 * thread a long callback delays the answers of all its ps.
 */
#ifndef COXI_NET_PS_CLIENT_H
#define COXI_NET_PS_CLIENT_H

#include "net/message.h"

struct coxi_psc;

struct coxi_psc_options {
    const char *address;      /* copied */
    uint32_t index;           /* of the ps; messages name it */
    struct coxi_hello self;   /* our greeting */
    struct coxi_links *links; /* the set of links that watches the connections */
    int connect_ms;           /* the time of one attempt to connect */
    /* after this long without a connection the ps counts as lost; -1: never */
    int reconnect_ms;
    int request_ms;             /* after this long without an answer: COX_ETIMEDOUT */
    const struct coxi_key *key; /* the run's; NULL: none. Outlives the ps client */
    bool same_incarnation;      /* a ps that was restarted counts as lost, too */
    bool local_path;            /* use shared memory if the ps is on the same host */
    /* Receives from the local path of the control connection, and from those of other
     * ps (gather.h); NULL: the connection's own thread receives. Outlives the ps
     * client. */
    struct coxi_gather *gather;
    int unreached_ms; /* on_reach is called after this long out of reach; 0: never */
    /* The ps is lost, with the reason (coxi_psc_wait has the code). Called once, on one
     * of the ps client's threads. Optional. */
    void (*on_lost)(void *arg, struct coxi_psc *psc, const char *text);
    /*
     * With unreached_ms: the ps has been out of reach for that long (`text`: why), or
     * is within reach again (`text` NULL). Between the two calls every request ends
     * with COX_EPSLOST; if another daemon is at the address, the ps client goes on
     * dialling. Called by coxi_psc_tick and coxi_psc_follow.
     */
    void (*on_reach)(void *arg, struct coxi_psc *psc, const char *text);
    /* All answers of one read have been handed out. Optional. */
    void (*on_batch)(void *arg);
    void *arg;
};

struct coxi_psc_request {
    /* Set by the caller, and unchanged until `done`. */
    const struct iovec *payload; /* follows the message */
    size_t n_payload;
    /* The memory that receives the answer's payload if the payload has into_len bytes;
     * may be NULL. */
    void *into;
    size_t into_len;
    /* The expected length of the answer's payload; it decides which connection is
     * used */
    size_t answer_len;
    int timeout_ms; /* 0: the ps client's request_ms */
    /*
     * Called with the answer (code 0), which is valid during the call, or with an
     * error. Exactly once if coxi_psc_submit returned 0.
     */
    void (*done)(struct coxi_psc_request *request, int code,
                 const struct coxi_message *answer, void *payload, size_t payload_len);

    /* Used by the ps client only. */
    struct coxi_psc_meta *meta;
    uint64_t id;
    uint64_t deadline_ms;
    enum coxi_channel channel;
    /* the code with which it ends when its connection closes; 0: it is sent again */
    int ends;
};

/* Starts connecting. */
int coxi_psc_open(const struct coxi_psc_options *options, struct coxi_psc **ret);

/*
 * Waits for the first connection. COX_ETIMEDOUT with the last reason. Final errors:
 * COX_EVERSION, COX_ECONFLICT (another daemon is at the address), COX_EFENCED (another
 * client has taken the ps), COX_EPSLOST.
 */
int coxi_psc_wait(struct coxi_psc *psc, int timeout_ms);

/*
 * 0 if the first connection may still come, else the reason why waiting for it is
 * useless: a final error of coxi_psc_wait, COX_EADDRESS (the address is wrong, or its
 * host's name could not be resolved at the last attempt), or COX_EDENIED (it has another
 * key). Does not wait. coxi_psc_check_last is for the end of a wait: one denial is
 * enough for it.
 */
int coxi_psc_check(struct coxi_psc *psc);
int coxi_psc_check_last(struct coxi_psc *psc);

/* True if the control connection is up: the ps has greeted on it, and it has not
 * broken. */
bool coxi_psc_is_up(struct coxi_psc *psc);

/* The incarnation that the ps named last, in a greeting or in the answer to a claim
 * (ps/store.h); 0: none yet. */
uint64_t coxi_psc_incarnation(struct coxi_psc *psc);
uint32_t coxi_psc_index(const struct coxi_psc *psc);
/* The text lives until coxi_psc_close, even if the ps moves. */
const char *coxi_psc_address(const struct coxi_psc *psc);

/*
 * From now on the ps is the process `incarnation` (0: any) at `address`. Connections to
 * another process are closed, and dialled again at once, until the right one answers.
 * Requests to another incarnation end with COX_EPSLOST. One thread at a time.
 * COX_ENOMEM: the old address stays.
 */
int coxi_psc_follow(struct coxi_psc *psc, const char *address, uint64_t incarnation);

/*
 * Sends a request; this function chooses its `request` number. `later`: it is sent with
 * the next flush. Blocks while too much is queued or unanswered. COX_EPSLOST or
 * COX_ECANCELLED: the ps is lost, or the ps client is closing; `done` is not called
 * then.
 */
int coxi_psc_submit(struct coxi_psc *psc, const struct coxi_message *message,
                    struct coxi_psc_request *request, bool later);

/* Like coxi_psc_submit, but never blocks, however much is queued. For the client's
 * loop, which must not wait because it is what declares a ps lost. The caller bounds
 * its requests. */
int coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                        struct coxi_psc_request *request, bool later);
void coxi_psc_flush(struct coxi_psc *psc);

/* Sends a message that has no answer. It is lost if the connection breaks. */
void coxi_psc_tell(struct coxi_psc *psc, const struct coxi_message *message);

/* Gives the ps up: every request, present or future, ends with COX_EPSLOST. Any
 * thread. */
void coxi_psc_give_up(struct coxi_psc *psc, const char *text);

/* Ends requests that are past their deadline. Call it regularly. */
void coxi_psc_tick(struct coxi_psc *psc);

/*
 * Ends every request and the ps client's threads, and frees their memory. Requests end
 * with `code` and `text`, unless the ps client has failed before. Other threads may use
 * the ps client until it is closed; their requests fail. Do not call this on the ps
 * client's own threads.
 */
void coxi_psc_retire(struct coxi_psc *psc, int code, const char *text);

/* Retires the ps client with COX_ECANCELLED, then frees it. Takes NULL. */
void coxi_psc_close(struct coxi_psc *psc);

#endif

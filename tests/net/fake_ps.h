/*
 * A simple fake ps for tests of its client: it answers a count with the request's own
 * number, a pull with bytes made from it, a commit with what it received, a claim as
 * configured. It and its clients use shared memory if FAKE_PS_LOCAL is in the
 * environment, with a gatherer if that is "gathered".
 */
#ifndef COXI_TESTS_COMMON_FAKE_PS_H
#define COXI_TESTS_COMMON_FAKE_PS_H

#include <pthread.h>

#include "common/sync.h"
#include "net/ps_client.h"
#include "net/server.h"

enum { FAKE_PS_INDEX = 3 };

struct fake_ps {
    struct coxi_server *server;
    char url[300];
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t changed;
    bool waiting; /* do not handle messages until fake_ps_go_on */
    bool mute;    /* do not answer messages */
    /* closes the connection at this message, counted from now on; 0: never */
    int breaks_at;
    int n_breaks;      /* how many more times it does so */
    int n_messages[2]; /* by channel */
    int n_hellos[2];
    int n_since;         /* messages since the last break */
    uint64_t commit_sum; /* of the last commit's payload */
    size_t commit_len;
    uint64_t watermark; /* the last one received */
};

/* Listens at `url`; NULL: at a new ipc address. */
void fake_ps_start(struct fake_ps *ps, const char *url, uint64_t incarnation);
void fake_ps_stop(struct fake_ps *ps);

void fake_ps_set(struct fake_ps *ps, bool waiting, bool mute);
void fake_ps_break(struct fake_ps *ps, int at, int times);

/* The test may read its counts when this returns. */
void fake_ps_look(struct fake_ps *ps);

/* Messages of both channels so far. */
int fake_ps_messages(struct fake_ps *ps);

/* Waits until there have been n messages. */
void fake_ps_wait_messages(struct fake_ps *ps, int n);

/* The byte at `i` of the payload that answers a pull of `variable`. */
uint8_t fake_ps_byte(uint64_t variable, size_t i);

/* The fake's answer to a commit with this payload. */
uint64_t fake_ps_sum(const void *bytes, size_t len);

/* ---- its client */

/* A client of the fake: its links, and the calls that it received. */
struct client {
    struct coxi_links *links;
    struct coxi_gather *gather; /* or NULL */
    struct coxi_psc *psc;
    struct coxi_mutex lock; /* guards the rest, and all `asked`; leaf */
    pthread_cond_t changed;
    int n_lost;
    char lost_text[256];
    int n_batches;
};

/* Options for `ps`, with deadlines that no test reaches. */
struct coxi_psc_options client_options(struct client *client, const char *url);
void client_open(struct client *client, const struct coxi_psc_options *options);

/* Opens with these options and waits for the connection. */
void client_open_to(struct client *client, const struct fake_ps *ps);
void client_close(struct client *client);

/* Ends the ps client, but not the client. */
void client_end_psc(struct client *client);

/* A request and its outcome. */
struct asked {
    struct coxi_psc_request request;
    struct client *client;
    struct iovec segment;
    int n_done; /* guarded by client->lock, like all fields below */
    int code;
    char text[256];
    enum coxi_message_kind kind;
    uint64_t number; /* of the count in the answer, or of the answered request */
    const void *payload;
    size_t payload_len;
};

void asked_init(struct asked *asked, struct client *client);

/* Submit a request; return the code. */
int ask_count(struct asked *asked);
int ask_pull(struct asked *asked, uint64_t variable, void *into, size_t len);
int ask_commit(struct asked *asked, const void *payload, size_t len);

/* Waits until the request is done; fails unless that happened once, with `code`. */
void asked_wait(struct asked *asked, int code);

int client_times_lost(struct client *client);

#endif

/* A ps in this process at a real address, and its peers. */
#ifndef COXI_TESTS_PS_HARBOUR_H
#define COXI_TESTS_PS_HARBOUR_H

#include "net/ps_round.h"
#include "ps/service.h"

struct harbour {
    struct coxi_ps *ps;
    struct coxi_links *links;
};

void harbour_open(struct harbour *harbour, const char *listen);

/* The same with all options; listens at harbour_ipc(), with the usual timeout. */
void harbour_open_with(struct harbour *harbour, struct coxi_ps_options options);

/* The same for a ps with a root of its files. */
void harbour_open_rooted(struct harbour *harbour, const char *listen, const char *root);
void harbour_close(struct harbour *harbour);

/* The file of shard ps-0-of-1 in checkpoint `name` ("ckpt-1.tmp") in the directory
 * `in`, whose directory this makes; valid until this was called seven more times. */
char *harbour_shard(const char *in, const char *name);

/* An ipc address in the test's directory. */
const char *harbour_ipc(void);

struct coxi_psc *harbour_dial(struct harbour *harbour, enum coxi_role role,
                              const struct coxi_session *session);

/* The same with a key, which outlives the ps client; waits until the ps has greeted. */
struct coxi_psc *harbour_dial_with(struct harbour *harbour, const struct coxi_key *key,
                                   enum coxi_role role,
                                   const struct coxi_session *session);

/* Each of these sends a request, waits for the answer and returns its code. */
int harbour_ask(struct coxi_psc *psc, const struct coxi_message *message,
                enum coxi_message_kind expect);
int harbour_claim(struct coxi_psc *psc, const struct coxi_session *session);

/* A variable of `n` F32, created by closure 1. */
int harbour_create(struct coxi_psc *psc, const struct coxi_session *session,
                   uint64_t n);
int harbour_commit(struct coxi_psc *psc, const struct coxi_session *session,
                   uint64_t incarnation, uint64_t closure, const float *values,
                   size_t n);
int harbour_pull(struct coxi_psc *psc, const struct coxi_session *session,
                 uint64_t incarnation, float *ret, size_t n);

#endif

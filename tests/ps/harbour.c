/* See harbour.h. */
#include "tests/ps/harbour.h"

#include <stdio.h>

#include "common/file.h"
#include "tests/test.h"

void harbour_open(struct harbour *harbour, const char *listen)
{
    harbour_open_rooted(harbour, listen, NULL);
}

void harbour_open_rooted(struct harbour *harbour, const char *listen, const char *root)
{
    harbour_open_with(
        harbour, (struct coxi_ps_options){.listen = listen, .checkpoint_root = root});
}

void harbour_open_with(struct harbour *harbour, struct coxi_ps_options options)
{
    options.listen = options.listen != NULL ? options.listen : harbour_ipc();
    options.peer_timeout_ms = 10000;
    assert_code(0, coxi_links_new(10000, &harbour->links));
    assert_code(0, coxi_ps_open(&options, &harbour->ps));
}

char *harbour_shard(const char *in, const char *name)
{
    static char paths[8][PATH_MAX];
    static size_t n;
    char dir[PATH_MAX];
    char *path = paths[n++ % 8];
    assert_code(0, coxi_path(dir, "%s/%s", in, name));
    assert_code(0, coxi_directory_make(dir));
    assert_code(0, coxi_path(path, "%s/ps-0-of-1.safetensors", dir));
    return path;
}

const char *harbour_ipc(void)
{
    static char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("ps"));
    return listen;
}

void harbour_close(struct harbour *harbour)
{
    coxi_ps_close(harbour->ps);
    coxi_links_free(harbour->links);
}

struct coxi_psc *harbour_dial(struct harbour *harbour, enum coxi_role role,
                              const struct coxi_session *session)
{
    return harbour_dial_with(harbour, NULL, role, session);
}

struct coxi_psc *harbour_dial_with(struct harbour *harbour, const struct coxi_key *key,
                                   enum coxi_role role,
                                   const struct coxi_session *session)
{
    struct coxi_psc *psc;
    struct coxi_psc_options options = {
        .address = coxi_ps_url(harbour->ps),
        .self = {.role = role, .incarnation = 5, .session = *session},
        .links = harbour->links,
        .key = key,
        .connect_ms = 5000,
        .reconnect_ms = -1,
        .request_ms = 8000,
    };
    assert_code(0, coxi_psc_open(&options, &psc));
    assert_code(0, coxi_psc_wait(psc, 8000));
    return psc;
}

int harbour_ask(struct coxi_psc *psc, const struct coxi_message *message,
                enum coxi_message_kind expect)
{
    struct coxi_psc_request request = {0};
    return coxi_psc_call(psc, message, &request, expect, NULL, NULL);
}

int harbour_claim(struct coxi_psc *psc, const struct coxi_session *session)
{
    struct coxi_message message = {.kind = COXI_CLAIM, .claim = {.session = *session}};
    return harbour_ask(psc, &message, COXI_STATUS);
}

int harbour_create(struct coxi_psc *psc, const struct coxi_session *session, uint64_t n)
{
    struct coxi_shard shard = {.count = n};
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.session = *session;
    message.create.closure = 1;
    message.create.incarnation = coxi_psc_incarnation(psc);
    message.create.variable = (struct coxi_variable){.name = "v",
                                                     .dtype = COX_F32,
                                                     .rank = 1,
                                                     .shape = {n},
                                                     .shards = &shard,
                                                     .n_shards = 1};
    return harbour_ask(psc, &message, COXI_STATUS);
}

int harbour_commit(struct coxi_psc *psc, const struct coxi_session *session,
                   uint64_t incarnation, uint64_t closure, const float *values,
                   size_t n)
{
    const struct coxi_update update = {0, COXI_OP_ADD, 0, n};
    const struct iovec payload = {(void *)(uintptr_t)values, n * sizeof(*values)};
    struct coxi_psc_request request = {.payload = &payload, .n_payload = 1};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){.session = *session,
                                          .incarnation = incarnation,
                                          .closure = closure,
                                          .updates = &update,
                                          .n_updates = 1};
    return coxi_psc_call(psc, &message, &request, COXI_COMMITTED, NULL, NULL);
}

int harbour_pull(struct coxi_psc *psc, const struct coxi_session *session,
                 uint64_t incarnation, float *ret, size_t n)
{
    const struct coxi_pull_item item = {0, 0, n, 0};
    struct coxi_psc_request request = {
        .into = ret, .into_len = n * sizeof(*ret), .answer_len = n * sizeof(*ret)};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){*session, incarnation, &item, 1, false, 0, 0};
    return coxi_psc_call(psc, &message, &request, COXI_PULLED, NULL, NULL);
}

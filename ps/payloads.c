/* See payloads.h. */
#include "ps/payloads.h"

#include "common/error.h"
#include "ps/store.h"

enum { LEAST_BYTES = 256 << 20, READERS_PART = 4 };

void coxi_payloads_budget(struct coxi_memory *memory, uint64_t memory_max)
{
    coxi_memory_init(memory);
    if (memory_max == 0) {
        memory->max_bytes = memory->host_bytes;
    } else {
        memory->max_bytes = memory_max < LEAST_BYTES ? LEAST_BYTES : memory_max;
    }
}

void coxi_payloads_init(struct coxi_payloads *payloads, struct coxi_store *store,
                        uint64_t memory_max)
{
    payloads->store = store;
    payloads->is_shared = false;
    coxi_payloads_budget(&payloads->memory, memory_max);
    coxi_memory_init(&payloads->readers);
    payloads->readers.max_bytes = payloads->memory.max_bytes / READERS_PART;
    payloads->readers.whole = &payloads->memory;
}

static struct coxi_memory *memory_of(struct coxi_payloads *payloads,
                                     const struct coxi_peer *peer)
{
    return peer->hello.role == COXI_ROLE_TOOL ? &payloads->readers : &payloads->memory;
}

/* COX_ENOMEM if the run has more bytes than it leaves free for other runs. */
static int check_share(const struct coxi_payloads *payloads)
{
    const struct coxi_memory *whole = payloads->memory.whole;
    if (!payloads->is_shared || whole->max_bytes == 0) {
        return 0;
    }
    uint64_t used = atomic_load(&whole->used_bytes);
    uint64_t left = used < whole->max_bytes ? whole->max_bytes - used : 0;
    return atomic_load(&payloads->memory.used_bytes) <= left
               ? 0
               : coxi_error(COX_ENOMEM, "a run leaves memory for payloads to others");
}

void coxi_payloads_lend_token(struct coxi_store *store, const struct coxi_peer *peer,
                              struct coxi_session *session)
{
    struct coxi_session owner;
    if (peer->hello.role == COXI_ROLE_TOOL && coxi_store_owner(store, &owner) &&
        session->run == owner.run && session->generation == owner.generation) {
        session->token = owner.token;
    }
}

/* COX_EPROTO if a message of this kind has no payload; otherwise the error with which
 * the store would refuse it, or 0. */
static int check(const struct coxi_payloads *payloads, const struct coxi_peer *peer,
                 const struct coxi_message *m)
{
    struct coxi_session session;
    uint64_t incarnation;
    if (m->kind == COXI_PULL) {
        session = m->pull.session;
        incarnation = m->pull.incarnation;
        coxi_payloads_lend_token(payloads->store, peer, &session);
    } else if (m->kind == COXI_COMMIT) {
        session = m->commit.session;
        incarnation = m->commit.incarnation;
    } else if (m->kind == COXI_LOAD) {
        session = m->load.session;
        incarnation = m->load.incarnation;
    } else if (m->kind == COXI_EXCHANGE && m->exchange.restores) {
        return coxi_store_belongs(payloads->store, &m->exchange.session,
                                  m->exchange.incarnation);
    } else {
        return coxi_error(COX_EPROTO, "a message of kind %d has no payload",
                          (int)m->kind);
    }
    return coxi_store_serves(payloads->store, &session, incarnation);
}

static int take(struct coxi_payloads *payloads, struct coxi_memory *memory,
                uint64_t more, const char *whom)
{
    int r = coxi_memory_take(memory, more, whom);
    /* Only now, so that two that take at once see each other's bytes. */
    if (r == 0 && (r = check_share(payloads)) != 0) {
        coxi_memory_give(memory, more);
    }
    return r;
}

int coxi_payloads_take(struct coxi_payloads *payloads, struct coxi_peer *peer,
                       const struct coxi_message *message, size_t len)
{
    int r = check(payloads, peer, message);
    if (r == 0 && message->kind == COXI_EXCHANGE && len > COXI_CARRY_BLOCK) {
        r = coxi_error(COX_ELIMIT, "nobody has asked for a piece of %zu bytes", len);
    }
    if (r == 0 && len > peer->payload_bytes) {
        r = take(payloads, memory_of(payloads, peer), len - peer->payload_bytes,
                 "a payload");
        peer->payload_bytes = r == 0 ? len : peer->payload_bytes;
    }
    return r;
}

int coxi_payloads_resize(struct coxi_payloads *payloads, const struct coxi_peer *peer,
                         size_t from, size_t to)
{
    struct coxi_memory *memory = memory_of(payloads, peer);
    if (to <= from) {
        coxi_memory_give(memory, from - to);
        return 0;
    }
    return take(payloads, memory, to - from, "a connection");
}

int coxi_payloads_aside(struct coxi_payloads *payloads, struct coxi_peer *peer,
                        size_t bytes)
{
    peer->aside.len = 0;
    return coxi_memory_reserve(memory_of(payloads, peer), &peer->aside, bytes,
                               "a request");
}

int coxi_payloads_hold(struct coxi_payloads *payloads, size_t bytes)
{
    return take(payloads, &payloads->memory, bytes, "a request that takes long");
}

void coxi_payloads_drop(struct coxi_payloads *payloads, size_t bytes)
{
    coxi_memory_give(&payloads->memory, bytes);
}

void coxi_payloads_give(struct coxi_payloads *payloads, struct coxi_peer *peer)
{
    coxi_memory_give(memory_of(payloads, peer), peer->payload_bytes);
    peer->payload_bytes = 0;
    coxi_memory_free(memory_of(payloads, peer), &peer->aside);
}

int coxi_payloads_refuse(struct coxi_payloads *payloads, const struct coxi_peer *peer,
                         const struct coxi_message *message)
{
    bool is_pull = message->kind == COXI_PULL;
    struct coxi_message answer = {.request = message->request, .kind = COXI_STATUS};
    int r = check(payloads, peer, message);
    if (r == COX_EPROTO) {
        return r;
    }
    if (r == 0) {
        r = coxi_error(COX_ENOMEM,
                       "the payloads of all connections would need more than the %llu "
                       "bytes that a ps has for them (--memory-max)",
                       (unsigned long long)payloads->memory.max_bytes);
    }
    if (message->kind != COXI_LOAD && message->kind != COXI_EXCHANGE) {
        answer.kind = is_pull ? COXI_PULLED : COXI_COMMITTED;
    }
    answer.status.code = r;
    answer.status.message = coxi_error_text();
    return coxi_message_send(peer->link, &answer, NULL, false);
}

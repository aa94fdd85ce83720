/* See ends.h. Nothing here asserts but on the test's own thread. */
#include "tests/net/ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/gather.h"
#include "net/rings.h"
#include "tests/test.h"

enum { WAIT_MS = 8000, ALLOWED = 16 * 1024 * 1024 };

/* Waits on `changed` once; false: the deadline has passed. */
static bool wait_change(pthread_cond_t *changed, struct coxi_mutex *lock,
                        const struct timespec *until)
{
    return coxi_wait_until(changed, lock, until);
}

static uint8_t *copy_of(const void *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        abort();
    }
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

/* ---- one end */

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)link;
    struct end *end = arg;
    coxi_lock(&end->lock);
    void (*handle)(struct end *, const struct coxi_frame *) = end->on_frame;
    coxi_unlock(&end->lock);
    if (handle != NULL) {
        handle(end, frame);
    }
    coxi_lock(&end->lock);
    end->frames = realloc(end->frames, (end->n_frames + 1) * sizeof(*end->frames));
    if (end->frames == NULL) {
        abort();
    }
    end->frames[end->n_frames++] =
        (struct end_frame){copy_of(frame->meta, frame->meta_len), frame->meta_len,
                           copy_of(frame->payload, frame->payload_len),
                           frame->payload_len, frame->payload};
    (void)pthread_cond_broadcast(&end->changed);
    coxi_unlock(&end->lock);
    return end->on_frame_returns;
}

static void *on_payload(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame)
{
    (void)link;
    struct end *end = arg;
    coxi_lock(&end->lock);
    end->n_on_payload++;
    coxi_unlock(&end->lock);
    return frame->payload_len == end->into_len ? end->into : NULL;
}

static void on_batch(void *arg, struct coxi_link *link)
{
    (void)link;
    struct end *end = arg;
    coxi_lock(&end->lock);
    end->n_batches += end->n_frames > end->batch_end;
    end->batch_end = end->n_frames;
    (void)pthread_cond_broadcast(&end->changed);
    coxi_unlock(&end->lock);
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    struct end *end = arg;
    if (end->on_close != NULL) {
        end->on_close(end);
    }
    coxi_lock(&end->lock);
    end->n_closed++;
    end->close_code = code;
    (void)snprintf(end->close_text, sizeof(end->close_text), "%s", text);
    (void)pthread_cond_broadcast(&end->changed);
    coxi_unlock(&end->lock);
}

static const struct coxi_link_events events = {.on_frame = on_frame,
                                               .on_payload = on_payload,
                                               .on_batch = on_batch,
                                               .on_close = on_close};

static void *run(void *arg)
{
    struct end *end = arg;
    (void)coxi_link_run(end->link);
    return NULL;
}

void end_init(struct end *end)
{
    *end = (struct end){0};
    coxi_mutex_init(&end->lock);
    coxi_cond_init(&end->changed);
}

void end_start(struct end *end, struct coxi_link *link, enum end_mode mode)
{
    end->link = link;
    end->threaded = mode == END_RUN;
    coxi_link_listen_to(link, &events, end);
    if (end->threaded) {
        assert_code(0, coxi_thread_start(&end->thread, "test:end", run, end));
    } else {
        coxi_link_start(link);
    }
}

void end_handle(struct end *end,
                void (*handle)(struct end *end, const struct coxi_frame *frame),
                void *arg)
{
    coxi_lock(&end->lock);
    end->on_frame = handle;
    end->arg = arg;
    coxi_unlock(&end->lock);
}

void end_wait_frames(struct end *end, size_t n)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&end->lock);
    while (end->n_frames < n && wait_change(&end->changed, &end->lock, &until)) {
    }
    size_t have = end->n_frames;
    coxi_unlock(&end->lock);
    if (have < n) {
        fail_msg("%zu of %zu frames came (closed %d times, code %d: %s)", have, n,
                 end->n_closed, end->close_code, end->close_text);
    }
}

void end_wait_closed(struct end *end, int code)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&end->lock);
    while (end->n_closed == 0 && wait_change(&end->changed, &end->lock, &until)) {
    }
    int n_closed = end->n_closed;
    int got = end->close_code;
    coxi_unlock(&end->lock);
    assert_int_equal(1, n_closed);
    if (got != code) {
        fail_msg("closed with %d (%s), not %d", got, end->close_text, code);
    }
}

bool end_is_closed(struct end *end)
{
    coxi_lock(&end->lock);
    bool closed = end->n_closed > 0;
    coxi_unlock(&end->lock);
    return closed;
}

void end_fini(struct end *end)
{
    if (end->link != NULL) {
        struct timespec until = coxi_deadline(WAIT_MS);
        coxi_link_close(end->link, COX_ECANCELLED, "end of the test");
        coxi_lock(&end->lock);
        while (end->n_closed == 0 && wait_change(&end->changed, &end->lock, &until)) {
        }
        coxi_unlock(&end->lock);
        assert_int_equal(1, end->n_closed);
        if (end->threaded) {
            assert_int_equal(0, pthread_join(end->thread, NULL));
        }
        coxi_link_unref(end->link);
        assert_int_equal(1, end->n_closed);
    }
    for (size_t i = 0; i < end->n_frames; i++) {
        free(end->frames[i].meta);
        free(end->frames[i].payload);
    }
    free(end->frames);
    (void)pthread_cond_destroy(&end->changed);
    coxi_mutex_fini(&end->lock);
}

int end_send(struct end *end, const void *meta, size_t meta_len, const void *payload,
             size_t len)
{
    struct iovec segment = {(void *)(uintptr_t)payload, len};
    struct coxi_outgoing frame = {.meta = meta,
                                  .meta_len = meta_len,
                                  .payload = &segment,
                                  .n_payload = len > 0 ? 1 : 0};
    return coxi_link_send(end->link, &frame, false);
}

/* ---- listeners and pairs */

static void accepted(void *arg, struct coxi_link *link)
{
    struct door *door = arg;
    coxi_lock(&door->lock);
    if (door->n_accepted == sizeof(door->links) / sizeof(door->links[0])) {
        abort();
    }
    door->links[door->n_accepted++] = link;
    (void)pthread_cond_broadcast(&door->changed);
    coxi_unlock(&door->lock);
}

void door_open(struct door *door, bool tcp)
{
    static int n_opened;
    char path[300];
    (void)snprintf(path, sizeof(path), "ipc://%s/door-%d", coxi_test_dir(), n_opened++);
    door_open_guarded(door, tcp ? "tcp://127.0.0.1:0" : path, NULL);
}

void door_open_guarded(struct door *door, const char *url,
                       const struct coxi_guard *guard)
{
    *door = (struct door){0};
    coxi_mutex_init(&door->lock);
    coxi_cond_init(&door->changed);
    assert_code(0, coxi_listener_open(url, guard, accepted, door, &door->listener));
    coxi_listener_start(door->listener);
    (void)snprintf(door->url, sizeof(door->url), "%s",
                   coxi_listener_url(door->listener));
}

struct coxi_link *door_wait(struct door *door)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    struct coxi_link *link = NULL;
    coxi_lock(&door->lock);
    while (door->n_accepted == door->n_taken &&
           wait_change(&door->changed, &door->lock, &until)) {
    }
    if (door->n_accepted > door->n_taken) {
        link = door->links[door->n_taken++];
    }
    coxi_unlock(&door->lock);
    assert_non_null(link);
    return link;
}

void door_close(struct door *door)
{
    coxi_listener_close(door->listener);
    for (size_t i = door->n_taken; i < door->n_accepted; i++) {
        coxi_link_unref(door->links[i]);
    }
    (void)pthread_cond_destroy(&door->changed);
    coxi_mutex_fini(&door->lock);
}

static void connect_through(struct pair *pair, const struct coxi_guard *guard,
                            struct coxi_link **ret_near, struct coxi_link **ret_far)
{
    assert_code(0, coxi_link_connect(pair->door.url, guard, WAIT_MS, ret_near));
    *ret_far = door_wait(&pair->door);
    coxi_link_allow(*ret_near, ALLOWED, ALLOWED);
    coxi_link_allow(*ret_far, ALLOWED, ALLOWED);
    end_init(&pair->near);
    end_init(&pair->far);
}

static void connect_pair(struct pair *pair, bool tcp, struct coxi_link **ret_near,
                         struct coxi_link **ret_far)
{
    door_open(&pair->door, tcp);
    connect_through(pair, NULL, ret_near, ret_far);
}

void pair_open(struct pair *pair, bool tcp, enum end_mode mode)
{
    struct coxi_link *near, *far;
    connect_pair(pair, tcp, &near, &far);
    end_start(&pair->near, near, mode);
    end_start(&pair->far, far, mode);
}

void pair_open_gathered(struct pair *pair, struct coxi_gather *gather)
{
    struct coxi_link *near, *far;
    const char *name;
    connect_pair(pair, true, &near, &far);
    assert_code(0, coxi_link_offer(near, gather, COXI_RING_MIN, &name));
    assert_code(0, coxi_link_accept(far, name));
    coxi_link_go_local(near);
    coxi_link_go_local(far);
    end_start(&pair->near, near, END_RUN);
    end_start(&pair->far, far, END_RUN);
}

void pair_open_sealed(struct pair *pair, enum coxi_seal seal, enum end_mode mode)
{
    struct coxi_link *near, *far;
    const struct coxi_guard ps = {.key = {.kind = COXI_KEY_RUN, .secret = {1}},
                                  .self = {.role = COXI_ROLE_PS, .index = 9},
                                  .seal = seal,
                                  .rekey_records = 3};
    struct coxi_guard worker = ps;
    worker.self = (struct coxi_party){.role = COXI_ROLE_WORKER, .index = 3, .run = 1};
    door_open_guarded(&pair->door, "tcp://127.0.0.1:0", &ps);
    connect_through(pair, &worker, &near, &far);
    end_start(&pair->near, near, mode);
    end_start(&pair->far, far, mode);
}

void pair_open_local(struct pair *pair)
{
    pair_open_gathered(pair, NULL);
}

void pair_close(struct pair *pair)
{
    end_fini(&pair->near);
    end_fini(&pair->far);
    door_close(&pair->door);
}

void for_each_link(void (*check)(struct pair *pair))
{
    struct pair local;
    pair_open_local(&local);
    check(&local);
    pair_close(&local);
    struct coxi_gather *gather;
    assert_code(0, coxi_gather_new(&gather));
    pair_open_gathered(&local, gather);
    check(&local);
    pair_close(&local);
    coxi_gather_free(gather);
    for (int i = 0; i < 4; i++) {
        struct pair pair;
        enum end_mode mode = i / 2 == 0 ? END_RUN : END_START;
        pair_open(&pair, i % 2 == 0, mode);
        check(&pair);
        pair_close(&pair);
        pair_open_sealed(&pair, i % 2 == 0 ? COXI_SEAL_FULL : COXI_SEAL_MAC, mode);
        check(&pair);
        pair_close(&pair);
    }
}

/* ---- plain sockets */

static int connect_to(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, connect(fd, address, len));
    return fd;
}

int raw_connect(const char *url)
{
    if (strncmp(url, "ipc://", 6) == 0) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", url + 6);
        return connect_to((struct sockaddr *)&un, sizeof(un));
    }
    struct sockaddr_in in = {.sin_family = AF_INET};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    return connect_to((struct sockaddr *)&in, sizeof(in));
}

static void wait_for(int fd, short what)
{
    struct pollfd pollfd = {.fd = fd, .events = what};
    int n;
    while ((n = poll(&pollfd, 1, WAIT_MS)) < 0 && errno == EINTR) {
    }
    if (n != 1) {
        fail_msg("a socket was not ready in %d ms", WAIT_MS);
    }
}

int raw_accept(int fd)
{
    wait_for(fd, POLLIN);
    int accepted_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted_fd >= 0);
    return accepted_fd;
}

void raw_send(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        wait_for(fd, POLLOUT);
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (n < 0) {
            return; /* the peer has closed: the test checks its answer */
        }
        at += n;
        len -= (size_t)n;
    }
}

void raw_read(int fd, void *bytes, size_t len)
{
    uint8_t *at = bytes;
    while (len > 0) {
        wait_for(fd, POLLIN);
        ssize_t n = recv(fd, at, len, MSG_DONTWAIT);
        if (n <= 0) {
            fail_msg("the peer closed while %zu bytes were to come", len);
        }
        at += n;
        len -= (size_t)n;
    }
}

size_t raw_wait_closed(int fd)
{
    uint8_t bytes[4096];
    size_t sum = 0;
    ssize_t n;
    do {
        wait_for(fd, POLLIN);
        n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        sum += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    return sum;
}

struct raw_prefix raw_prefix(uint32_t meta_len, uint64_t payload_len)
{
    struct raw_prefix prefix = {0, meta_len, payload_len};
    memcpy(&prefix.magic, "1COX", 4);
    return prefix;
}

void raw_send_frame(int fd, const void *meta, size_t len)
{
    struct raw_prefix prefix = raw_prefix((uint32_t)len, 0);
    static const uint8_t zeros[8];
    raw_send(fd, &prefix, sizeof(prefix));
    raw_send(fd, meta, len);
    raw_send(fd, zeros, coxi_align(len, 8) - len);
}

void *raw_read_frame(int fd, size_t *ret_len)
{
    struct raw_prefix prefix;
    do {
        raw_read(fd, &prefix, sizeof(prefix));
        assert_memory_equal("1COX", &prefix.magic, 4);
        assert_int_equal(0, prefix.payload_len);
    } while (prefix.meta_len == 0);
    void *meta = malloc(coxi_align(prefix.meta_len, 8));
    assert_non_null(meta);
    raw_read(fd, meta, coxi_align(prefix.meta_len, 8));
    *ret_len = prefix.meta_len;
    return meta;
}

void half_open(struct half *half, bool tcp, enum end_mode mode)
{
    door_open(&half->door, tcp);
    half->fd = raw_connect(half->door.url);
    end_init(&half->end);
    end_start(&half->end, door_wait(&half->door), mode);
}

void half_close(struct half *half)
{
    end_fini(&half->end);
    if (half->fd >= 0) {
        (void)close(half->fd);
    }
    door_close(&half->door);
}

void for_each_half(void (*check)(struct half *half))
{
    for (int i = 0; i < 4; i++) {
        struct half half;
        half_open(&half, i % 2 == 0, i / 2 == 0 ? END_RUN : END_START);
        check(&half);
        half_close(&half);
    }
}

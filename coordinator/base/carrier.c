/*
 * See carrier.h. Each lane has one request under way; its answer is copied on the ps
 * client's thread, and handled on the carrier's own, which may wait for the disk.
 *
 * A turn that fails is not asked again: the ps client does that itself when a connection
 * breaks. After the first failure the ps is told of it with the next turn, and ends the
 * carry. A lane that has told it waits for one more answer, whatever that says.
 */
#include "coordinator/base/carrier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/carried.h"

struct crew;

struct lane {
    struct coxi_psc_request request;
    struct crew *crew;
    uint32_t index;
    uint64_t turn;
    bool told; /* the last turn has told the ps of a failure */
    struct iovec payload;
    uint8_t *data; /* a piece */

    /* ---- the answer, once `answered` is set, with crew->lock */
    bool answered;
    int code;
    char text[COXI_ERROR_TEXT_MAX];
    uint64_t offset;
    uint32_t len;
    bool over;
};

struct crew {
    const struct coxi_carrying *carrying;
    const struct coxi_file_sink *sink;     /* NULL: it brings */
    const struct coxi_file_source *source; /* NULL: it fetches */
    uint64_t bytes;                        /* of the file that it brings */
    struct coxi_carried fetched;
    int code; /* the first failure */
    char text[COXI_ERROR_TEXT_MAX];
    struct coxi_mutex lock;
    pthread_cond_t changed;
    struct lane lanes[COXI_CARRY_LANES];
};

/* ---- answers */

/* Takes what the answer says; returns its code. */
static int take_exchanged(struct lane *lane, const struct coxi_exchanged *exchanged,
                          const void *payload, size_t len)
{
    bool fetches = lane->crew->sink != NULL;
    size_t room = fetches ? (size_t)COXI_CARRY_PIECE_MAX : (size_t)COXI_CARRY_BLOCK;
    if (exchanged->code != 0) {
        return coxi_error(exchanged->code, "%s", exchanged->message);
    }
    if (exchanged->len > room || len != (fetches ? exchanged->len : 0)) {
        return coxi_error(COX_EPROTO,
                          "the ps has sent a piece of %zu bytes, and says %u", len,
                          exchanged->len);
    }
    if (len > 0) {
        memcpy(lane->data, payload, len);
    }
    lane->offset = exchanged->offset;
    lane->len = exchanged->len;
    lane->over = exchanged->over;
    return 0;
}

static void turn_done(struct coxi_psc_request *request, int code,
                      const struct coxi_message *answer, void *payload, size_t len)
{
    struct lane *lane = (struct lane *)request;
    struct crew *crew = lane->crew;
    if (code == 0 && answer->kind == COXI_EXCHANGED) {
        code = take_exchanged(lane, &answer->exchanged, payload, len);
    } else if (code == 0) {
        bool refused = answer->kind == COXI_STATUS && answer->status.code != 0;
        code = refused ? coxi_error(answer->status.code, "%s", answer->status.message)
                       : coxi_error(COX_EPROTO, "the ps answered something else");
    }
    coxi_lock(&crew->lock);
    lane->code = code;
    if (code != 0) {
        (void)snprintf(lane->text, sizeof(lane->text), "%s", coxi_error_text());
    }
    lane->answered = true;
    (void)pthread_cond_signal(&crew->changed);
    coxi_unlock(&crew->lock);
}

/* ---- turns */

static int ask(struct lane *lane)
{
    const struct crew *crew = lane->crew;
    const struct coxi_carrying *carrying = crew->carrying;
    struct coxi_message message = {.kind = COXI_EXCHANGE};
    message.exchange = (struct coxi_exchange){.session = carrying->session,
                                              .incarnation = carrying->incarnation,
                                              .carry = carrying->id,
                                              .restores = crew->sink == NULL,
                                              .lane = lane->index,
                                              .turn = lane->turn,
                                              .code = crew->code,
                                              .message = crew->text};
    lane->told = crew->code != 0;
    lane->request = (struct coxi_psc_request){
        .payload = &lane->payload,
        .n_payload = lane->payload.iov_len > 0 ? 1 : 0,
        .answer_len = COXI_CARRY_PIECE_MAX, /* all turns on the data connection */
        .timeout_ms = carrying->timeout_ms,
        .done = turn_done};
    return coxi_psc_submit(carrying->psc, &message, &lane->request, false);
}

static void fail(struct crew *crew, int code, const char *text)
{
    if (crew->code == 0) {
        crew->code = code;
        (void)snprintf(crew->text, sizeof(crew->text), "%s", text);
    }
}

/* Writes the piece that has come, or reads the one that the ps wants. */
static int move_piece(struct crew *crew, struct lane *lane)
{
    if (crew->sink != NULL) {
        int r = coxi_carried_add(&crew->fetched, lane->offset, lane->data, lane->len);
        return r != 0 ? r
                      : crew->sink->write(crew->sink->arg, lane->offset, lane->data,
                                          lane->len);
    }
    if (lane->offset > crew->bytes || lane->len > crew->bytes - lane->offset) {
        return coxi_error(COX_EPROTO, "the ps wants byte %llu of a file of %llu",
                          (unsigned long long)lane->offset,
                          (unsigned long long)crew->bytes);
    }
    lane->payload = (struct iovec){lane->data, lane->len};
    return crew->source->read(crew->source->arg, lane->offset, lane->data, lane->len);
}

/* A turn was refused, or has no answer. Tells the ps, in the turn's place, if nobody has
 * told it yet; true: that is under way. */
static bool tell_of_failure(struct crew *crew, struct lane *lane)
{
    bool first = crew->code == 0;
    fail(crew, lane->code, lane->text);
    lane->payload.iov_len = 0;
    return first && lane->code != COX_EPSLOST && ask(lane) == 0;
}

static void fail_if_stopped(struct crew *crew)
{
    const atomic_bool *stops = crew->carrying->stops;
    if (stops != NULL && atomic_load(stops)) {
        fail(crew, COX_ECANCELLED, "nobody waits for this shard any more");
    }
}

/* Handles an answer; true: the lane has asked for its next turn. */
static bool go_on(struct crew *crew, struct lane *lane)
{
    if (lane->code != 0) {
        return tell_of_failure(crew, lane);
    }
    if (lane->over || lane->told) {
        return false;
    }
    fail_if_stopped(crew);
    lane->payload.iov_len = 0;
    int r = crew->code == 0 ? move_piece(crew, lane) : 0;
    if (r != 0) {
        fail(crew, r, coxi_error_text());
        lane->payload.iov_len = 0;
    }
    lane->turn++;
    r = ask(lane);
    if (r != 0) {
        fail(crew, r, coxi_error_text());
    }
    return r == 0;
}

static struct lane *find_answered(struct crew *crew) COXI_REQUIRES(crew->lock)
{
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        if (crew->lanes[i].answered) {
            crew->lanes[i].answered = false;
            return &crew->lanes[i];
        }
    }
    return NULL;
}

static struct lane *await_answer(struct crew *crew)
{
    struct lane *lane;
    coxi_lock(&crew->lock);
    while ((lane = find_answered(crew)) == NULL) {
        /* Each request ends, at the latest by its deadline (coxi_psc_tick). */
        coxi_wait_for_end(&crew->changed, &crew->lock);
    }
    coxi_unlock(&crew->lock);
    return lane;
}

static int make_lanes(struct crew *crew)
{
    int r = 0;
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        struct lane *lane = &crew->lanes[i];
        lane->crew = crew;
        lane->index = (uint32_t)i;
        lane->turn = 1;
        lane->data =
            malloc(crew->sink != NULL ? COXI_CARRY_PIECE_MAX : COXI_CARRY_BLOCK);
        r = lane->data == NULL ? coxi_error_memory("the pieces of a checkpoint") : r;
    }
    return r;
}

static void work(struct crew *crew)
{
    size_t n = 0;
    fail_if_stopped(crew);
    size_t n_lanes = crew->code == 0 ? COXI_CARRY_LANES : 1; /* one tells the ps */
    for (size_t i = 0; i < n_lanes; i++) {
        int r = ask(&crew->lanes[i]);
        n += r == 0;
        if (r != 0) {
            fail(crew, r, coxi_error_text());
        }
    }
    while (n > 0) {
        n -= !go_on(crew, await_answer(crew));
    }
}

static int run(struct crew *crew)
{
    coxi_mutex_init(&crew->lock);
    coxi_cond_init(&crew->changed);
    int r = make_lanes(crew);
    if (r != 0) {
        fail(crew, r, coxi_error_text());
    }
    work(crew);
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        free(crew->lanes[i].data);
    }
    (void)pthread_cond_destroy(&crew->changed);
    coxi_mutex_fini(&crew->lock);
    return crew->code == 0 ? 0 : coxi_error(crew->code, "%s", crew->text);
}

int coxi_carrier_fetch(const struct coxi_carrying *carrying,
                       const struct coxi_file_sink *sink, struct coxi_fetched *ret)
{
    struct crew crew = {.carrying = carrying, .sink = sink};
    struct coxi_fetched fetched;
    int r = run(&crew);
    r = r == 0 ? coxi_carried_sum(&crew.fetched, &fetched.bytes, &fetched.crc32) : r;
    coxi_carried_fini(&crew.fetched);
    if (r == 0) {
        *ret = fetched;
    }
    return r;
}

int coxi_carrier_bring(const struct coxi_carrying *carrying,
                       const struct coxi_file_source *source, uint64_t bytes)
{
    struct crew crew = {.carrying = carrying, .source = source, .bytes = bytes};
    return run(&crew);
}

/* ---- on a thread */

struct file {
    char *path;
    uint64_t bytes;
    uint64_t id;
};

struct coxi_carrier {
    struct coxi_carrying carrying;
    struct coxi_file_sink sink;
    const atomic_bool *leaves_disk;
    struct file *files;
    size_t n_files;
    struct coxi_fetched fetched;
    atomic_bool stops;
    pthread_t thread;
    int code;
    char text[COXI_ERROR_TEXT_MAX];
};

static void note_code(struct coxi_carrier *carrier, int code)
{
    carrier->code = code;
    if (code != 0) {
        (void)snprintf(carrier->text, sizeof(carrier->text), "%s", coxi_error_text());
    }
}

static void carrier_free(struct coxi_carrier *carrier)
{
    for (size_t i = 0; i < carrier->n_files; i++) {
        free(carrier->files[i].path);
    }
    free(carrier->files);
    free(carrier);
}

static void *fetch_thread(void *arg)
{
    struct coxi_carrier *carrier = arg;
    coxi_disk_give_up_when(carrier->leaves_disk);
    note_code(carrier, coxi_carrier_fetch(&carrier->carrying, &carrier->sink,
                                          &carrier->fetched));
    if (carrier->code != 0) {
        carrier->sink.abandon(carrier->sink.arg);
    } else {
        note_code(carrier, carrier->sink.finish(carrier->sink.arg));
    }
    coxi_disk_give_up_when(NULL);
    return NULL;
}

int coxi_carrier_start_fetch(const struct coxi_carrying *carrying, const char *path,
                             const atomic_bool *leaves_disk, struct coxi_carrier **ret)
{
    struct coxi_carrier *carrier = calloc(1, sizeof(*carrier));
    if (carrier == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    carrier->carrying = *carrying;
    carrier->carrying.stops = &carrier->stops;
    carrier->leaves_disk = leaves_disk;
    int r = coxi_place_create(NULL, path, 0, &carrier->sink);
    if (r != 0) {
        carrier_free(carrier);
        return r;
    }
    r = coxi_thread_start(&carrier->thread, "cox:fetch", fetch_thread, carrier);
    if (r != 0) {
        carrier->sink.abandon(carrier->sink.arg);
        carrier_free(carrier);
        return r;
    }
    *ret = carrier;
    return 0;
}

static int fail_to_read(void *arg, uint64_t at, void *to, size_t len)
{
    const struct coxi_carrier *carrier = arg;
    (void)at;
    (void)to;
    (void)len;
    return coxi_error(carrier->code, "%s", carrier->text);
}

/* Brings one file. If it cannot be opened, the ps asks for its bytes all the same, and is
 * told why there are none. */
static int bring_file(struct coxi_carrier *carrier, const struct file *file)
{
    struct coxi_file_source source = {0};
    carrier->carrying.id = file->id;
    int r = coxi_place_open(NULL, file->path, file->bytes, &source);
    if (r != 0) {
        const struct coxi_file_source none = {fail_to_read, carrier};
        note_code(carrier, r);
        return coxi_carrier_bring(&carrier->carrying, &none, file->bytes);
    }
    r = coxi_carrier_bring(&carrier->carrying, &source, file->bytes);
    coxi_place_close(&source);
    return r;
}

static void *bring_thread(void *arg)
{
    struct coxi_carrier *carrier = arg;
    int r = 0;
    /* When this is set, the ps has all, or waits for nothing any more. */
    coxi_disk_give_up_when(&carrier->stops);
    for (size_t i = 0; r == 0 && i < carrier->n_files; i++) {
        r = bring_file(carrier, &carrier->files[i]);
    }
    note_code(carrier, r);
    coxi_disk_give_up_when(NULL);
    return NULL;
}

int coxi_carrier_start_bring(const struct coxi_carrying *carrying,
                             const struct coxi_carrier_file *files, size_t n,
                             struct coxi_carrier **ret)
{
    struct coxi_carrier *carrier = calloc(1, sizeof(*carrier));
    struct file *copies = calloc(n + 1, sizeof(*copies));
    if (carrier == NULL || copies == NULL) {
        free(carrier);
        free(copies);
        return coxi_error_memory("restoring ps");
    }
    carrier->carrying = *carrying;
    carrier->carrying.stops = &carrier->stops;
    carrier->files = copies;
    carrier->n_files = n;
    bool copied = true;
    for (size_t i = 0; i < n; i++) {
        copies[i] = (struct file){strdup(files[i].path), files[i].bytes, files[i].id};
        copied = copied && copies[i].path != NULL;
    }
    int r =
        copied ? coxi_thread_start(&carrier->thread, "cox:bring", bring_thread, carrier)
               : coxi_error_memory("restoring ps");
    if (r != 0) {
        carrier_free(carrier);
        return r;
    }
    *ret = carrier;
    return 0;
}

static int compare(const struct coxi_fetched *come, const struct coxi_fetched *sent)
{
    return come->bytes == sent->bytes && come->crc32 == sent->crc32
               ? 0
               : coxi_error(COX_ECHECKSUM,
                            "a shard was damaged on its way: %" PRIu64
                            " bytes with crc32 %08" PRIx32 " have come, and %" PRIu64
                            " with %08" PRIx32 " were sent",
                            come->bytes, come->crc32, sent->bytes, sent->crc32);
}

int coxi_carrier_end(struct coxi_carrier *carrier, const struct coxi_fetched *sent)
{
    if (carrier == NULL) {
        return 0;
    }
    atomic_store(&carrier->stops, true);
    (void)pthread_join(carrier->thread, NULL);
    int r = carrier->code == 0 ? 0 : coxi_error(carrier->code, "%s", carrier->text);
    if (r == 0 && sent != NULL) {
        r = compare(&carrier->fetched, sent);
    }
    carrier_free(carrier);
    return r;
}

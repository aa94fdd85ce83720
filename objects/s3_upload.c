/*
 * The sink of a new object (s3.h). Bytes are put together to parts, each with a fixed place
 * in the object; full parts are sent on threads of the upload's own, several at a time. An
 * object that has but one part is put at once.
 *
 * Parts: 8 MiB, or as large as 10,000 of them need to be for the object's length. If
 * that is not known, each thousand parts are twice as large as those before.
 *
 * Memory: COXI_S3_OPEN_PARTS parts at most that have some of their bytes, of which the
 * kernel gives only the pages that were written to; and those that are being sent: one for
 * each thread, and one that waits.
 *
 * Threads: the writer's, and SENDERS, which are made when there is work for them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/disk.h"
#include "common/error.h"
#include "objects/s3_internal.h"

enum { SENDERS = 4, PARTS_MAX = 10000, PER_TIER = 1000, POLL_MS = 100 };

#define PART_BYTES ((uint64_t)8 << 20)

/* A part that has some of its bytes. */
struct part {
    struct part *next; /* of those that wait to be sent */
    size_t number;     /* from 0 */
    uint64_t at;
    uint64_t room; /* the last part may have less */
    uint64_t have;
    uint8_t *data;
};

struct upload {
    struct coxi_s3 *s3;
    char *key;
    uint64_t bytes;      /* that the object will have; 0: not known */
    uint64_t part_bytes; /* of each part; 0: it grows */
    uint64_t end;        /* behind the last byte that was written */
    uint64_t have;       /* bytes that were written */
    struct part *open[COXI_S3_OPEN_PARTS];
    size_t n_open;
    size_t n_parts; /* the highest number of a part that was sent, plus 1 */
    struct coxi_s3_multipart server;
    atomic_bool given_up; /* by the writer, or after a failure */
    pthread_t threads[SENDERS];
    size_t n_threads;
    struct coxi_mutex lock; /* guards what follows; leaf */
    pthread_cond_t changed;
    struct part *waiting COXI_GUARDED_BY(lock);
    size_t n_waiting COXI_GUARDED_BY(lock);
    size_t n_sending COXI_GUARDED_BY(lock);
    bool ending COXI_GUARDED_BY(lock);
    int code COXI_GUARDED_BY(lock); /* the first failure */
    char text[COXI_ERROR_TEXT_MAX] COXI_GUARDED_BY(lock);
    char
        *etags[PARTS_MAX]; /* of what was sent; each belongs to its sender until then */
};

/* ---- parts */

/* Where a part lies if the object's length is not known. */
static void growing_part(uint64_t offset, struct part *ret)
{
    uint64_t begin = 0;
    for (size_t tier = 0;; tier++) {
        uint64_t bytes = PART_BYTES << tier;
        if (offset - begin < bytes * PER_TIER) {
            uint64_t i = (offset - begin) / bytes;
            ret->number = tier * PER_TIER + (size_t)i;
            ret->at = begin + i * bytes;
            ret->room = bytes;
            return;
        }
        begin += bytes * PER_TIER;
    }
}

/* The part that has the byte at `offset`. */
static void place_part(const struct upload *upload, uint64_t offset, struct part *ret)
{
    *ret = (struct part){0};
    if (upload->part_bytes == 0) {
        growing_part(offset, ret);
        return;
    }
    uint64_t number = offset / upload->part_bytes;
    uint64_t at = number * upload->part_bytes;
    uint64_t left = upload->bytes - at;
    ret->number = (size_t)number;
    ret->at = at;
    ret->room = left < upload->part_bytes ? left : upload->part_bytes;
}

static void part_free(struct part *part)
{
    if (part != NULL) {
        free(part->data);
        free(part);
    }
}

static struct part *find_open(const struct upload *upload, size_t number)
{
    for (size_t i = 0; i < upload->n_open; i++) {
        if (upload->open[i]->number == number) {
            return upload->open[i];
        }
    }
    return NULL;
}

/* The open part that has that byte, new if need be. */
static int open_part(struct upload *upload, uint64_t offset, struct part **ret)
{
    struct part place;
    place_part(upload, offset, &place);
    struct part *part = find_open(upload, place.number);
    if (part != NULL) {
        *ret = part;
        return 0;
    }
    if (upload->n_open == COXI_S3_OPEN_PARTS || place.number >= PARTS_MAX) {
        return coxi_error(
            COX_ELIMIT, "cannot write %s/%s: %s", upload->s3->url, upload->key,
            place.number >= PARTS_MAX ? "it is too long"
                                      : "it is written at too many places at once");
    }
    part = malloc(sizeof(*part));
    if (part != NULL) {
        *part = place;
        part->data = calloc(1, (size_t)place.room);
    }
    if (part == NULL || part->data == NULL) {
        free(part);
        return coxi_error_memory("a part of an upload");
    }
    upload->open[upload->n_open++] = part;
    *ret = part;
    return 0;
}

static void close_part(struct upload *upload, const struct part *part)
{
    size_t i = 0;
    while (upload->open[i] != part) {
        i++;
    }
    upload->open[i] = upload->open[--upload->n_open];
}

/* ---- senders */

static void note_failure(struct upload *upload, int code, const char *text)
{
    coxi_lock(&upload->lock);
    if (upload->code == 0) {
        upload->code = code;
        (void)snprintf(upload->text, sizeof(upload->text), "%s", text);
    }
    atomic_store(&upload->given_up, true);
    (void)pthread_cond_broadcast(&upload->changed);
    coxi_unlock(&upload->lock);
}

static void send_part(struct upload *upload, struct part *part)
{
    if (!atomic_load(&upload->given_up)) {
        int r =
            coxi_s3_multipart_send(&upload->server, part->number + 1, part->data,
                                   (size_t)part->room, &upload->etags[part->number]);
        if (r != 0) {
            note_failure(upload, r, coxi_error_text());
        }
    }
    part_free(part);
}

static void *send_parts(void *arg)
{
    struct upload *upload = arg;
    coxi_disk_give_up_when(&upload->given_up);
    coxi_lock(&upload->lock);
    for (;;) {
        struct part *part = upload->waiting;
        if (part != NULL) {
            upload->waiting = part->next;
            upload->n_waiting--;
            upload->n_sending++;
            (void)pthread_cond_broadcast(&upload->changed);
            coxi_unlock(&upload->lock);
            send_part(upload, part);
            coxi_lock(&upload->lock);
            upload->n_sending--;
            (void)pthread_cond_broadcast(&upload->changed);
        } else if (upload->ending) {
            break;
        } else {
            coxi_wait_for_work(&upload->changed, &upload->lock);
        }
    }
    coxi_unlock(&upload->lock);
    coxi_disk_give_up_when(NULL);
    return NULL;
}

/* Ends the threads, which first send what waits, unless it was given up. */
static void join_senders(struct upload *upload)
{
    coxi_lock(&upload->lock);
    upload->ending = true;
    (void)pthread_cond_broadcast(&upload->changed);
    coxi_unlock(&upload->lock);
    for (size_t i = 0; i < upload->n_threads; i++) {
        (void)pthread_join(upload->threads[i], NULL);
    }
    upload->n_threads = 0;
}

/* Ends the senders, who tell what they waited for; they look every second, at least. */
static int give_up_senders(struct upload *upload) COXI_REQUIRES(upload->lock)
{
    atomic_store(&upload->given_up, true);
    while (upload->code == 0 && upload->n_sending > 0) {
        struct timespec until = coxi_deadline(POLL_MS);
        (void)coxi_wait_until(&upload->changed, &upload->lock, &until);
    }
    return upload->code != 0
               ? coxi_error(upload->code, "%s", upload->text)
               : coxi_error(COX_ECANCELLED, "cannot write %s/%s: it was given up",
                            upload->s3->url, upload->key);
}

/* Waits until no part waits; `all`: until all are sent. Each part that is being sent ends
 * within its deadline. */
static int wait_for_senders(struct upload *upload, bool all) COXI_REQUIRES(upload->lock)
{
    while (upload->code == 0 &&
           (upload->n_waiting > 0 || (all && upload->n_sending > 0))) {
        struct timespec until = coxi_deadline(POLL_MS);
        if (coxi_s3_is_cancelled(upload->s3)) {
            return give_up_senders(upload);
        }
        (void)coxi_wait_until(&upload->changed, &upload->lock, &until);
    }
    return upload->code != 0 ? coxi_error(upload->code, "%s", upload->text) : 0;
}

/* Gives a full part, which it takes, to the senders. */
static int give_part(struct upload *upload, struct part *part)
{
    int r = 0;
    if (upload->server.id == NULL) {
        r = coxi_s3_multipart_begin(&upload->server);
    }
    if (r == 0 && upload->n_threads < SENDERS) {
        r = coxi_thread_start(&upload->threads[upload->n_threads], "cox:s3", send_parts,
                              upload);
        upload->n_threads += r == 0 ? 1 : 0;
    }
    if (r != 0) {
        part_free(part);
        return r;
    }
    size_t number = part->number;
    coxi_lock(&upload->lock);
    r = wait_for_senders(upload, false);
    if (r == 0) {
        part->next = upload->waiting;
        upload->waiting = part;
        upload->n_waiting++;
        (void)pthread_cond_broadcast(&upload->changed);
    }
    coxi_unlock(&upload->lock);
    if (r != 0) {
        part_free(part);
        return r;
    }
    upload->n_parts = number >= upload->n_parts ? number + 1 : upload->n_parts;
    return 0;
}

/* ---- the sink */

static void upload_free(struct upload *upload)
{
    if (upload->n_threads > 0) {
        join_senders(upload);
    }
    for (size_t i = 0; i < upload->n_open; i++) {
        part_free(upload->open[i]);
    }
    for (size_t i = 0; i < upload->n_parts; i++) {
        free(upload->etags[i]);
    }
    (void)pthread_cond_destroy(&upload->changed);
    coxi_mutex_fini(&upload->lock);
    free(upload->server.id);
    free(upload->key);
    free(upload);
}

static void abandon(void *arg)
{
    char text[COXI_ERROR_TEXT_MAX];
    struct upload *upload = arg;
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    atomic_store(&upload->given_up, true);
    join_senders(upload);
    if (upload->server.id != NULL) {
        (void)coxi_s3_abort_upload(upload->s3, upload->key, upload->server.id);
    }
    upload_free(upload);
    (void)coxi_error(0, "%s", text); /* the reason is the caller's to tell */
}

/* True: the part waits for the end, because it may be the only one. */
static bool is_only(const struct upload *upload, const struct part *part)
{
    return part->number == 0 && upload->bytes > 0 && part->room == upload->bytes;
}

static int write_bytes(void *arg, uint64_t at, const void *data, size_t len)
{
    struct upload *upload = arg;
    const uint8_t *from = data;
    int r = 0;
    if (at > INT64_MAX - len || (upload->bytes > 0 && at + len > upload->bytes)) {
        return coxi_error(COX_EINVAL, "%s/%s of %" PRIu64 " bytes has more",
                          upload->s3->url, upload->key, upload->bytes);
    }
    while (r == 0 && len > 0) {
        struct part *part = NULL;
        r = open_part(upload, at, &part);
        if (r != 0) {
            return r;
        }
        uint64_t room = part->at + part->room - at;
        size_t n = len < room ? len : (size_t)room;
        memcpy(part->data + (at - part->at), from, n);
        part->have += n;
        upload->have += n;
        at += n;
        from += n;
        len -= n;
        upload->end = at > upload->end ? at : upload->end;
        if (part->have >= part->room && !is_only(upload, part)) {
            close_part(upload, part);
            r = give_part(upload, part);
        }
    }
    return r;
}

/* Puts an object of one part. */
static int put_whole(struct upload *upload)
{
    const uint8_t *data = upload->n_open > 0 ? upload->open[0]->data : NULL;
    return coxi_s3_put(upload->s3, upload->key, data, (size_t)upload->have,
                       COXI_S3_ALWAYS, NULL, NULL);
}

/* Sends the last part, and makes the object. */
static int put_together(struct upload *upload)
{
    int r = 0;
    if (upload->n_open > 0) {
        struct part *part = upload->open[0];
        part->room = part->have;
        close_part(upload, part);
        r = give_part(upload, part);
    }
    coxi_lock(&upload->lock);
    r = r == 0 ? wait_for_senders(upload, true) : r;
    coxi_unlock(&upload->lock);
    return r == 0 ? coxi_s3_multipart_end(&upload->server, upload->etags,
                                          upload->n_parts, upload->have)
                  : r;
}

static int finish(void *arg)
{
    struct upload *upload = arg;
    int r = 0;
    if (upload->have != upload->end ||
        (upload->bytes > 0 && upload->bytes != upload->have)) {
        r = coxi_error(COX_EINVAL, "cannot write %s/%s: it lacks bytes",
                       upload->s3->url, upload->key);
    } else if (upload->server.id == NULL) {
        r = put_whole(upload);
    } else {
        r = put_together(upload);
    }
    if (r != 0) {
        abandon(upload);
        return r;
    }
    upload_free(upload);
    return 0;
}

static uint64_t choose_part_bytes(uint64_t bytes)
{
    uint64_t mib = (uint64_t)1 << 20;
    uint64_t least = (bytes / PARTS_MAX + mib) / mib * mib;
    return bytes == 0 ? 0 : least > PART_BYTES ? least : PART_BYTES;
}

int coxi_s3_upload(struct coxi_s3 *s3, const char *key, uint64_t bytes,
                   struct coxi_file_sink *ret)
{
    int r = coxi_s3_check_key(s3, key);
    if (r != 0) {
        return r;
    }
    struct upload *upload = calloc(1, sizeof(*upload));
    if (upload == NULL) {
        return coxi_error_memory("an upload");
    }
    coxi_mutex_init(&upload->lock);
    coxi_cond_init(&upload->changed);
    upload->s3 = s3;
    upload->bytes = bytes;
    upload->part_bytes = choose_part_bytes(bytes);
    upload->key = strdup(key);
    upload->server = (struct coxi_s3_multipart){.s3 = s3, .key = upload->key};
    if (upload->key == NULL) {
        upload_free(upload);
        return coxi_error_memory("an upload");
    }
    *ret = (struct coxi_file_sink){write_bytes, finish, abandon, upload};
    return 0;
}

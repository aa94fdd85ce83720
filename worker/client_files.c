/*
 * See client_files.h. A block is in the list from the moment at which it is asked for.
 * It leaves the list if it could not be read, or if nobody waits for it any more, so that
 * the next reader asks again: what was wrong may be right by then.
 */
#include "worker/client_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "data/name.h"
#include "net/message.h"

struct coxi_client_block {
    struct coxi_client_block *next;
    uint64_t number; /* its offset / COXI_FILE_BLOCK */
    uint64_t request;
    uint64_t asked_ms;
    bool here;     /* it was answered */
    unsigned refs; /* readers that wait for it or copy from it */
    int code;      /* not 0: it cannot be read */
    char text[256];
    struct coxi_file_mark mark; /* of the file, when the block was read */
    size_t len;
    char *dataset;
    char *file;
    uint8_t bytes[COXI_FILE_BLOCK];
};

struct reader {
    struct coxi_client_files *files;
    const struct coxi_task *task;
    struct coxi_file_mark mark; /* of the first block that was read */
    bool known;
    atomic_bool cancelled;
};

/* ---- the list of blocks */

static void block_free(struct coxi_client_block *block)
{
    if (block != NULL) {
        free(block->dataset);
        free(block->file);
        free(block);
    }
}

/* Takes a block out of the list. */
static void take_out(struct coxi_client_files *files, struct coxi_client_block *block)
    COXI_REQUIRES(files->lock)
{
    struct coxi_client_block **at = &files->first;
    while (*at != block) {
        at = &(*at)->next;
    }
    *at = block->next;
    files->n--;
}

static void put_first(struct coxi_client_files *files, struct coxi_client_block *block)
    COXI_REQUIRES(files->lock)
{
    block->next = files->first;
    files->first = block;
    files->n++;
}

static struct coxi_client_block *find(const struct coxi_client_files *files,
                                      const struct coxi_task *task, uint64_t number)
    COXI_REQUIRES(files->lock)
{
    struct coxi_client_block *block = files->first;
    while (block != NULL &&
           (block->number != number || strcmp(block->file, task->file) != 0 ||
            strcmp(block->dataset, task->dataset) != 0)) {
        block = block->next;
    }
    return block;
}

/* Drops blocks until there is room for another one, as far as they are not in use.
 * True: there is room. */
static bool make_room(struct coxi_client_files *files) COXI_REQUIRES(files->lock)
{
    while (files->n >= files->blocks_max) {
        struct coxi_client_block *last = NULL;
        for (struct coxi_client_block *b = files->first; b != NULL; b = b->next) {
            last = b->here && b->refs == 0 ? b : last;
        }
        if (last == NULL) {
            return false;
        }
        take_out(files, last);
        block_free(last);
    }
    return true;
}

/* Asks the client for a block. NULL: no memory. */
static struct coxi_client_block *ask(struct coxi_client_files *files,
                                     const struct coxi_task *task, uint64_t number)
    COXI_REQUIRES(files->lock)
{
    struct coxi_client_block *block = malloc(sizeof(*block));
    if (block == NULL) {
        return NULL;
    }
    memset(block, 0, offsetof(struct coxi_client_block, bytes));
    block->number = number;
    block->request = ++files->requests;
    block->asked_ms = coxi_now_ms();
    block->dataset = strdup(task->dataset);
    block->file = strdup(task->file);
    if (block->dataset == NULL || block->file == NULL) {
        block_free(block);
        return NULL;
    }
    put_first(files, block);
    struct coxi_message message = {.request = block->request, .kind = COXI_FILE_READ};
    message.file_read =
        (struct coxi_file_read){task->dataset, task->file, task->place,
                                number * COXI_FILE_BLOCK, COXI_FILE_BLOCK};
    /* If it fails, the link closes, and with it the run. */
    (void)coxi_message_send(files->link, &message, NULL, false);
    return block;
}

/* Asks for a block that will be read next, if the file has it and there is room. */
static void ask_ahead(struct reader *reader, uint64_t number)
    COXI_REQUIRES(reader->files->lock)
{
    struct coxi_client_files *files = reader->files;
    uint64_t offset = number * COXI_FILE_BLOCK;
    if (offset < reader->mark.bytes && offset < reader->task->end &&
        find(files, reader->task, number) == NULL && make_room(files)) {
        (void)ask(files, reader->task, number);
    }
}

/* ---- reading */

/* When to give up the block, unless more comes from the client before. */
static uint64_t give_up_ms(const struct coxi_client_files *files,
                           const struct coxi_client_block *block)
    COXI_REQUIRES(files->lock)
{
    uint64_t since_ms =
        block->asked_ms > files->heard_ms ? block->asked_ms : files->heard_ms;
    return since_ms + files->wait_ms;
}

/* Waits for the block. Ends also if the client is gone, or the reader is cancelled. */
static void await_block(struct reader *reader, const struct coxi_client_block *block)
    COXI_REQUIRES(reader->files->lock)
{
    struct coxi_client_files *files = reader->files;
    while (!block->here && !files->closed && !atomic_load(&reader->cancelled)) {
        uint64_t now_ms = coxi_now_ms();
        uint64_t until_ms = give_up_ms(files, block);
        if (now_ms >= until_ms) {
            return;
        }
        struct timespec until = coxi_deadline((int)(until_ms - now_ms));
        (void)coxi_wait_until(&files->changed, &files->lock, &until);
    }
}

/* Takes a block, when it is here; release it with drop(). NULL: an error. */
static struct coxi_client_block *take(struct reader *reader, uint64_t number)
    COXI_REQUIRES(reader->files->lock)
{
    struct coxi_client_files *files = reader->files;
    struct coxi_client_block *block = find(files, reader->task, number);
    if (block == NULL) {
        (void)make_room(files);
        block = ask(files, reader->task, number);
    }
    if (block == NULL) {
        (void)coxi_error_memory("a file of the client");
        return NULL;
    }
    block->refs++;
    await_block(reader, block);
    return block;
}

static void drop(struct coxi_client_files *files, struct coxi_client_block *block)
    COXI_REQUIRES(files->lock)
{
    block->refs--;
    if ((!block->here || block->code != 0) && block->refs == 0) {
        take_out(files, block);
        block_free(block);
    }
}

/* Fails unless the block can be used: it is here, and of the file as it was. */
static int check(struct reader *reader, const struct coxi_client_block *block)
    COXI_REQUIRES(reader->files->lock)
{
    const struct coxi_shown_name name = coxi_name_shown(reader->task->file);
    if (!block->here && atomic_load(&reader->cancelled)) {
        return coxi_error(COX_ECANCELLED, "%s: its reader was closed", name.text);
    }
    if (!block->here) {
        return reader->files->closed
                   ? coxi_error(COX_ECLOSED, "%s: the client is gone", name.text)
                   : coxi_error(COX_ETIMEDOUT,
                                "%s: the client has sent no bytes of files for %u ms",
                                name.text, reader->files->wait_ms);
    }
    if (block->code != 0) {
        return coxi_error(block->code, "%s", block->text);
    }
    if (!reader->known) {
        reader->mark = block->mark;
        reader->known = true;
    }
    return block->mark.bytes == reader->mark.bytes &&
                   block->mark.changed_ns == reader->mark.changed_ns
               ? 0
               : coxi_error(COX_ECONFLICT, "%s changed while it was read", name.text);
}

/* Copies what one block has of the range. */
static int read_block(struct reader *reader, uint64_t offset, uint8_t *to, size_t len,
                      size_t *ret_len)
{
    struct coxi_client_files *files = reader->files;
    size_t from = (size_t)(offset % COXI_FILE_BLOCK);
    coxi_lock(&files->lock);
    struct coxi_client_block *block = take(reader, offset / COXI_FILE_BLOCK);
    int r = block != NULL ? check(reader, block) : COX_ENOMEM;
    if (r == 0) {
        if (block != files->first) {
            take_out(files, block);
            put_first(files, block);
        }
    }
    coxi_unlock(&files->lock);
    if (r == 0) {
        size_t have = block->len > from ? block->len - from : 0;
        *ret_len = have < len ? have : len;
        memcpy(to, block->bytes + from, *ret_len);
    }
    coxi_lock(&files->lock);
    if (block != NULL) {
        drop(files, block);
    }
    if (r == 0) {
        ask_ahead(reader, offset / COXI_FILE_BLOCK + 1);
    }
    coxi_unlock(&files->lock);
    return r;
}

static int client_read(void *self, uint64_t offset, void *to, size_t len,
                       size_t *ret_len)
{
    struct reader *reader = self;
    size_t got = 0;
    int r = 0;
    bool more = len > 0 && offset <= INT64_MAX - len;
    while (r == 0 && more && (!reader->known || offset + got < reader->mark.bytes)) {
        size_t n = 0;
        r = read_block(reader, offset + got, (uint8_t *)to + got, len - got, &n);
        got += n;
        more = n > 0 && got < len;
    }
    if (r == 0) {
        *ret_len = got;
    }
    return r;
}

static int client_stat(void *self, struct coxi_file_mark *ret)
{
    struct reader *reader = self;
    uint8_t byte;
    size_t len;
    int r = reader->known ? 0 : read_block(reader, reader->task->begin, &byte, 1, &len);
    if (r == 0) {
        ret->bytes = reader->mark.bytes;
        ret->changed_ns = reader->mark.changed_ns;
    }
    return r;
}

static void client_cancel(void *self)
{
    struct reader *reader = self;
    coxi_lock(&reader->files->lock);
    atomic_store(&reader->cancelled, true);
    (void)pthread_cond_broadcast(&reader->files->changed);
    coxi_unlock(&reader->files->lock);
}

static const struct coxi_source_kind kind = {.read = client_read,
                                             .stat = client_stat,
                                             .close = free,
                                             .cancel = client_cancel,
                                             .piece = COXI_FILE_BLOCK / 4};

int coxi_source_open_client(struct coxi_client_files *files,
                            const struct coxi_task *task, struct coxi_source *ret)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return coxi_error_memory("a file of the client");
    }
    reader->files = files;
    reader->task = task;
    int r = coxi_source_init(&kind, reader, task->file, ret);
    if (r != 0) {
        free(reader);
    }
    return r;
}

/* ---- the client */

/* Puts an answer into its block. A block that is not as long as the file says is an
 * error: its bytes would pass for the file's end. */
static void fill(struct coxi_client_block *block, const struct coxi_file_bytes *answer,
                 const void *bytes, size_t len)
{
    uint64_t offset = block->number * COXI_FILE_BLOCK;
    uint64_t left = answer->bytes > offset ? answer->bytes - offset : 0;
    block->here = true;
    block->code = answer->code;
    strncpy(block->text, answer->message, sizeof(block->text) - 1);
    block->mark.bytes = answer->bytes;
    block->mark.changed_ns = answer->changed_ns;
    block->len = len;
    if (answer->code == 0 && len != (left < COXI_FILE_BLOCK ? left : COXI_FILE_BLOCK)) {
        block->code = COX_ECONFLICT;
        (void)snprintf(block->text, sizeof(block->text),
                       "%.100s changed while it was read: %zu bytes came from offset "
                       "%" PRIu64 ", and it said that it has %" PRIu64,
                       coxi_name_shown(block->file).text, len, offset, answer->bytes);
    } else if (len > 0) {
        memcpy(block->bytes, bytes, len);
    }
}

int coxi_client_files_answer(struct coxi_client_files *files, uint64_t request,
                             const struct coxi_file_bytes *answer, const void *bytes,
                             size_t len)
{
    coxi_lock(&files->lock);
    struct coxi_client_block *block = files->first;
    while (block != NULL && (block->here || block->request != request)) {
        block = block->next;
    }
    /* Of a block that nobody waits for any more: dropped. */
    bool late = block == NULL && request > 0 && request <= files->requests;
    int r = (late || block != NULL) && len <= COXI_FILE_BLOCK
                ? 0
                : coxi_error(COX_EPROTO, "bytes of a file that nobody asked for");
    files->heard_ms = r == 0 ? coxi_now_ms() : files->heard_ms;
    if (r == 0 && block != NULL) {
        fill(block, answer, bytes, len);
        (void)pthread_cond_broadcast(&files->changed);
        if (block->code != 0 && block->refs == 0) {
            take_out(files, block);
            block_free(block);
        }
    }
    coxi_unlock(&files->lock);
    return r;
}

void coxi_client_files_close(struct coxi_client_files *files)
{
    coxi_lock(&files->lock);
    files->closed = true;
    (void)pthread_cond_broadcast(&files->changed);
    coxi_unlock(&files->lock);
}

/* ---- life */

void coxi_client_files_init(struct coxi_client_files *files, struct coxi_link *link,
                            size_t max)
{
    *files = (struct coxi_client_files){.link = link,
                                        .blocks_max = max / COXI_FILE_BLOCK,
                                        .wait_ms = COXI_FILE_WAIT_MS};
    coxi_mutex_init(&files->lock);
    coxi_cond_init(&files->changed);
}

void coxi_client_files_fini(struct coxi_client_files *files)
{
    coxi_unshared(&files->lock);
    while (files->first != NULL) {
        struct coxi_client_block *block = files->first;
        files->first = block->next;
        block_free(block);
    }
    coxi_mutex_fini(&files->lock);
    (void)pthread_cond_destroy(&files->changed);
}

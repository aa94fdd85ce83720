/*
 * See load.h. Sends variables of a checkpoint to the ps that hold them here: ranges of
 * rows of dense variables, as the file has them; rows of tables are collected for each
 * ps.
 *
 * Pieces travel in two waves: while one is under way the other is filled. Memory: a
 * piece (1 MiB, or a row) for each ps and wave.
 *
 * Threads: the caller's. Cost: for tables, a copy.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "coordinator/variables/load.h"

enum {
    PIECE_BYTES = 1 << 20,
    PIECE_ROWS = 4096, /* the most rows of a table that a ps takes (ps/load.c) */
    WAVE_MIN = 16,     /* pieces; at least one for each ps */
};

/* ---- what the checkpoint has of a variable */

/* Finds a tensor of this type with `row_bytes` bytes for each row. */
static const struct coxi_whole *find_part(const struct coxi_checkpoint *checkpoint,
                                          const struct coxi_variable *from,
                                          const char *part, const char *dtype,
                                          size_t row_bytes, uint64_t rows)
{
    const struct coxi_whole *whole = coxi_checkpoint_find(checkpoint, from, part);
    return whole != NULL && strcmp(whole->dtype, dtype) == 0 &&
                   whole->bytes == rows * row_bytes
               ? whole
               : NULL;
}

static void add_array(struct coxi_load_source *source, const struct coxi_whole *whole,
                      size_t row_bytes, bool counts)
{
    source->arrays[source->n_arrays++] =
        (struct coxi_load_array){whole, row_bytes, counts};
    source->bytes += whole->bytes;
}

static int read_step(const struct coxi_load_source *source, size_t piece, uint64_t *ret)
{
    return coxi_st_read(source->step->pieces[piece].tensor, 0, ret, sizeof(*ret));
}

/* Finds the highest step of all ps. */
static int read_step_max(struct coxi_load_source *source)
{
    int r = 0;
    for (size_t i = 0; r == 0 && source->step != NULL && i < source->step->n_pieces;
         i++) {
        uint64_t step = 0;
        r = read_step(source, i, &step);
        source->step_max = step > source->step_max ? step : source->step_max;
    }
    return r;
}

static bool find_states(const struct coxi_checkpoint *checkpoint,
                        const struct coxi_variable *from,
                        struct coxi_load_source *source)
{
    const struct coxi_state_layout layout = coxi_optimizer_layout(from);
    size_t row_bytes = coxi_variable_row_bytes(from);
    for (size_t s = 0; s < layout.n_slots + layout.n_row; s++) {
        size_t bytes = s < layout.n_slots ? row_bytes : sizeof(float);
        const struct coxi_whole *state =
            find_part(checkpoint, from, layout.states[s].name, coxi_dtype_name(COX_F32),
                      bytes, source->rows);
        if (state == NULL) {
            return false;
        }
        add_array(source, state, bytes, false);
    }
    source->step = coxi_checkpoint_find(checkpoint, from, "step");
    return source->step != NULL;
}

/* Finds the arrays with the lives of rows: all of them, or none. */
static void find_life(const struct coxi_checkpoint *checkpoint,
                      const struct coxi_variable *from, struct coxi_load_source *source)
{
    static const char *const parts[] = {"last", "made", "updates"};
    enum { N_PARTS = sizeof(parts) / sizeof(*parts) };
    const struct coxi_whole *wholes[N_PARTS];
    for (size_t i = 0; i < N_PARTS; i++) {
        wholes[i] = find_part(checkpoint, from, parts[i], "U64", sizeof(uint64_t),
                              source->rows);
        if (wholes[i] == NULL) {
            return;
        }
    }
    for (size_t i = 0; i < N_PARTS; i++) {
        add_array(source, wholes[i], sizeof(uint64_t), i < 2);
    }
    source->life = true;
}

bool coxi_load_source_find(const struct coxi_checkpoint *checkpoint,
                           const struct coxi_variable *from, bool state,
                           struct coxi_load_source *ret)
{
    const struct coxi_whole *values = coxi_checkpoint_find(checkpoint, from, "values");
    bool is_table = from->kind == COXI_KIND_TABLE;
    *ret = (struct coxi_load_source){.rows = values->shape[0]};
    if (is_table) {
        add_array(ret, coxi_checkpoint_find(checkpoint, from, "keys"), sizeof(uint64_t),
                  false);
    }
    add_array(ret, values, coxi_variable_row_bytes(from), false);
    bool whole = !state || find_states(checkpoint, from, ret);
    if (whole && state && is_table) {
        find_life(checkpoint, from, ret);
    }
    return whole;
}

/* Rows in a piece. */
static uint64_t piece_rows(const struct coxi_load_source *source)
{
    size_t bytes = 0;
    for (size_t i = 0; i < source->n_arrays; i++) {
        bytes += source->arrays[i].row_bytes;
    }
    uint64_t rows = bytes < PIECE_BYTES ? PIECE_BYTES / bytes : 1;
    return rows < PIECE_ROWS ? rows : PIECE_ROWS;
}

/* ---- waves of pieces */

struct piece {
    struct coxi_ps_round_call call;
    uint32_t ps;
    uint8_t *bytes; /* of a dense variable */
    struct iovec payload[2 * COXI_LOAD_ARRAYS_MAX];
};

/* Rows that are being collected for a ps. */
struct collected {
    uint8_t *bytes; /* array after array, each with room for all rows of a piece */
    uint64_t n;
};

struct wave {
    struct coxi_ps_round round;
    bool under_way;
    struct piece *pieces;
    size_t n_pieces;
    uint64_t bytes;
    struct collected *collected; /* by ps */
};

struct sender {
    const struct coxi_load_target *target;
    struct wave waves[2];
    struct wave *wave; /* the wave that is being filled */
    size_t wave_pieces;
    uint64_t bytes; /* bytes that the ps have taken */
    uint64_t bytes_all;
};

static int sender_init(struct sender *s, const struct coxi_load_target *target)
{
    uint32_t n_ps = target->c->ps.n;
    *s = (struct sender){.target = target, .wave = &s->waves[0]};
    s->wave_pieces = n_ps > WAVE_MIN ? n_ps : WAVE_MIN;
    bool whole = true;
    for (size_t i = 0; i < 2; i++) {
        s->waves[i].pieces = calloc(s->wave_pieces, sizeof(struct piece));
        s->waves[i].collected = calloc(n_ps, sizeof(struct collected));
        whole = whole && s->waves[i].pieces != NULL && s->waves[i].collected != NULL;
    }
    return whole ? 0 : coxi_error_memory("loading a checkpoint");
}

/* Waits for the pieces of a wave; the wave is empty then. */
static int wave_end(struct sender *s, struct wave *wave)
{
    int r = wave->under_way ? coxi_ps_round_end(&wave->round) : 0;
    s->bytes += r == 0 ? wave->bytes : 0;
    for (size_t i = 0; wave->under_way && i < wave->n_pieces; i++) {
        if (s->target->took != NULL && wave->pieces[i].call.code == 0) {
            s->target->took[wave->pieces[i].ps] = true;
        }
    }
    for (size_t i = 0; i < wave->n_pieces; i++) {
        free(wave->pieces[i].bytes);
        wave->pieces[i].bytes = NULL;
    }
    if (r == 0 && wave->bytes > 0 && s->target->on_progress != NULL) {
        s->target->on_progress(s->target->arg, s->bytes, s->bytes_all);
    }
    wave->under_way = false;
    wave->n_pieces = 0;
    wave->bytes = 0;
    return r;
}

/* The filled wave is on its way: continues with the other one. */
static int next_wave(struct sender *s)
{
    s->wave = s->wave == &s->waves[0] ? &s->waves[1] : &s->waves[0];
    return wave_end(s, s->wave);
}

static int end_both(struct sender *s)
{
    int r = next_wave(s);
    int second = next_wave(s);
    return r != 0 ? r : second;
}

static void collected_free(struct sender *s)
{
    for (uint32_t p = 0; p < s->target->c->ps.n; p++) {
        for (size_t i = 0; i < 2; i++) {
            free(s->waves[i].collected[p].bytes);
            s->waves[i].collected[p] = (struct collected){0};
        }
    }
}

static void sender_fini(struct sender *s)
{
    for (size_t i = 0; i < 2; i++) {
        free(s->waves[i].pieces);
        free(s->waves[i].collected);
    }
}

static bool is_meant(const struct sender *s, uint64_t ps)
{
    return s->target->only_ps == COXI_LOAD_ALL_PS || s->target->only_ps == ps;
}

/* Appends an array to the payload, padded. */
static void put(struct piece *piece, const uint8_t *data, size_t bytes)
{
    static const uint64_t zeros = 0;
    size_t padding = coxi_align(bytes, 8) - bytes;
    size_t *n = &piece->call.request.n_payload;
    piece->payload[(*n)++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    if (padding > 0) {
        piece->payload[(*n)++] = (struct iovec){(void *)(uintptr_t)&zeros, padding};
    }
}

/* Begins the next piece of the wave, which has room for it. */
static struct piece *new_piece(struct sender *s)
{
    struct piece *piece = &s->wave->pieces[s->wave->n_pieces++];
    piece->call = (struct coxi_ps_round_call){.expect = COXI_STATUS};
    piece->call.request.payload = piece->payload;
    return piece;
}

static void send_piece(struct sender *s, uint32_t ps, struct piece *piece,
                       const struct coxi_load *load)
{
    struct cox_coordinator *c = s->target->c;
    struct coxi_message message = {.kind = COXI_LOAD, .load = *load};
    message.load.session = c->session;
    message.load.incarnation = s->target->incarnations[ps];
    message.load.closure = s->target->closure.n;
    if (!s->wave->under_way) {
        coxi_ps_round_begin(&s->wave->round);
        s->wave->under_way = true;
    }
    for (size_t i = 0; i < piece->call.request.n_payload; i++) {
        s->wave->bytes += piece->payload[i].iov_len;
    }
    piece->ps = ps;
    coxi_ps_round_add(&s->wave->round, c->ps.clients[ps], &message, &piece->call);
}

static struct coxi_load header(const struct coxi_variable *to,
                               const struct coxi_load_source *source)
{
    return (struct coxi_load){.variable = to->id,
                              .state = source->step != NULL,
                              .life = source->life,
                              .step = source->step_max};
}

/* ---- dense variables */

/* Offset of the a-th array among the arrays of that many rows. */
static size_t array_at(const struct coxi_load_source *source, uint64_t rows, size_t a)
{
    size_t at = 0;
    for (size_t i = 0; i < a; i++) {
        at += coxi_align(rows * source->arrays[i].row_bytes, 8);
    }
    return at;
}

/* Reads the rows [first, first + n) of each array's i-th piece into `to`, array after
 * array, each with room for `room` rows. */
static int read_rows(const struct coxi_load_source *source, size_t i, uint64_t first,
                     uint64_t n, uint64_t room, uint8_t *to)
{
    int r = 0;
    for (size_t a = 0; r == 0 && a < source->n_arrays; a++) {
        const struct coxi_load_array *array = &source->arrays[a];
        r = coxi_st_read(array->whole->pieces[i].tensor, first * array->row_bytes,
                         to + array_at(source, room, a), n * array->row_bytes);
    }
    return r;
}

/* Fills a piece with the `count` rows from `first` on of the checkpoint's i-th shard. */
static int fill_piece(struct piece *piece, const struct coxi_load_source *source,
                      size_t i, uint64_t first, uint64_t count)
{
    piece->bytes = malloc(array_at(source, count, source->n_arrays));
    int r = piece->bytes == NULL
                ? coxi_error_memory("loading a checkpoint")
                : read_rows(source, i, first, count, count, piece->bytes);
    for (size_t a = 0; r == 0 && a < source->n_arrays; a++) {
        put(piece, piece->bytes + array_at(source, count, a),
            count * source->arrays[a].row_bytes);
    }
    return r;
}

/* Sends the rows that the checkpoint's i-th shard and `shard` have in common. */
static int send_range(struct sender *s, const struct coxi_variable *to,
                      const struct coxi_load_source *source, size_t i,
                      const struct coxi_shard *shard)
{
    const struct coxi_piece *values = &source->arrays[0].whole->pieces[i];
    struct coxi_range range =
        coxi_shard_part(shard, values->begin, values->tensor->shape[0]);
    uint64_t at_once = piece_rows(source);
    int r = 0;
    while (r == 0 && range.count > 0) {
        struct coxi_load load = header(to, source);
        struct piece *piece = new_piece(s);
        load.begin = range.begin;
        load.count = range.count < at_once ? range.count : at_once;
        r = fill_piece(piece, source, i, load.begin - values->begin, load.count);
        if (r != 0) { /* it is not sent */
            free(piece->bytes);
            piece->bytes = NULL;
            s->wave->n_pieces--;
            return r;
        }
        send_piece(s, (uint32_t)shard->ps, piece, &load);
        range.begin += load.count;
        range.count -= load.count;
        r = s->wave->n_pieces == s->wave_pieces ? next_wave(s) : 0;
    }
    return r;
}

static int send_dense(struct sender *s, const struct coxi_variable *to,
                      const struct coxi_load_source *source)
{
    const struct coxi_whole *values = source->arrays[0].whole;
    int r = 0;
    for (size_t i = 0; i < values->n_pieces; i++) {
        for (size_t k = 0; r == 0 && k < to->n_shards; k++) {
            if (is_meant(s, to->shards[k].ps)) {
                r = send_range(s, to, source, i, &to->shards[k]);
            }
        }
    }
    return r;
}

/* ---- tables */

/* Sends everything that was collected. */
static int send_collected(struct sender *s, const struct coxi_variable *to,
                          const struct coxi_load_source *source, uint64_t rows)
{
    for (uint32_t p = 0; p < s->target->c->ps.n; p++) {
        struct collected *collected = &s->wave->collected[p];
        struct coxi_load load = header(to, source);
        if (collected->n == 0) {
            continue;
        }
        struct piece *piece = new_piece(s);
        load.count = collected->n;
        for (size_t a = 0; a < source->n_arrays; a++) {
            put(piece, collected->bytes + array_at(source, rows, a),
                collected->n * source->arrays[a].row_bytes);
        }
        send_piece(s, p, piece, &load);
        collected->n = 0;
    }
    return next_wave(s);
}

/* Some rows of the checkpoint's i-th shard. */
struct block {
    uint8_t *bytes; /* array after array, each with room for `rows` rows */
    uint64_t rows;
    uint64_t behind; /* steps by which the shard is behind the highest one */
};

/* Copies the arrays of the block's row `row`; converts its counts of updates as if its
 * ps had had the highest count. */
static void collect(const struct coxi_load_source *source, const struct block *block,
                    uint64_t row, struct collected *to)
{
    size_t at = 0;
    for (size_t a = 0; a < source->n_arrays; a++) {
        const struct coxi_load_array *array = &source->arrays[a];
        uint8_t *place = to->bytes + at + to->n * array->row_bytes;
        memcpy(place, block->bytes + at + row * array->row_bytes, array->row_bytes);
        if (array->counts) {
            uint64_t count;
            memcpy(&count, place, sizeof(count));
            count += block->behind;
            memcpy(place, &count, sizeof(count));
        }
        at += coxi_align(block->rows * array->row_bytes, 8);
    }
    to->n++;
}

/* Collects the block's first `n` rows, and sends pieces that are full. */
static int send_block(struct sender *s, const struct coxi_variable *to,
                      const struct coxi_load_source *source, const struct block *block,
                      uint64_t n)
{
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < n; i++) {
        uint64_t key;
        memcpy(&key, block->bytes + i * sizeof(key), sizeof(key)); /* the first array */
        uint32_t ps = coxi_key_ps(key, s->target->c->ps.n);
        struct collected *collected = &s->wave->collected[ps];
        if (is_meant(s, ps)) {
            collect(source, block, i, collected);
            r = collected->n == block->rows ? send_collected(s, to, source, block->rows)
                                            : 0;
        }
    }
    return r;
}

static int send_rows(struct sender *s, const struct coxi_variable *to,
                     const struct coxi_load_source *source, size_t i)
{
    struct block block = {.rows = piece_rows(source)};
    uint64_t step = source->step_max;
    uint64_t all = source->arrays[0].whole->pieces[i].tensor->shape[0];
    int r = source->step != NULL ? read_step(source, i, &step) : 0;
    block.behind = source->step_max - step;
    block.bytes = malloc(array_at(source, block.rows, source->n_arrays));
    r = r == 0 && block.bytes == NULL ? coxi_error_memory("loading a table") : r;
    for (uint64_t first = 0, n; r == 0 && first < all; first += n) {
        n = all - first < block.rows ? all - first : block.rows;
        r = read_rows(source, i, first, n, block.rows, block.bytes);
        r = r == 0 ? send_block(s, to, source, &block, n) : r;
    }
    free(block.bytes);
    return r;
}

/* Allocates the memory for collected rows. */
static int make_room(struct sender *s, const struct coxi_load_source *source)
{
    size_t bytes = array_at(source, piece_rows(source), source->n_arrays);
    for (uint32_t p = 0; p < s->target->c->ps.n; p++) {
        for (size_t i = 0; is_meant(s, p) && i < 2; i++) {
            s->waves[i].collected[p].bytes = malloc(bytes);
            if (s->waves[i].collected[p].bytes == NULL) {
                return coxi_error_memory("loading a table");
            }
        }
    }
    return 0;
}

static int send_table(struct sender *s, const struct coxi_variable *to,
                      const struct coxi_load_source *source)
{
    const struct coxi_whole *keys = source->arrays[0].whole;
    int r = make_room(s, source);
    for (size_t i = 0; r == 0 && i < keys->n_pieces; i++) {
        r = send_rows(s, to, source, i);
    }
    if (r == 0) {
        r = send_collected(s, to, source, piece_rows(source));
    }
    int ended = end_both(s); /* pieces under way borrow our memory */
    collected_free(s);
    return r != 0 ? r : ended;
}

/* ---- all */

static int send_item(struct sender *s, const struct coxi_checkpoint *checkpoint,
                     const struct coxi_load_item *item)
{
    struct coxi_load_source source;
    const struct coxi_variable *from = coxi_checkpoint_variable(checkpoint, item->from);
    if (from == NULL ||
        !coxi_load_source_find(checkpoint, from, item->state, &source)) {
        return coxi_error(COX_EFORMAT, "%s has no '%s' any more", checkpoint->path,
                          item->from);
    }
    int r = read_step_max(&source);
    if (r == 0) {
        r = item->to->kind == COXI_KIND_TABLE ? send_table(s, item->to, &source)
                                              : send_dense(s, item->to, &source);
    }
    return r == 0 || r == COX_EPSLOST
               ? r
               : coxi_error(r, "loading '%s': %s", item->to->name, coxi_error_text());
}

/* Sends the end marker to each ps. */
static int send_last(struct sender *s, const struct coxi_loading *loading)
{
    for (uint32_t p = 0; p < s->target->c->ps.n; p++) {
        if (is_meant(s, p) && coxi_loading_is_part(loading, p)) {
            send_piece(s, p, new_piece(s), &(struct coxi_load){.last = true});
        }
    }
    return end_both(s);
}

static uint64_t bytes_of(const struct coxi_loading *loading,
                         const struct coxi_checkpoint *checkpoint)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < loading->n_items; i++) {
        const struct coxi_load_item *item = &loading->items[i];
        struct coxi_load_source source;
        const struct coxi_variable *from =
            coxi_checkpoint_variable(checkpoint, item->from);
        if (from != NULL &&
            coxi_load_source_find(checkpoint, from, item->state, &source)) {
            bytes += source.bytes;
        }
    }
    return bytes;
}

int coxi_loading_send(const struct coxi_loading *loading,
                      const struct coxi_checkpoint *checkpoint,
                      const struct coxi_load_target *target)
{
    struct sender s;
    int r = sender_init(&s, target);
    if (r == 0) {
        s.bytes_all = bytes_of(loading, checkpoint);
        for (size_t i = 0; r == 0 && i < loading->n_items; i++) {
            r = send_item(&s, checkpoint, &loading->items[i]);
        }
        int ended = end_both(&s);
        r = r != 0 ? r : ended;
    }
    if (r == 0) {
        r = send_last(&s, loading);
    }
    sender_fini(&s);
    return r;
}

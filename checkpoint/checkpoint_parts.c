/*
 * Puts each variable together from the tensors in a checkpoint's shards. A tensor's
 * name tells everything that is needed: the variable's name, "part_<i>" if a dense
 * variable has several shards, and the part. No variable is a folder of another, so
 * each name can be read in one way only. Tensors of variables that the manifest does
 * not list (they were being created while it was written) are skipped.
 *
 * Invariant: `wholes` is sorted by variable and part, the pieces of each by rows.
 *
 * Threads: the thread that opens. Cost: O(n log n) in the tensors; reads no data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_internal.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/layout.h"

/* ---- the variable of each tensor */

/* The order of parts: "values" first, then by name. */
static int compare_parts(const char *a, const char *b)
{
    bool x = strcmp(a, "values") == 0;
    bool y = strcmp(b, "values") == 0;
    return x != y ? y - x : strcmp(a, b);
}

/* A tensor of a shard, known by its name. */
struct found {
    const struct coxi_variable *variable;
    const char *part;
    struct coxi_piece piece;
};

struct finds {
    struct found *all;
    size_t n;
    const struct coxi_variable **by_name;
    const struct coxi_manifest *manifest;
};

static int by_variable_name(const void *a, const void *b)
{
    const struct coxi_variable *const *x = a;
    const struct coxi_variable *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The variable whose name is the first `len` bytes of `name`, or NULL. */
static const struct coxi_variable *variable_called(const struct finds *finds,
                                                   const char *name, size_t len)
{
    char copy[COXI_WIRE_NAME_MAX + 1];
    if (len >= sizeof(copy)) {
        return NULL;
    }
    memcpy(copy, name, len);
    copy[len] = '\0';
    const struct coxi_variable wanted = {.name = copy};
    const struct coxi_variable *key = &wanted;
    const struct coxi_variable **at =
        bsearch(&key, finds->by_name, finds->manifest->n_variables,
                sizeof(*finds->by_name), by_variable_name);
    return at != NULL ? *at : NULL;
}

/* Finds the variable whose name is the beginning of `name`; *ret_rest is the rest of
 * `name`, without the '/'. */
static const struct coxi_variable *variable_of(const struct finds *finds,
                                               const char *name, const char **ret_rest)
{
    for (size_t len = strcspn(name, "/");; len += 1 + strcspn(name + len + 1, "/")) {
        const struct coxi_variable *v = variable_called(finds, name, len);
        if (v != NULL || name[len] == '\0') {
            *ret_rest = name[len] == '/' ? name + len + 1 : name + len;
            return v;
        }
    }
}

/* Skips "part_<i>" if the dense variable has several shards; false: it is not the part
 * of this ps's shard. */
static bool skip_shard(const struct coxi_variable *v, const struct coxi_shard *shard,
                       const char **rest)
{
    char expected[32];
    if (v->n_shards <= 1) {
        return true;
    }
    int len = snprintf(expected, sizeof(expected), "part_%td", shard - v->shards);
    if (strncmp(*rest, expected, (size_t)len) != 0 ||
        ((*rest)[len] != '\0' && (*rest)[len] != '/')) {
        return false;
    }
    *rest += len + ((*rest)[len] == '/');
    return true;
}

static int find_tensor(struct finds *finds, uint32_t ps,
                       const struct coxi_st_tensor *tensor)
{
    const char *rest;
    uint64_t begin = 0;
    const struct coxi_variable *v = variable_of(finds, tensor->name, &rest);
    if (v == NULL) {
        return 0;
    }
    if (v->kind == COXI_KIND_DENSE) {
        const struct coxi_shard *shard = coxi_variable_shard(v, ps);
        if (shard == NULL || !skip_shard(v, shard, &rest)) {
            return coxi_error(COX_EFORMAT, "%s holds '%s', which does not belong there",
                              finds->manifest->shards[ps].file, tensor->name);
        }
        begin = shard->begin;
    }
    finds->all[finds->n++] = (struct found){v, *rest != '\0' ? rest : "values",
                                            (struct coxi_piece){ps, begin, tensor}};
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct found *x = a;
    const struct found *y = b;
    if (x->variable != y->variable) {
        return x->variable->id < y->variable->id ? -1 : 1;
    }
    int order = compare_parts(x->part, y->part);
    if (order != 0) {
        return order;
    }
    if (x->piece.begin != y->piece.begin) {
        return x->piece.begin < y->piece.begin ? -1 : 1;
    }
    return (x->piece.ps > y->piece.ps) - (x->piece.ps < y->piece.ps);
}

/* Finds all tensors of all shards, and sorts them; finds->all and by_name are for
 * free(). */
static int find_all(struct coxi_opening *opening, struct finds *finds)
{
    const struct coxi_checkpoint *checkpoint = opening->checkpoint;
    const struct coxi_manifest *m = checkpoint->manifest;
    size_t n = 0;
    int r = 0;
    for (uint32_t i = 0; i < m->n_shards; i++) {
        n += coxi_st_count(checkpoint->shards[i]);
    }
    finds->manifest = m;
    finds->all = calloc(n + 1, sizeof(*finds->all));
    finds->by_name = calloc(m->n_variables + 1, sizeof(*finds->by_name));
    if (finds->all == NULL || finds->by_name == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (uint32_t i = 0; i < m->n_variables; i++) {
        finds->by_name[i] = m->variables[i];
    }
    qsort(finds->by_name, m->n_variables, sizeof(*finds->by_name), by_variable_name);
    for (uint32_t i = 0; r == 0 && i < m->n_shards; i++) {
        const struct coxi_st_file *shard = checkpoint->shards[i];
        for (size_t t = 0; r == 0 && t < coxi_st_count(shard); t++) {
            r = find_tensor(finds, i, coxi_st_at(shard, t));
            r = r != 0 ? coxi_opening_fault(opening, r) : 0;
        }
    }
    qsort(finds->all, finds->n, sizeof(*finds->all), by_place);
    return r;
}

/* ---- wholes */

static const char *u64_dtype = "U64";

/* Sets *ret to the number of the variable's rows on this ps; for a table, the number of
 * its keys. */
static bool rows_on(const struct coxi_checkpoint *checkpoint,
                    const struct coxi_variable *v, uint32_t ps, uint64_t *ret)
{
    if (v->kind == COXI_KIND_DENSE) {
        const struct coxi_shard *shard = coxi_variable_shard(v, ps);
        *ret = shard != NULL ? shard->count : 0;
        return shard != NULL;
    }
    char name[COXI_WIRE_NAME_MAX + 8];
    (void)snprintf(name, sizeof(name), "%s/keys", v->name);
    const struct coxi_st_tensor *keys = coxi_st_find(checkpoint->shards[ps], name);
    *ret = keys != NULL ? keys->shape[0] : 0;
    return keys != NULL && keys->rank == 1;
}

/* True if the piece has as many rows as its ps has, and the type and other dimensions
 * of `whole`. */
static bool piece_fits(const struct coxi_checkpoint *checkpoint,
                       const struct coxi_whole *whole, const struct coxi_piece *piece)
{
    const struct coxi_variable *v = whole->variable;
    const struct coxi_st_tensor *t = piece->tensor;
    uint64_t rows = 0;
    if (strcmp(whole->part, "step") == 0) {
        return strcmp(t->dtype, u64_dtype) == 0 && t->rank == 1 && t->shape[0] == 1;
    }
    if (strcmp(whole->part, "rate") == 0) {
        return strcmp(t->dtype, coxi_dtype_name(COX_F64)) == 0 && t->rank == 1 &&
               t->shape[0] == COXI_RATE_NUMBERS;
    }
    if (!rows_on(checkpoint, v, piece->ps, &rows) || t->rank == 0 ||
        t->shape[0] != rows || strcmp(t->dtype, whole->dtype) != 0 ||
        t->rank != whole->rank) {
        return false;
    }
    return memcmp(t->shape + 1, whole->shape + 1, (t->rank - 1) * sizeof(*t->shape)) ==
           0;
}

/* Sets the type and shape of a part, except its rows. Parts of the state take them from
 * their first piece. */
static void describe(struct coxi_whole *whole)
{
    const struct coxi_variable *v = whole->variable;
    const struct coxi_st_tensor *first = whole->pieces[0].tensor;
    bool values = strcmp(whole->part, "values") == 0;
    whole->dtype = first->dtype;
    whole->rank = first->rank;
    memcpy(whole->shape, first->shape, sizeof(whole->shape));
    if (strcmp(whole->part, "keys") == 0) {
        whole->dtype = u64_dtype;
        whole->rank = 1;
    } else if (values && v->kind == COXI_KIND_TABLE) {
        whole->dtype = coxi_dtype_name(v->dtype);
        whole->rank = 2;
        whole->shape[1] = coxi_table_dim(v);
    } else if (values) {
        whole->dtype = coxi_dtype_name(v->dtype);
        whole->rank = v->rank;
        memcpy(whole->shape, v->shape, sizeof(whole->shape));
    }
}

/* How many ps must have a piece of each part of the variable. */
static size_t n_pieces_of(const struct coxi_manifest *m, const struct coxi_variable *v)
{
    return v->kind == COXI_KIND_TABLE ? m->n_shards : v->n_shards;
}

static int bad_piece(const struct coxi_checkpoint *checkpoint,
                     const struct coxi_piece *piece)
{
    return coxi_error(COX_EFORMAT,
                      "%s/%s: tensor '%s' has not the type and shape that belong there",
                      checkpoint->path, checkpoint->manifest->shards[piece->ps].file,
                      piece->tensor->name);
}

/* Puts one part of a variable together from its pieces on all ps, found[0..n). */
static int join(const struct coxi_checkpoint *checkpoint, const struct found *found,
                size_t n, struct coxi_whole *whole)
{
    const struct coxi_variable *v = found[0].variable;
    *whole = (struct coxi_whole){.variable = v, .part = found[0].part, .n_pieces = n};
    whole->pieces = calloc(n, sizeof(*whole->pieces));
    bool plain = v->kind == COXI_KIND_DENSE && strcmp(whole->part, "values") == 0;
    if (whole->pieces == NULL ||
        asprintf(&whole->name, plain ? "%s" : "%s/%s", v->name, whole->part) < 0) {
        whole->name = NULL;
        return coxi_error_memory("a checkpoint");
    }
    uint64_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        whole->pieces[i] = found[i].piece;
    }
    describe(whole);
    for (size_t i = 0; i < n; i++) {
        if (!piece_fits(checkpoint, whole, &whole->pieces[i])) {
            return bad_piece(checkpoint, &whole->pieces[i]);
        }
        whole->pieces[i].begin = rows;
        rows += whole->pieces[i].tensor->shape[0];
        whole->bytes += whole->pieces[i].tensor->bytes;
    }
    if (whole->rank > 0) {
        whole->shape[0] = rows;
    }
    return 0;
}

/* Checks that each ps with rows of the variable has a piece of this part, and that no
 * rows are missing. */
static int check_complete(const struct coxi_checkpoint *checkpoint,
                          const struct coxi_variable *v, const char *part)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    const struct coxi_whole *whole = coxi_checkpoint_find(checkpoint, v, part);
    size_t have = whole != NULL ? whole->n_pieces : 0;
    for (uint32_t ps = 0; have < n_pieces_of(m, v) && ps < m->n_shards; ps++) {
        bool there = v->kind == COXI_KIND_DENSE && coxi_variable_shard(v, ps) == NULL;
        for (size_t i = 0; !there && i < have; i++) {
            there = whole->pieces[i].ps == ps;
        }
        if (!there) {
            return coxi_error(COX_EFORMAT, "%s/%s lacks the %s of '%s'",
                              checkpoint->path, m->shards[ps].file, part, v->name);
        }
    }
    return 0;
}

/* Checks that each variable has values (and keys), and that every ps has a part if any
 * ps has it. Rates are excepted, because a rate may have been set between the snapshots
 * of two ps. */
static int check_all_there(struct coxi_opening *opening)
{
    const struct coxi_checkpoint *checkpoint = opening->checkpoint;
    const struct coxi_manifest *m = checkpoint->manifest;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < m->n_variables; i++) {
        const struct coxi_variable *v = m->variables[i];
        r = check_complete(checkpoint, v, "values");
        if (r == 0 && v->kind == COXI_KIND_TABLE) {
            r = check_complete(checkpoint, v, "keys");
        }
        r = r != 0 ? coxi_opening_fault(opening, r) : 0;
    }
    for (size_t i = 0; r == 0 && i < checkpoint->n_wholes; i++) {
        const struct coxi_whole *whole = &checkpoint->wholes[i];
        if (strcmp(whole->part, "values") != 0 && strcmp(whole->part, "keys") != 0 &&
            strcmp(whole->part, "rate") != 0) {
            r = check_complete(checkpoint, whole->variable, whole->part);
            r = r != 0 ? coxi_opening_fault(opening, r) : 0;
        }
    }
    return r;
}

static int join_all(struct coxi_opening *opening, const struct finds *finds)
{
    struct coxi_checkpoint *checkpoint = opening->checkpoint;
    int r = 0;
    checkpoint->n_wholes = 0;
    checkpoint->wholes = calloc(finds->n + 1, sizeof(*checkpoint->wholes));
    if (checkpoint->wholes == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (size_t i = 0, n; r == 0 && i < finds->n; i += n) {
        const struct found *first = &finds->all[i];
        for (n = 1; i + n < finds->n && first[n].variable == first->variable &&
                    strcmp(first[n].part, first->part) == 0;) {
            n++;
        }
        r = join(checkpoint, first, n, &checkpoint->wholes[checkpoint->n_wholes]);
        checkpoint->n_wholes++;
        r = r != 0 ? coxi_opening_fault(opening, r) : 0;
    }
    return r;
}

int coxi_checkpoint_join(struct coxi_opening *opening)
{
    struct finds finds = {0};
    int r = find_all(opening, &finds);
    if (r == 0) {
        r = join_all(opening, &finds);
    }
    free(finds.all);
    free(finds.by_name);
    return r == 0 ? check_all_there(opening) : r;
}

/* ---- looking them up */

const struct coxi_whole *coxi_checkpoint_find(const struct coxi_checkpoint *checkpoint,
                                              const struct coxi_variable *variable,
                                              const char *part)
{
    size_t begin = 0;
    size_t end = checkpoint->n_wholes;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct coxi_whole *whole = &checkpoint->wholes[middle];
        int order = whole->variable->id != variable->id
                        ? (whole->variable->id > variable->id) -
                              (whole->variable->id < variable->id)
                        : compare_parts(whole->part, part);
        if (order == 0) {
            return whole;
        }
        begin = order < 0 ? middle + 1 : begin;
        end = order < 0 ? end : middle;
    }
    return NULL;
}

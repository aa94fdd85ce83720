/* See listing.h. Cost: one reading of the directory; in a store, of all names of its objects. */
#include "checkpoint/listing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/stored.h"
#include "common/error.h"

/* "ckpt-3" or "ckpt-3.tmp"; false: it is neither. */
static bool parse_name(const char *name, struct coxi_listed *ret)
{
    static const char prefix[] = "ckpt-";
    const char *digits = name + sizeof(prefix) - 1;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || *digits < '1' ||
        *digits > '9') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    ret->number = strtoull(digits, &end, 10);
    ret->unfinished = strcmp(end, ".tmp") == 0;
    return errno == 0 && (*end == '\0' || ret->unfinished);
}

static int by_number(const void *a, const void *b)
{
    const struct coxi_listed *x = a;
    const struct coxi_listed *y = b;
    return x->number != y->number ? (x->number < y->number ? -1 : 1)
                                  : x->unfinished - y->unfinished;
}

struct list {
    struct coxi_listed *all;
    size_t n;
    size_t capacity;
};

static int add_one(struct list *list, const struct coxi_listed *one)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity * 2 + 16;
        struct coxi_listed *more = realloc(list->all, capacity * sizeof(*list->all));
        if (more == NULL) {
            return coxi_error_memory("a list of checkpoints");
        }
        list->all = more;
        list->capacity = capacity;
    }
    list->all[list->n++] = *one;
    return 0;
}

static int add_name(void *arg, const char *name)
{
    struct coxi_listed one;
    return parse_name(name, &one) ? add_one(arg, &one) : 0;
}

/* An object of a checkpoint. Those of a checkpoint follow each other in a list. */
static int add_object(void *arg, const struct coxi_s3_object *object)
{
    struct list *list = arg;
    char name[64];
    size_t len = strcspn(object->key, "/");
    struct coxi_listed one;
    (void)snprintf(name, sizeof(name), "%.*s", (int)len, object->key);
    if (len >= sizeof(name) || object->key[len] == '\0' || !parse_name(name, &one) ||
        one.unfinished) {
        return 0;
    }
    one.unfinished = true;
    int r = 0;
    if (list->n == 0 || list->all[list->n - 1].number != one.number) {
        r = add_one(list, &one);
    }
    if (r == 0 && strcmp(object->key + len, "/manifest.json") == 0) {
        list->all[list->n - 1].unfinished = object->bytes <= COXI_PLACEHOLDER_MAX;
    }
    return r;
}

int coxi_checkpoints_list(const char *dir, struct coxi_listed **ret, size_t *ret_n)
{
    struct list list = {0};
    int r = coxi_place_in_store(dir) ? coxi_stored_list(dir, "ckpt-", add_object, &list)
                                     : coxi_place_names(dir, "ckpt-", add_name, &list);
    if (r != 0) {
        free(list.all);
        return r;
    }
    if (list.n > 0) {
        qsort(list.all, list.n, sizeof(*list.all), by_number);
    }
    *ret = list.all;
    *ret_n = list.n;
    return 0;
}

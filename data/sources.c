/* See sources.h. */
#include "data/sources.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "data/name.h"
#include "data/s3.h"
#include "data/source_http.h"
#include "data/source_path.h"

struct scheme {
    const char *name; /* before "://" */
    int (*open)(const char *name, struct coxi_source *ret);
    /* lists the files that match a pattern; NULL: patterns are errors */
    int (*find)(const char *pattern, struct coxi_found *ret);
    const char *special; /* the characters that make a key, or path, a pattern */
};

/* A name without a scheme is a path. A ? begins a URL's query. */
static const struct scheme schemes[] = {
    {"http", coxi_source_open_http, NULL, "*["},
    {"https", coxi_source_open_http, NULL, "*["},
    {"s3", coxi_source_open_s3, coxi_name_s3_find, "*?["},
};

/* NULL, with an error: the scheme is not known. */
static const struct scheme *scheme_of(const char *name)
{
    size_t len = (size_t)(strstr(name, "://") - name);
    for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
        const struct scheme *scheme = &schemes[i];
        if (strlen(scheme->name) == len && memcmp(scheme->name, name, len) == 0) {
            return scheme;
        }
    }
    (void)coxi_error(COX_EINVAL, "%s: there are no %.*s:// sources",
                     coxi_name_shown(name).text, (int)len, name);
    return NULL;
}

int coxi_source_open(const char *name, struct coxi_source *ret)
{
    if (!coxi_name_has_scheme(name)) {
        return coxi_source_open_path(name, ret);
    }
    const struct scheme *scheme = scheme_of(name);
    return scheme != NULL ? scheme->open(name, ret) : COX_EINVAL;
}

/* ---- patterns */

int coxi_found_take(struct coxi_found *found, char *name)
{
    if (found->n == found->room) {
        size_t room = found->room * 2 + 16;
        char **names = realloc(found->names, room * sizeof(*names));
        if (names == NULL) {
            free(name);
            return coxi_error_memory("the names of files");
        }
        found->names = names;
        found->room = room;
    }
    found->names[found->n++] = name;
    return 0;
}

void coxi_found_fini(struct coxi_found *found)
{
    for (size_t i = 0; i < found->n; i++) {
        free(found->names[i]);
    }
    free(found->names);
    *found = (struct coxi_found){0};
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_matches(const struct scheme *scheme, const char *pattern,
                        struct coxi_found *ret)
{
    struct coxi_found found = {0};
    if (scheme->find == NULL) {
        return coxi_error(COX_EINVAL,
                          "%s: %s:// addresses cannot be patterns, because nobody "
                          "lists the files of a web server",
                          coxi_name_shown(pattern).text, scheme->name);
    }
    int r = scheme->find(pattern, &found);
    if (r != 0) {
        return r;
    }
    if (found.n == 0) {
        return coxi_error(COX_ENOENT, "no file matches %s", pattern);
    }
    qsort(found.names, found.n, sizeof(*found.names), by_bytes);
    *ret = found;
    return 0;
}

int coxi_source_find(const char *pattern, struct coxi_found *ret)
{
    const struct scheme *scheme = scheme_of(pattern);
    if (scheme == NULL) {
        return COX_EINVAL;
    }
    const char *host = strstr(pattern, "://") + 3;
    if (strpbrk(host + strcspn(host, "/"), scheme->special) != NULL) {
        return find_matches(scheme, pattern, ret);
    }
    struct coxi_found found = {0};
    char *copy = strdup(pattern);
    int r = copy != NULL ? coxi_found_take(&found, copy)
                         : coxi_error_memory("the names of files");
    if (r == 0) {
        *ret = found;
    } else {
        coxi_found_fini(&found);
    }
    return r;
}

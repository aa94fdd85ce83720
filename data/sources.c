/* See sources.h. */
#include "data/sources.h"

#include <string.h>

#include "common/error.h"
#include "data/source_path.h"

struct scheme {
    const char *name; /* before "://" */
    int (*open)(const char *name, struct coxi_source *ret);
};

/* A name without a scheme is a path. */
static const struct scheme schemes[] = {
    {NULL, NULL},
};

int coxi_source_open(const char *name, struct coxi_source *ret)
{
    const char *colon = strstr(name, "://");
    if (colon == NULL) {
        return coxi_source_open_path(name, ret);
    }
    size_t len = (size_t)(colon - name);
    for (const struct scheme *s = schemes; s->name != NULL; s++) {
        if (strlen(s->name) == len && memcmp(s->name, name, len) == 0) {
            return s->open(name, ret);
        }
    }
    return coxi_error(COX_EINVAL, "%s: this build has no %.*s:// sources", name,
                      (int)len, name);
}

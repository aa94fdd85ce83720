/* See name.h. s3://BUCKET/KEY has neither user nor query: a key may have any byte. */
#include "data/name.h"

#include <stdio.h>
#include <string.h>

bool coxi_name_has_scheme(const char *name)
{
    return strstr(name, "://") != NULL;
}

static bool has_query(const char *name)
{
    return coxi_name_has_scheme(name) && strncmp(name, "s3://", 5) != 0;
}

/* The length without the query and fragment. */
static size_t length_of(const char *name)
{
    return has_query(name) ? strcspn(name, "?#") : strlen(name);
}

static bool ends(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len > n && memcmp(name + len - n, end, n) == 0;
}

bool coxi_name_has_end(const char *name, const char *end)
{
    return ends(name, length_of(name), end);
}

bool coxi_name_inflates(const char *name)
{
    return coxi_name_has_end(name, ".gz");
}

bool coxi_name_has_format(const char *name, const char *end)
{
    return ends(name, length_of(name) - (coxi_name_inflates(name) ? 3 : 0), end);
}

bool coxi_name_is_aside(const char *pattern, const char *name)
{
    static const char *const ends_of[] = {".coxi", ".part"};
    bool aside = false;
    for (size_t i = 0; i < sizeof(ends_of) / sizeof(*ends_of); i++) {
        aside |= coxi_name_has_end(name, ends_of[i]) &&
                 !coxi_name_has_end(pattern, ends_of[i]);
    }
    return aside;
}

/* The parts of a name that messages show: [0, scheme) and [host, end). */
struct parts {
    size_t scheme;
    size_t host;
    size_t end;
};

static struct parts parts_of(const char *name)
{
    size_t end = length_of(name);
    if (!has_query(name)) {
        return (struct parts){0, 0, end};
    }
    size_t scheme = (size_t)(strstr(name, "://") - name) + strlen("://");
    struct parts parts = {scheme, scheme, end};
    if (scheme > end) { /* it is in the query */
        return (struct parts){0, 0, end};
    }
    for (size_t at = scheme; at < end && name[at] != '/'; at++) {
        if (name[at] == '@') { /* the last one: a password may have others */
            parts.host = at + 1;
        }
    }
    return parts;
}

void coxi_name_hide(char *name)
{
    const struct parts parts = parts_of(name);
    memmove(name + parts.scheme, name + parts.host, parts.end - parts.host);
    name[parts.scheme + parts.end - parts.host] = '\0';
}

struct coxi_shown_name coxi_name_shown(const char *name)
{
    struct coxi_shown_name shown;
    const struct parts parts = parts_of(name);
    (void)snprintf(shown.text, sizeof(shown.text), "%.*s%.*s", (int)parts.scheme, name,
                   (int)(parts.end - parts.host), name + parts.host);
    return shown;
}

/* See host_list.h. Cost: linear in the hosts that a list names. */
#include "cluster/host_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum { DIGITS_MAX = 9 };

void coxi_host_list_fini(struct coxi_host_list *hosts)
{
    for (size_t i = 0; i < hosts->n; i++) {
        free(hosts->names[i]);
    }
    free(hosts->names);
    free(hosts->tasks);
    *hosts = (struct coxi_host_list){0};
}

/* Both arrays have room for a power of two of hosts. */
static int add_host(struct coxi_host_list *hosts, const char *name, uint32_t tasks)
{
    if (hosts->n == COXI_HOST_LIST_MAX) {
        return coxi_error(COX_ELIMIT, "it names more than %d hosts",
                          COXI_HOST_LIST_MAX);
    }
    if ((hosts->n & (hosts->n - 1)) == 0) {
        size_t room = hosts->n == 0 ? 1 : 2 * hosts->n;
        char **names = realloc(hosts->names, room * sizeof(*names));
        hosts->names = names != NULL ? names : hosts->names;
        uint32_t *counts = realloc(hosts->tasks, room * sizeof(*counts));
        hosts->tasks = counts != NULL ? counts : hosts->tasks;
        if (names == NULL || counts == NULL) {
            return coxi_error_memory("hosts");
        }
    }
    hosts->names[hosts->n] = strdup(name);
    if (hosts->names[hosts->n] == NULL) {
        return coxi_error_memory("hosts");
    }
    hosts->tasks[hosts->n] = tasks;
    hosts->n++;
    return 0;
}

/* Reads digits; *len is their number. */
static int read_number(const char **at, uint32_t *ret, size_t *len)
{
    size_t n = strspn(*at, "0123456789");
    if (n == 0 || n > DIGITS_MAX) {
        return coxi_error(COX_EINVAL, "a number is missing, or too long, at '%.40s'",
                          *at);
    }
    *ret = (uint32_t)strtoul(*at, NULL, 10);
    *len = n;
    *at += n;
    return 0;
}

/* ---- names */

/* A name that is being put together, and what comes after it. */
struct naming {
    struct coxi_host_list *hosts;
    char name[COXI_HOST_NAME_MAX + 1];
    uint32_t tasks;
};

static int name_on(struct naming *naming, size_t len, const char *rest);

static int add_text(struct naming *naming, size_t *len, const char *text, size_t n)
{
    if (n > COXI_HOST_NAME_MAX - *len) {
        return coxi_error(COX_EINVAL, "a name is longer than %d bytes",
                          COXI_HOST_NAME_MAX);
    }
    memcpy(naming->name + *len, text, n);
    *len += n;
    naming->name[*len] = '\0';
    return 0;
}

/* Names the hosts of one range, "07-09" or "5"; `rest` is what comes after the
 * brackets. */
static int name_range(struct naming *naming, size_t len, const char **at,
                      const char *rest)
{
    uint32_t first = 0;
    uint32_t last;
    size_t width = 0;
    size_t ignored;
    int r = read_number(at, &first, &width);
    last = first;
    if (r == 0 && **at == '-') {
        (*at)++;
        r = read_number(at, &last, &ignored);
    }
    if (r == 0 && last < first) {
        r = coxi_error(COX_EINVAL, "the range %u-%u goes down", first, last);
    }
    for (uint32_t i = first; r == 0 && i <= last; i++) {
        char digits[DIGITS_MAX + 2];
        size_t to = len;
        int n = snprintf(digits, sizeof(digits), "%0*u", (int)width, i);
        r = add_text(naming, &to, digits, (size_t)n);
        r = r == 0 ? name_on(naming, to, rest) : r;
    }
    return r;
}

/* Goes on with a name of which `len` bytes are there. Each level below handles another
 * pair of brackets and has put a digit into the name, so its length bounds them. */
static int name_on(struct naming *naming, size_t len, const char *rest)
{
    size_t plain = strcspn(rest, "[,:");
    int r = add_text(naming, &len, rest, plain);
    if (r != 0 || rest[plain] != '[') {
        return r != 0 ? r : add_host(naming->hosts, naming->name, naming->tasks);
    }
    const char *at = rest + plain + 1;
    const char *end = strchr(at, ']');
    if (end == NULL) {
        return coxi_error(COX_EINVAL, "'%.40s' has no ']'", rest);
    }
    r = name_range(naming, len, &at, end + 1);
    while (r == 0 && *at == ',') {
        at++;
        r = name_range(naming, len, &at, end + 1);
    }
    return r == 0 && at != end ? coxi_error(COX_EINVAL,
                                            "in brackets are ranges like 1-3,7, not "
                                            "'%.40s'",
                                            at)
                               : r;
}

/* The end of the name that begins at `at`: a comma or colon outside brackets, or the
 * NUL. */
static const char *end_of_name(const char *at)
{
    bool inside = false;
    for (; *at != '\0' && (inside || (*at != ',' && *at != ':')); at++) {
        inside = *at == '[' || (inside && *at != ']');
    }
    return at;
}

/* Reads one member of the list, and moves *at behind it. */
static int read_member(struct coxi_host_list *hosts, const char **at)
{
    struct naming naming = {.hosts = hosts, .tasks = 1};
    const char *name = *at;
    size_t ignored;
    int r = 0;
    *at = end_of_name(name);
    if (*at == name) {
        return coxi_error(COX_EINVAL, "a name is missing at '%.40s'", name);
    }
    if (**at == ':') {
        (*at)++;
        r = read_number(at, &naming.tasks, &ignored);
    }
    if (r == 0 && **at != '\0' && **at != ',') {
        r = coxi_error(COX_EINVAL, "'%.40s' is not understood", *at);
    }
    return r == 0 ? name_on(&naming, 0, name) : r;
}

int coxi_host_list_read(const char *list, struct coxi_host_list *ret)
{
    const char *at = list;
    int r = read_member(ret, &at);
    while (r == 0 && *at == ',') {
        at++;
        r = read_member(ret, &at);
    }
    return r;
}

/* ---- tasks */

static int read_times(const char **at, uint32_t *ret)
{
    size_t ignored;
    *ret = 1;
    if (strncmp(*at, "(x", 2) != 0) {
        return 0;
    }
    *at += 2;
    int r = read_number(at, ret, &ignored);
    if (r == 0 && **at != ')') {
        r = coxi_error(COX_EINVAL, "')' is missing at '%.40s'", *at);
    }
    *at += r == 0;
    return r;
}

int coxi_host_list_read_tasks(const char *counts, struct coxi_host_list *hosts)
{
    const char *at = counts;
    size_t n = 0;
    int r;
    do {
        uint32_t tasks;
        uint32_t times;
        size_t ignored;
        at += at != counts;
        r = read_number(&at, &tasks, &ignored);
        r = r == 0 ? read_times(&at, &times) : r;
        if (r == 0 && times > hosts->n - n) {
            r = coxi_error(COX_EINVAL, "it counts the tasks of more than %zu hosts",
                           hosts->n);
        }
        for (uint32_t i = 0; r == 0 && i < times; i++) {
            hosts->tasks[n++] = tasks;
        }
    } while (r == 0 && *at == ',');
    if (r == 0 && (*at != '\0' || n != hosts->n)) {
        r = coxi_error(COX_EINVAL,
                       "it counts the tasks of %zu hosts, there are %zu (at '%.40s')",
                       n, hosts->n, at);
    }
    return r;
}

uint64_t coxi_host_list_tasks(const struct coxi_host_list *hosts)
{
    uint64_t n = 0;
    for (size_t i = 0; i < hosts->n; i++) {
        n += hosts->tasks[i];
    }
    return n;
}

size_t coxi_host_list_find(const struct coxi_host_list *hosts, const char *name)
{
    size_t i = 0;
    while (i < hosts->n && strcmp(hosts->names[i], name) != 0) {
        i++;
    }
    return i;
}

/* See hosts.h. A host is [USER@]NAME[:PORT][=ADDRESS]; an IPv6 address as NAME is in
 * brackets if a port follows. */
#include "cli/hosts.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"

enum { FILE_MAX_BYTES = 1 << 20 };

static void host_fini(struct coxi_host *host)
{
    free(host->target);
    free(host->port);
    free(host->name);
    free(host->address);
}

void coxi_hosts_fini(struct coxi_hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++) {
        host_fini(&hosts->all[i]);
    }
    free(hosts->all);
    *hosts = (struct coxi_hosts){0};
}

static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n <= 5 && text[n] == '\0' && strtoul(text, NULL, 10) - 1 < 65535;
}

/* Cuts a word into its parts, all within the word. False: it is no host. */
static bool cut(char *word, struct coxi_host *ret)
{
    char *address = strchr(word, '=');
    if (address != NULL) {
        *address++ = '\0';
    }
    char *at = strrchr(word, '@');
    char *name = at != NULL ? at + 1 : word;
    char *port = NULL;
    if (name[0] == '[') {
        char *end = strchr(name, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        port = end[1] == ':' ? end + 2 : NULL;
        *end = '\0';
        memmove(name, name + 1, strlen(name + 1) + 1); /* with the NUL */
    } else if (strchr(name, ':') != NULL && strchr(name, ':') == strrchr(name, ':')) {
        port = strchr(name, ':');
        *port++ = '\0';
    }
    *ret = (struct coxi_host){word, port, name, address};
    /* a word that begins with '-' would be an option of ssh */
    return *name != '\0' && *word != '-' && *name != '-' && at != word &&
           (port == NULL || is_port(port)) && (address == NULL || *address != '\0');
}

static int add(struct coxi_hosts *hosts, const char *text)
{
    struct coxi_host parts = {0};
    char *word = strdup(text);
    int r = word == NULL ? coxi_error_memory("hosts") : 0;
    if (r == 0 && hosts->n == COXI_HOSTS_MAX) {
        r = coxi_error(COX_EINVAL, "more than %d hosts", COXI_HOSTS_MAX);
    }
    if (r == 0 && !cut(word, &parts)) {
        r = coxi_error(COX_EINVAL, "'%s' is no host: say [USER@]NAME[:PORT][=ADDRESS]",
                       text);
    }
    for (size_t i = 0; r == 0 && i < hosts->n; i++) {
        if (strcmp(hosts->all[i].name, parts.name) == 0) {
            r = coxi_error(COX_EINVAL, "host %s is listed twice", parts.name);
        }
    }
    if (r == 0) {
        struct coxi_host *host = &hosts->all[hosts->n++];
        host->target = strdup(parts.target);
        host->name = strdup(parts.name);
        host->port = parts.port != NULL ? strdup(parts.port) : NULL;
        host->address = parts.address != NULL ? strdup(parts.address) : NULL;
        if (host->target == NULL || host->name == NULL ||
            (host->port == NULL) != (parts.port == NULL) ||
            (host->address == NULL) != (parts.address == NULL)) {
            r = coxi_error_memory("hosts");
        }
    }
    free(word);
    return r;
}

static void remove_comments(char *text)
{
    for (char *at = text; (at = strchr(at, '#')) != NULL;) {
        size_t n = strcspn(at, "\n");
        memset(at, ' ', n);
    }
}

int coxi_hosts_read(const char *text, struct coxi_hosts *ret)
{
    struct coxi_hosts hosts = {.all = calloc(COXI_HOSTS_MAX, sizeof(struct coxi_host))};
    bool is_file = strchr(text, '/') != NULL;
    char *words = is_file ? NULL : strdup(text);
    uint8_t *bytes = NULL;
    size_t len;
    int r = is_file ? coxi_file_read(text, FILE_MAX_BYTES, &bytes, &len) : 0;
    words = bytes != NULL ? (char *)bytes : words;
    if (r == 0 && (hosts.all == NULL || words == NULL)) {
        r = coxi_error_memory("hosts");
    }
    if (r == 0 && is_file) {
        remove_comments(words);
    }
    char *rest = NULL;
    char *word = r == 0 ? strtok_r(words, ", \t\r\n", &rest) : NULL;
    while (r == 0 && word != NULL) {
        r = add(&hosts, word);
        word = strtok_r(NULL, ", \t\r\n", &rest);
    }
    if (r == 0 && hosts.n == 0) {
        r = coxi_error(COX_EINVAL, "%s names no host", is_file ? text : "the list");
    }
    if (r != 0 && is_file) {
        r = coxi_error(r, "%s: %s", text, coxi_error_text());
    }
    free(words);
    if (r != 0) {
        coxi_hosts_fini(&hosts);
        return r;
    }
    *ret = hosts;
    return 0;
}

/* URLs of links; see link.h. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "net/link.h"

/* An address may come from a peer, and goes to logs and terminals. */
static int check_characters(const char *url, bool is_path)
{
    for (const char *at = url; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c < ' ' || c == 0x7f || (!is_path && c > 0x7f)) {
            return coxi_error(
                COX_EADDRESS,
                "an address has the character 0x%02x: a host's name and a "
                "port have letters, digits and signs only",
                c);
        }
    }
    return 0;
}

/* Checks the part after "tcp://": a host without several colons, and a port. */
static int check_host_and_port(const char *url, const char *host)
{
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *colon = strchr(bracket != NULL ? bracket : host, ':');
    size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;
    if (check_characters(url, false) != 0) {
        return COX_EADDRESS;
    }
    if (colon == NULL || colon[1] == '\0') {
        return coxi_error(COX_EADDRESS,
                          "'%s' has no port: an address is host:port, or "
                          "ipc:///path",
                          url);
    }
    if (bracket == NULL && strchr(colon + 1, ':') != NULL) {
        return coxi_error(COX_EADDRESS,
                          "'%s' has several colons: write an IPv6 address in brackets, "
                          "[::1]:port",
                          url);
    }
    if (colon == host || strcspn(host, "/ ") < (size_t)(colon - host)) {
        return coxi_error(COX_EADDRESS, "'%s' has no host: an address is host:port",
                          url);
    }
    if (colon[1 + digits] != '\0') {
        return coxi_error(COX_EADDRESS, "'%s': the port '%s' is no number", url,
                          colon + 1);
    }
    if (digits > 5 || strtol(colon + 1, NULL, 10) > UINT16_MAX) {
        return coxi_error(COX_EADDRESS, "'%s': the port %s is above %d", url, colon + 1,
                          UINT16_MAX);
    }
    return 0;
}

int coxi_url_check(const char *url)
{
    const char *rest = strstr(url, "://");
    size_t scheme = rest != NULL ? (size_t)(rest - url) : 0;
    if (rest == NULL) {
        return coxi_error(COX_EADDRESS,
                          "'%s' is no address: it is like tcp://host:port or "
                          "ipc:///path",
                          url);
    }
    if (strlen(url) > COXI_URL_MAX) {
        return coxi_error(COX_EADDRESS, "'%s' is longer than %d bytes", url,
                          COXI_URL_MAX);
    }
    int r = check_characters(url, true);
    if (r != 0) {
        return r;
    }
    if (strncmp(url, "ipc://", 6) == 0) {
        return url[6] == '/' && url[7] != '\0'
                   ? 0
                   : coxi_error(COX_EADDRESS,
                                "'%s' has no path: it is like ipc:///path", url);
    }
    if (strncmp(url, "tcp://", 6) == 0) {
        return check_host_and_port(url, rest + 3);
    }
    if (strncmp(url, "tls+tcp://", 10) == 0) {
        return coxi_error(COX_EADDRESS,
                          "'%s': there is no TLS here, because a key protects "
                          "connections without it: write %s, and give all members of "
                          "the run a key (coxswain key new)",
                          url, url + strlen("tls+"));
    }
    return coxi_error(COX_EADDRESS,
                      "'%s': there is no transport '%.*s': an address is like "
                      "tcp://host:port or ipc:///path",
                      url, (int)scheme, url);
}

int coxi_url_from(const char *address, char ret[COXI_URL_MAX + 1])
{
    char url[COXI_URL_MAX + 1];
    bool is_url = strstr(address, "://") != NULL;
    int r = strlen(address) + strlen("tcp://") > COXI_URL_MAX
                ? coxi_error(COX_EADDRESS, "'%s' is longer than %d bytes", address,
                             COXI_URL_MAX)
                : 0;
    if (r == 0) {
        (void)snprintf(url, sizeof(url), "%s%s", is_url ? "" : "tcp://", address);
        r = is_url ? coxi_url_check(url) : check_host_and_port(address, address);
    }
    if (r == 0) {
        memcpy(ret, url, sizeof(url));
    }
    return r;
}

bool coxi_url_is_ipc(const char *url)
{
    return strncmp(url, "ipc://", 6) == 0;
}

bool coxi_url_is_local(const char *url)
{
    static const char numbers[] = "tcp://127.";
    static const char *const prefixes[] = {"ipc://",
                                           "tcp://localhost:", "tcp://[::1]:"};
    if (strncmp(url, numbers, strlen(numbers)) == 0) {
        /* Accept only digits and dots, because a host called 127.example.org may be
         * anywhere. */
        return url[strlen(numbers) + strspn(url + strlen(numbers), "0123456789.")] ==
               ':';
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        if (strncmp(url, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* See membership.h: where peers reach a process. Pure; any thread. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cluster/membership.h"
#include "common/error.h"
#include "net/link.h"

static bool is_any_host(const char *host, size_t len)
{
    static const char *const any[] = {"0.0.0.0", "[::]", "*"};
    for (size_t i = 0; i < sizeof(any) / sizeof(*any); i++) {
        if (strlen(any[i]) == len && memcmp(any[i], host, len) == 0) {
            return true;
        }
    }
    return false;
}

int coxi_member_url(const char *url, const char *advertise, const char *own_host,
                    char **ret)
{
    char address[COXI_URL_MAX + 1];
    char full[COXI_URL_MAX + 1] = "";
    const char *host = strncmp(url, "tcp://", 6) == 0 ? url + 6 : NULL;
    const char *port = host != NULL ? strrchr(host, ':') : NULL;
    int n;
    if (port == NULL ||
        (advertise == NULL && !is_any_host(host, (size_t)(port - host)))) {
        n = snprintf(address, sizeof(address), "%s", url);
    } else if (advertise == NULL) {
        bool is_ipv6 = strchr(own_host, ':') != NULL;
        n = snprintf(address, sizeof(address), "%s%s%s%s", is_ipv6 ? "[" : "", own_host,
                     is_ipv6 ? "]" : "", port);
    } else {
        const char *end = strrchr(advertise, ']');
        bool has_port = strchr(end != NULL ? end : advertise, ':') != NULL;
        n = snprintf(address, sizeof(address), "%s%s", advertise, has_port ? "" : port);
    }
    int r = n >= (int)sizeof(address)
                ? coxi_error(COX_EADDRESS, "the address '%s' is too long", url)
            : n > 0 ? coxi_url_from(address, full)
                    : 0;
    char *copy = r == 0 ? strdup(full) : NULL;
    if (r == 0 && copy == NULL) {
        r = coxi_error_memory("an address");
    }
    if (r == 0) {
        *ret = copy;
    }
    return r;
}

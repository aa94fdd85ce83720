/* Addresses of the HTTP server: which are allowed, and the socket that listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "http/server.h"

enum { BACKLOG = 128 };

/* ---- texts */

/* True for a number of at most UINT16_MAX. */
static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n <= COXI_HTTP_PORT_MAX && text[n] == '\0' &&
           strtol(text, NULL, 10) <= UINT16_MAX;
}

int coxi_http_split(const char *address, char ret_host[COXI_HTTP_HOST_MAX + 1],
                    char ret_port[COXI_HTTP_PORT_MAX + 1])
{
    const char *colon = strrchr(address, ':');
    const char *port = colon != NULL ? colon + 1 : address;
    const char *begin = address;
    size_t len = colon != NULL ? (size_t)(colon - address) : 0;
    if (strstr(address, "://") != NULL) {
        return coxi_error(COX_EADDRESS,
                          "'%s' is a URL: give the address alone, like 127.0.0.1:8080",
                          address);
    }
    if (!is_port(port)) {
        return coxi_error(COX_EADDRESS,
                          "'%s' is no address: it is like 127.0.0.1:8080, or a port; "
                          "ports are numbers from 0 to %d",
                          address, UINT16_MAX);
    }
    if (len >= 2 && begin[0] == '[' && begin[len - 1] == ']') {
        begin++;
        len -= 2;
    } else if (memchr(begin, ':', len) != NULL) {
        return coxi_error(COX_EADDRESS,
                          "'%s' has several colons: write an IPv6 address in brackets, "
                          "[::1]:port",
                          address);
    }
    if ((len == 0 && colon != NULL) || len > COXI_HTTP_HOST_MAX) {
        return coxi_error(COX_EADDRESS, "'%s' has no host: an address is host:port",
                          address);
    }
    (void)snprintf(ret_host, COXI_HTTP_HOST_MAX + 1, "%.*s", (int)len, begin);
    (void)snprintf(ret_port, COXI_HTTP_PORT_MAX + 1, "%s", port);
    if (len == 0) {
        (void)snprintf(ret_host, COXI_HTTP_HOST_MAX + 1, "127.0.0.1");
    }
    return 0;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (address->sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    }
    return false;
}

bool coxi_http_names_loopback(const char *host)
{
    char name[COXI_HTTP_HOST_MAX + 1];
    struct in_addr in;
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (len > COXI_HTTP_HOST_MAX || len > strlen(host) ||
        (host[len] != '\0' && host[len] != ':')) {
        return false;
    }
    const char *port = host[len] == ':' ? host + len + 1 : "";
    if (port[strspn(port, "0123456789")] != '\0') {
        return false;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)len, host);
    return strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
           (inet_pton(AF_INET, name, &in) == 1 &&
            ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET);
}

/* Its other end has a loopback address, or the same address as this end. */
bool coxi_http_is_of_this_host(int fd)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_storage own = {0};
    socklen_t peer_len = sizeof(peer);
    socklen_t own_len = sizeof(own);
    char hosts[2][INET6_ADDRSTRLEN + 32];
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_len) != 0 ||
        getnameinfo((struct sockaddr *)&peer, peer_len, hosts[0], sizeof(hosts[0]),
                    NULL, 0, NI_NUMERICHOST) != 0 ||
        getnameinfo((struct sockaddr *)&own, own_len, hosts[1], sizeof(hosts[1]), NULL,
                    0, NI_NUMERICHOST) != 0) {
        return false;
    }
    return is_loopback((struct sockaddr *)&peer) || strcmp(hosts[0], hosts[1]) == 0;
}

/* ---- the socket */

/* The URL of a socket that is bound. */
static int tell(int fd, char ret_url[COXI_HTTP_URL_MAX])
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(own);
    char host[INET6_ADDRSTRLEN + 32];
    char port[COXI_HTTP_PORT_MAX + 1];
    if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 ||
        getnameinfo((struct sockaddr *)&own, len, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return coxi_error(COX_EADDRESS, "cannot find out the address in use");
    }
    bool is_6 = own.ss_family == AF_INET6;
    (void)snprintf(ret_url, COXI_HTTP_URL_MAX, "http://%s%s%s:%s", is_6 ? "[" : "",
                   host, is_6 ? "]" : "", port);
    return 0;
}

static int bind_to(const struct addrinfo *to, const char *address, int *ret_fd)
{
    const int on = 1;
    int fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    /* connections that have just ended do not keep the address */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, to->ai_addr, to->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int r = errno == EADDRINUSE
                    ? coxi_error(COX_EADDRESS,
                                 "cannot listen at %s: another program listens there; "
                                 "choose another address (port 0 is any free one)",
                                 address)
                    : coxi_error_errno(COX_EADDRESS, "cannot listen at %s", address);
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    *ret_fd = fd;
    return 0;
}

int coxi_http_listen(const struct coxi_http_options *options, int *ret_fd,
                     char ret_url[COXI_HTTP_URL_MAX])
{
    char host[COXI_HTTP_HOST_MAX + 1];
    char port[COXI_HTTP_PORT_MAX + 1];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    int fd = -1;
    int r = coxi_http_split(options->address, host, port);
    if (r != 0) {
        return r;
    }
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0) {
        return coxi_error(COX_EADDRESS, "%s: %s", options->address,
                          gai_strerror(failed));
    }
    if (!options->open && !is_loopback(found->ai_addr)) {
        r = coxi_error(COX_EADDRESS,
                       "other hosts reach %s, and whoever reaches it may read what is "
                       "served there: listen at 127.0.0.1, or say that it is open "
                       "(cox_options.http_open, --http-open)",
                       options->address);
    }
    if (r == 0) {
        r = bind_to(found, options->address, &fd);
    }
    freeaddrinfo(found);
    if (r == 0) {
        r = tell(fd, ret_url);
    }
    if (r != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    *ret_fd = fd;
    return 0;
}

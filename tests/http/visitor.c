/* See visitor.h. */
#include "tests/http/visitor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/buffer.h"
#include "tests/test.h"

int visitor_connect(const char *url)
{
    const struct timeval patience = {.tv_sec = 8};
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *port = strrchr(url, ':');
    assert_non_null(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        0, setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
    assert_int_equal(0, connect(fd, (struct sockaddr *)&to, sizeof(to)));
    return fd;
}

void visitor_say(int fd, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal((ssize_t)len, send(fd, text, len, MSG_NOSIGNAL));
}

/* Reads until `part` has come, or until the end if that is NULL. */
static char *hear(int fd, const char *part)
{
    struct coxi_buffer heard = {0};
    ssize_t n = 1;
    do {
        assert_code(0, coxi_buffer_reserve(&heard, 65536));
        n = recv(fd, heard.data + heard.len, 65535, 0);
        heard.len += n > 0 ? (size_t)n : 0;
        heard.data[heard.len] = '\0';
    } while (n > 0 && (part == NULL || strstr((char *)heard.data, part) == NULL));
    if (part != NULL && n <= 0) {
        fail_msg("'%s' does not come after: %s", part, (char *)heard.data);
    }
    return (char *)heard.data;
}

char *visitor_hear(int fd)
{
    char *heard = hear(fd, NULL);
    (void)close(fd);
    return heard;
}

char *visitor_hear_until(int fd, const char *part)
{
    return hear(fd, part);
}

char *visitor_ask(const char *url, const char *path, const char *headers)
{
    char request[1024];
    int fd = visitor_connect(url);
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n",
                   path, headers);
    visitor_say(fd, request);
    return visitor_hear(fd);
}

int visitor_status(const char *answer)
{
    return strncmp(answer, "HTTP/1.", 7) == 0 && strlen(answer) > 12
               ? (int)strtol(answer + 9, NULL, 10)
               : -1;
}

const char *visitor_body(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

char *visitor_get(const char *url, const char *path)
{
    char *answer = visitor_ask(url, path, "");
    if (visitor_status(answer) != 200) {
        fail_msg("%s%s: %s", url, path, answer);
    }
    const char *body = visitor_body(answer);
    memmove(answer, body, strlen(body) + 1);
    return answer;
}

double visitor_sample(const char *metrics, const char *sample)
{
    size_t len = strlen(sample);
    for (const char *line = metrics; line != NULL; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        if (strncmp(line, sample, len) == 0 && line[len] == ' ') {
            return strtod(line + len + 1, NULL);
        }
    }
    fail_msg("there is no %s in: %s", sample, metrics);
    return 0;
}

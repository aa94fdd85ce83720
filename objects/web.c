/* See web.h. The pool has at most IDLE_MAX handles; others are freed. */
#include "objects/web.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/sync.h"

enum {
    IDLE_MAX = 32,
    SLOW_BYTES = 1024, /* a second: less is a stall */
    ALIVE_S = 15,      /* the kernel looks this often whether a silent peer lives */
};

/* ---- handles */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct coxi_mutex idle_lock = COXI_MUTEX_INIT; /* guards the pool; leaf */
static CURL *idle[IDLE_MAX] COXI_GUARDED_BY(idle_lock);
static size_t n_idle COXI_GUARDED_BY(idle_lock);

static void begin_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

void coxi_web_begin(void)
{
    (void)pthread_once(&once, begin_curl);
}

CURL *coxi_web_take(void)
{
    CURL *easy = NULL;
    coxi_web_begin();
    coxi_lock(&idle_lock);
    if (n_idle > 0) {
        easy = idle[--n_idle];
    }
    coxi_unlock(&idle_lock);
    return easy != NULL ? easy : curl_easy_init();
}

void coxi_web_give(CURL *easy)
{
    if (easy == NULL) {
        return;
    }
    curl_easy_reset(easy);
    coxi_lock(&idle_lock);
    if (n_idle < IDLE_MAX) {
        idle[n_idle++] = easy;
        easy = NULL;
    }
    coxi_unlock(&idle_lock);
    curl_easy_cleanup(easy); /* takes NULL */
}

/* ---- options */

/* Programs that this one starts do not get its sockets. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    (void)arg, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool coxi_web_set(CURL *easy, const struct coxi_web_limits *limits)
{
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)ALIVE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)ALIVE_S);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)limits->connect_ms);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)limits->stall_s);
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "coxswain") == CURLE_OK;
}

bool coxi_web_add_header(struct curl_slist **headers, const char *name,
                         const char *value)
{
    struct coxi_buffer line = {0};
    struct curl_slist *longer = NULL;
    if (coxi_buffer_printf(&line, value[0] != '\0' ? "%s: %s" : "%s:", name, value) ==
            0 &&
        coxi_buffer_append_raw(&line, "", 1) == 0) {
        longer = curl_slist_append(*headers, (const char *)line.data);
    }
    coxi_buffer_fini(&line);
    *headers = longer != NULL ? longer : *headers;
    return longer != NULL;
}

/* ---- answers */

const char *coxi_web_header(CURL *easy, const char *name)
{
    struct curl_header *header;
    return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK
               ? header->value
               : NULL;
}

long coxi_web_status(CURL *easy)
{
    long status = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

bool coxi_web_may_pass(CURLcode code)
{
    static const CURLcode codes[] = {
        CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
        CURLE_COULDNT_CONNECT,      CURLE_OPERATION_TIMEDOUT,
        CURLE_PARTIAL_FILE,         CURLE_GOT_NOTHING,
        CURLE_SEND_ERROR,           CURLE_RECV_ERROR,
        CURLE_SSL_CONNECT_ERROR,    CURLE_HTTP2,
        CURLE_HTTP2_STREAM,
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (codes[i] == code) {
            return true;
        }
    }
    return false;
}

bool coxi_web_status_may_pass(long status)
{
    return status == 408 || status == 429 || (status >= 500 && status != 501);
}

int coxi_web_pause_ms(int n, int first_ms, int most_ms)
{
    int ms = first_ms < most_ms ? first_ms : most_ms;
    for (int i = 1; i < n && ms < most_ms; i++) {
        ms = ms <= most_ms / 2 ? 2 * ms : most_ms;
    }
    return ms / 2 + (int)(coxi_now_us() % (uint64_t)(ms / 2 + 1));
}

bool coxi_web_parse_range(const char *text, uint64_t *first, uint64_t *last,
                          uint64_t *bytes)
{
    int used = 0;
    if (text == NULL || strlen(text) > 80) {
        return false;
    }
    *first = *last = 0;
    if (sscanf(text, "bytes */%20" SCNu64 "%n", bytes, &used) == 1) { // NOLINT
        return text[used] == '\0';
    }
    return sscanf(text, "bytes %20" SCNu64 "-%20" SCNu64 "/%20" SCNu64 "%n", // NOLINT
                  first, last, bytes, &used) == 3 &&
           text[used] == '\0' && *first <= *last && *last < *bytes;
}

void coxi_web_make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

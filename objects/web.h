/*
 * What all share that speak HTTP as clients: handles of libcurl, which keep connections
 * for the next request, the options that every request has, and which failures pass.
 *
 * Threads: any; a handle belongs to one at a time.
 */
#ifndef COXI_OBJECTS_WEB_H
#define COXI_OBJECTS_WEB_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

/* Readies libcurl; those that do not use coxi_web_take call this first. */
void coxi_web_begin(void);

/* A handle without options, which may have connections; NULL: there is no memory. */
CURL *coxi_web_take(void);
/* Keeps the handle's connections, and nothing else. Takes NULL. */
void coxi_web_give(CURL *easy);

struct coxi_web_limits {
    int connect_ms;
    int stall_s; /* with less than 1 KiB/s for so long, a request has failed; 0: never */
};

/* Sets what every request has: http and https only, no redirects, no signals, limits,
 * TCP keep-alive, paths as they are. False: there is no memory. */
bool coxi_web_set(CURL *easy, const struct coxi_web_limits *limits);

/* Adds "NAME: VALUE". False: there is no memory, and the list is as it was. */
bool coxi_web_add_header(struct curl_slist **headers, const char *name,
                         const char *value);

/* A header of the last answer, which lives as long as that; or NULL. */
const char *coxi_web_header(CURL *easy, const char *name);
long coxi_web_status(CURL *easy); /* 0: there was no answer */

/* Failures after which another try may succeed. */
bool coxi_web_may_pass(CURLcode code);
bool coxi_web_status_may_pass(long status);

/* How long to wait after the `n`-th failure: `first_ms`, twice that, and so on, at most
 * `most_ms`, less up to a half of it, so that not all peers come again at once. */
int coxi_web_pause_ms(int n, int first_ms, int most_ms);

/* Parses "bytes FIRST-LAST/SIZE" of a Content-Range, or "bytes * /SIZE", which sets
 * *first and *last to 0. `text` may be NULL. */
bool coxi_web_parse_range(const char *text, uint64_t *first, uint64_t *last,
                          uint64_t *bytes);

/* Replaces what a terminal or a log must not get of a server's text. */
void coxi_web_make_plain(char *text);

#endif

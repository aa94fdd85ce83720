/* A client of HTTP servers, for tests: it says what it is told, also what is wrong. */
#ifndef COXI_TESTS_HTTP_VISITOR_H
#define COXI_TESTS_HTTP_VISITOR_H

#include <stddef.h>

/* Connects to the server at "http://127.0.0.1:port". Whoever reads there waits at most
 * 8 s. */
int visitor_connect(const char *url);

/* Sends a text. */
void visitor_say(int fd, const char *text);

/* Reads until the server closes, and closes; for free(). */
char *visitor_hear(int fd);

/* Reads until `part` has come; returns everything so far, for free(). Fails if the server
 * closes before. */
char *visitor_hear_until(int fd, const char *part);

/* The whole answer to GET `path` with these headers ("A: b\r\n"), for free(). */
char *visitor_ask(const char *url, const char *path, const char *headers);

/* Its parts. -1: there is no status line. */
int visitor_status(const char *answer);
const char *visitor_body(const char *answer);

/* The body of the answer to GET `path`, for free(). Asserts status 200. */
char *visitor_get(const char *url, const char *path);

/* The value of a sample ("coxswain_ps_pulls_total{run=\"a\"}") in a text of metrics.
 * Fails if it has none. */
double visitor_sample(const char *metrics, const char *sample);

#endif

/* Strangers at an HTTP server; see http_strangers.c. */
#ifndef COXI_BENCH_HTTP_STRANGERS_H
#define COXI_BENCH_HTTP_STRANGERS_H

#include <stdint.h>

/* In a child: says a line when the crowd is there, and goes on until the lifeline ends. */
void bench_serve_http_strangers(uint16_t port);

#endif

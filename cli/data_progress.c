/* See data_progress.h. Cost: a look at the clock for each call. */
#include "cli/data_progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/data_command.h"
#include "common/clock.h"
#include "data/sources.h"

enum { BAR = 30 };
#define INTERVAL_NS 100000000u

void coxi_progress_begin(struct coxi_progress *progress, const char *what,
                         uint64_t total)
{
    *progress = (struct coxi_progress){.on = isatty(STDERR_FILENO) != 0,
                                       .what = what,
                                       .total = total,
                                       .begun_ns = coxi_now_ns()};
    progress->drawn_ns = progress->begun_ns; /* short commands draw nothing */
}

static void eta_text(double seconds, char *ret, size_t len)
{
    uint64_t s = seconds < 1e7 ? (uint64_t)seconds : 9999999;
    if (s >= 3600) {
        (void)snprintf(ret, len, "%llu:%02llu:%02llu", (unsigned long long)(s / 3600),
                       (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
    } else {
        (void)snprintf(ret, len, "%llu:%02llu", (unsigned long long)(s / 60),
                       (unsigned long long)(s % 60));
    }
}

static void rate_text(const struct coxi_progress *progress, double rate, char *ret,
                      size_t len)
{
    if (progress->unit == NULL) {
        (void)snprintf(ret, len, "%.1f MB/s", rate / 1e6);
    } else {
        (void)snprintf(ret, len, "%.0f %s/s", rate, progress->unit);
    }
}

static void draw(const struct coxi_progress *progress, uint64_t done, double seconds)
{
    char bar[BAR + 1];
    char eta[32];
    char speed[64];
    double rate = (double)done / (seconds > 0 ? seconds : 1);
    rate_text(progress, rate, speed, sizeof(speed));
    if (progress->total == 0) {
        (void)fprintf(stderr, "\r\033[K%s  %s", progress->what, speed);
    } else {
        double part = (double)done / (double)progress->total;
        part = part < 1 ? part : 1;
        size_t full = (size_t)(part * BAR);
        memset(bar, ' ', BAR);
        memset(bar, '#', full);
        bar[BAR] = '\0';
        eta_text(rate > 0 ? (double)progress->total * (1 - part) / rate : 0, eta,
                 sizeof(eta));
        (void)fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %s  ETA %s", progress->what,
                      bar, part * 100, speed, eta);
    }
    (void)fflush(stderr);
}

void coxi_progress_show(struct coxi_progress *progress, uint64_t done)
{
    if (!progress->on) {
        return;
    }
    uint64_t now = coxi_now_ns();
    if (now - progress->drawn_ns >= INTERVAL_NS) {
        progress->drawn_ns = now;
        draw(progress, done, (double)(now - progress->begun_ns) / 1e9);
    }
}

void coxi_progress_clear(struct coxi_progress *progress)
{
    if (progress->on) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
}

uint64_t coxi_progress_bytes(char *const *files, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct coxi_source source = {0};
        struct coxi_file_mark mark = {0};
        if (coxi_source_open(files[i], &source) == 0) {
            coxi_data_watch(&source);
            if (source.kind->stat(source.self, &mark) == 0) {
                bytes += mark.bytes;
            }
            coxi_data_watch(NULL);
            coxi_source_close(&source);
        }
    }
    return bytes;
}

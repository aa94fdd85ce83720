/* See trace.h. The daemons' log goes to the trace, too, because the simulated disk has
 * no descriptor for standard error. */
#include "tests/sim/trace.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"
#include "tests/sim/sched.h"

bool sim_traces;

static void line(const char *format, va_list args)
{
    char text[2000];
    (void)vsnprintf(text, sizeof(text), format, args);
    (void)fprintf(stderr, "%12.6f  %s\n", (double)sim_now() / 1e9, text);
}

void sim_trace_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    line(format, args);
    va_end(args);
}

static void log_line(const char *event, const char *format, va_list args)
{
    char text[1500];
    const struct sim_proc *proc = sim_self_proc();
    (void)vsnprintf(text, sizeof(text), format, args);
    sim_trace_line("%s: %s %s", proc != NULL ? proc->name : "", event, text);
}

void __wrap_coxi_log(enum coxi_log_level level, const char *event, const char *format,
                     ...)
{
    va_list args;
    (void)level;
    if (sim_traces) {
        va_start(args, format);
        log_line(event, format, args);
        va_end(args);
    }
}

void __wrap_coxi_log_line(enum coxi_log_level level, const char *event,
                          const char *format, ...)
{
    va_list args;
    (void)level;
    if (sim_traces) {
        va_start(args, format);
        log_line(event, format, args);
        va_end(args);
    }
}

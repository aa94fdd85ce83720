/* Prints the events of a run, each with its virtual time, for a seed that failed. */
#ifndef COXI_SIM_TRACE_H
#define COXI_SIM_TRACE_H

#include <stdbool.h>

extern bool sim_traces;

void sim_trace_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define sim_trace(...) (sim_traces ? sim_trace_line(__VA_ARGS__) : (void)0)

#endif

/* The listeners of the simulated network, by address. They are not freed before the run
 * ends. */
#ifndef COXI_TESTS_SIM_LISTENERS_H
#define COXI_TESTS_SIM_LISTENERS_H

#include "net/link.h"
#include "tests/sim/sched.h"

struct coxi_listener {
    char url[COXI_URL_MAX + 1];
    coxi_listener_accepted accepted;
    void *arg;
    struct sim_proc *proc;
    bool started;
    uint32_t n_accepting;
    struct sim_queue quiet;
};

/* Begins without listeners. */
void sim_listeners_begin(void);

/* The listener that was started at `url`, or NULL. */
struct coxi_listener *sim_listener_find(const char *url);

/* Drops the listeners of a process that has died. */
void sim_listeners_drop(const struct sim_proc *proc);

#endif

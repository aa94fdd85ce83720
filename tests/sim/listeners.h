/* Who listens at which address. Listeners are not freed before the run ends. */
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

/* Nobody listens. */
void sim_listeners_begin(void);

/* The one that was started at `url`, or NULL. */
struct coxi_listener *sim_listener_find(const char *url);

/* Those of a process that has died. */
void sim_listeners_drop(const struct sim_proc *proc);

#endif

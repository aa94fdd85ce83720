/* The step module of a storm: what workers load instead of a file. */
#ifndef COXI_SIM_STEPS_H
#define COXI_SIM_STEPS_H

/* Where the client finds it. */
#define SIM_MODULE_PATH "/sim/steps.so"

/* Names of variables: "c<ps>" counts, "m<ps>" counts, too, and is assigned. */
#define SIM_TABLE "rows"

/* Puts the file where the client reads it. */
void sim_steps_begin(void);

#endif

/* The step module of a storm, which workers load without a file. */
#ifndef COXI_SIM_STEPS_H
#define COXI_SIM_STEPS_H

/* The path at which the client finds it. */
#define SIM_MODULE_PATH "/sim/steps.so"

/* Names of variables: "c<ps>" counts; "m<ps>" counts, too, and is also assigned. */
#define SIM_TABLE "rows"

/* Puts the file at the path where the client reads it. */
void sim_steps_begin(void);

#endif

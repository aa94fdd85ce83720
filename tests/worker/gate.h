/* Gates at which the step wait_at (module probe) waits for the test. */
#ifndef COXI_TESTS_WORKER_GATE_H
#define COXI_TESTS_WORKER_GATE_H

/* Makes a FIFO of that name; returns its path, for the step's argument. */
const char *gate_make(const char *name);

/* Waits until a step is at the gate; the step goes on when the returned descriptor is
 * released. */
int gate_pass(const char *path);
void gate_release(int fd);

#endif

/* The cause of the end of a step's process. Any thread. */
#ifndef COXI_COORDINATOR_BASE_CAUSE_H
#define COXI_COORDINATOR_BASE_CAUSE_H

/* A crash's cause (COXI_CAUSE_..., or a signal) in words. */
const char *coxi_cause_text(int cause);

#endif

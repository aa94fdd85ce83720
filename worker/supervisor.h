/*
 * The supervisor: a small process without threads or connections that starts the
 * process which runs steps, and starts it again when a step has taken it down. What ran
 * then it hands to the next one (worker/recorder.h), which tells the client.
 */
#ifndef COXI_WORKER_SUPERVISOR_H
#define COXI_WORKER_SUPERVISOR_H

/*
 * Runs this program again, with the same arguments and --step-process, until SIGTERM or
 * SIGINT, which it hands on, or until that exits with a code below 128 before it has ever
 * served, which is returned: what it complains about would not go away. Step modules are kept
 * in `dir`; NULL: a temporary directory. Returns the exit code for this process. Main
 * thread.
 */
int coxi_supervise(int argc, char **argv, const char *dir);

#endif

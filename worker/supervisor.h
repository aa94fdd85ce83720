/*
 * The supervisor: a small process without threads or connections, except those of
 * --http, which know nothing of the step process but numbers. It starts the step
 * process, and starts another when a step has ended it. It tells the next step process
 * which steps ran then (worker/recorder.h), and that process tells the client.
 */
#ifndef COXI_WORKER_SUPERVISOR_H
#define COXI_WORKER_SUPERVISOR_H

#include "http/serve.h"
#include "net/daemon.h"

/*
 * Runs this program again with the same arguments and --step-process, and again
 * whenever that process dies. Ends with SIGTERM or SIGINT, which it passes on. Ends
 * also if a step process exits with a code below 128 and none has ever served, because
 * the cause would not go away. Step modules are kept in `dir`; NULL: a temporary
 * directory. Every step process listens at daemon->listen; NULL: at none. It gets the key, if
 * there is one, from this process, because its user may be unable to read the file.
 * `http`: where to serve how the worker is.
 * Returns the exit code for this process. Main thread.
 */
int coxi_supervise(int argc, char **argv, const struct coxi_daemon_options *daemon,
                   const char *dir, const struct coxi_serve_options *http);

#endif

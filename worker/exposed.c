/*
 * See exposed.h. Everything that is told lies in the recorder or in the supervisor: the
 * step process serves nothing, so a step that crashes or stands still keeps nobody from
 * seeing that. A step may overwrite the recorder with garbage; then the numbers are
 * wrong, and nothing else is.
 *
 * Threads: that of the HTTP server; start: the supervisor's main thread.
 */
#include "worker/exposed.h"

#include "common/process.h"
#include "http/openmetrics.h"
#include "worker/figures.h"
#include "worker/recorder.h"

static void put_latency(struct coxi_openmetrics *m, const char *name, const char *help,
                        const struct coxi_latency *latency)
{
    coxi_openmetrics_family(m, COXI_LATENCIES, name, "seconds", help);
    coxi_openmetrics_latency(m, COXI_NO_LABELS, latency);
}

static void put_steps(struct coxi_openmetrics *m, struct coxi_recorder *recorder)
{
    const struct coxi_figures *figures = coxi_recorder_figures(recorder);
    coxi_openmetrics_gauge(m, "coxswain_worker_slots", "",
                           "Steps that the worker runs at a time.",
                           atomic_load(&figures->slots));
    coxi_openmetrics_gauge(m, "coxswain_worker_steps_running", "",
                           "Steps that run at this moment.",
                           coxi_recorder_running(recorder));
    coxi_openmetrics_family(m, COXI_COUNTER, "coxswain_worker_attempts", "",
                            "Attempts of closures that have ended here: done, or with "
                            "an error.");
    coxi_openmetrics_count(m, COXI_LABELS({"outcome", "done"}),
                           atomic_load(&figures->done));
    coxi_openmetrics_count(m, COXI_LABELS({"outcome", "failed"}),
                           atomic_load(&figures->failed));
    put_latency(m, "coxswain_worker_step_seconds", "Run time of steps.",
                &figures->steps);
    put_latency(m, "coxswain_worker_pull_seconds", "How long a step waited for a pull.",
                &figures->pulls);
    put_latency(m, "coxswain_worker_commit_seconds",
                "From a commit until the last ps has answered.", &figures->commits);
}

static void put_metrics(void *arg, struct coxi_openmetrics *m)
{
    struct coxi_step_processes *processes = arg;
    int pid = atomic_load(&processes->pid);
    put_steps(m, processes->recorder);
    coxi_openmetrics_counter(m, "coxswain_worker_step_processes_started", "",
                             "Step processes that were started.",
                             atomic_load(&processes->started));
    coxi_openmetrics_counter(m, "coxswain_worker_step_processes_died", "",
                             "Step processes that have ended, other than because the "
                             "worker did.",
                             atomic_load(&processes->died));
    coxi_openmetrics_gauge(m, "coxswain_worker_step_process_up", "",
                           "1 while the step process serves.",
                           coxi_recorder_serves(processes->recorder));
    coxi_openmetrics_gauge(m, "coxswain_worker_step_process_resident_memory_bytes",
                           "bytes", "Resident memory of the step process.",
                           pid != 0 ? (double)coxi_process_resident_bytes(pid) : 0);
}

static bool is_ready(void *arg)
{
    return coxi_recorder_serves(((const struct coxi_step_processes *)arg)->recorder);
}

int coxi_worker_expose(const struct coxi_serve_options *options,
                       struct coxi_step_processes *processes, struct coxi_served **ret)
{
    static const struct coxi_serve_calls calls = {is_ready, put_metrics};
    if (options->address != NULL) {
        atomic_store(&coxi_recorder_figures(processes->recorder)->watched, true);
    }
    return coxi_serve(options, "worker", &calls, processes, ret);
}

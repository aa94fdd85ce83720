/* What every program tells of itself: its version, and its process as /proc shows it.
 * Cost: some ten system calls, and one for each 100 open files. */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/process.h"
#include "common/structs.h"
#include "http/openmetrics.h"
#include "schema/wire.h"

/* Unix time at which this process began. */
static double began_s(uint64_t ticks)
{
    struct timespec unix_time;
    struct timespec up;
    (void)clock_gettime(CLOCK_REALTIME, &unix_time);
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    double booted = (double)(unix_time.tv_sec - up.tv_sec) +
                    (double)(unix_time.tv_nsec - up.tv_nsec) / 1e9;
    return booted + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static unsigned count_files(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n > 3 ? n - 3 : 0; /* ".", "..", and the directory itself */
}

static double cpu_s(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void coxi_openmetrics_process(struct coxi_openmetrics *m, const char *role)
{
    struct coxi_process process = {0};
    struct rlimit files = {0};
    char protocol[16];
    (void)coxi_process_read((int)getpid(), &process);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)snprintf(protocol, sizeof(protocol), "%d", COXI_WIRE_VERSION);
    coxi_openmetrics_family(m, COXI_GAUGE, "coxswain_build_info", "",
                            "Which program this is: always 1.");
    coxi_openmetrics_count(m,
                           COXI_LABELS({"role", role}, {"version", COXI_VERSION_TEXT},
                                       {"protocol", protocol}),
                           1);
    coxi_openmetrics_family(m, COXI_COUNTER, "process_cpu_seconds", "seconds",
                            "Processor time that this process has taken.");
    coxi_openmetrics_real(m, COXI_NO_LABELS, cpu_s());
    coxi_openmetrics_gauge(m, "process_resident_memory_bytes", "bytes",
                           "Resident memory of this process.",
                           (double)coxi_process_resident_bytes((int)getpid()));
    coxi_openmetrics_gauge(m, "process_virtual_memory_bytes", "bytes",
                           "Virtual memory of this process.",
                           (double)process.virtual_bytes);
    coxi_openmetrics_gauge(m, "process_start_time_seconds", "seconds",
                           "Unix time at which this process began.",
                           began_s(process.began_ticks));
    coxi_openmetrics_gauge(m, "process_open_fds", "", "Open files of this process.",
                           count_files());
    coxi_openmetrics_gauge(m, "process_max_fds", "",
                           "Files that this process may have open.",
                           (double)files.rlim_cur);
    coxi_openmetrics_gauge(m, "process_threads", "", "Threads of this process.",
                           (double)process.n_threads);
}

/* What every program tells of itself: its version, and its process as /proc shows it.
 * Cost: some ten system calls, and one for each 100 open files. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/structs.h"
#include "http/openmetrics.h"
#include "schema/wire.h"

/* Fields of /proc/PID/stat, counted from 0 after the program's name. */
enum { STAT_THREADS = 17, STAT_BEGAN = 19, STAT_VIRTUAL = 20, STAT_FIELDS = 21 };

/* Reads a file of /proc; "" if it cannot be read. */
static void read_proc(const char *path, char *ret, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? coxi_fd_read(fd, ret, room - 1) : 0;
    ret[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
}

uint64_t coxi_resident_bytes(int pid)
{
    char path[64];
    char text[256];
    char *pages = text;
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    read_proc(path, text, sizeof(text));
    (void)strtoull(text, &pages, 10);
    return strtoull(pages, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Numbers of /proc/self/stat; the name before them may have spaces and brackets. */
static void read_stat(unsigned long long ret[STAT_FIELDS])
{
    char text[1024];
    read_proc("/proc/self/stat", text, sizeof(text));
    char *at = strrchr(text, ')');
    memset(ret, 0, STAT_FIELDS * sizeof(*ret));
    /* the first field after the name is a letter */
    at = at != NULL && at[1] != '\0' && at[2] != '\0' ? at + 3 : NULL;
    for (size_t i = 1; at != NULL && i < STAT_FIELDS; i++) {
        ret[i] = strtoull(at, &at, 10);
    }
}

/* Unix time at which this process began. */
static double began_s(unsigned long long ticks)
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
    unsigned long long stat[STAT_FIELDS];
    struct rlimit files = {0};
    char protocol[16];
    read_stat(stat);
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
                           (double)coxi_resident_bytes(getpid()));
    coxi_openmetrics_gauge(m, "process_virtual_memory_bytes", "bytes",
                           "Virtual memory of this process.",
                           (double)stat[STAT_VIRTUAL]);
    coxi_openmetrics_gauge(m, "process_start_time_seconds", "seconds",
                           "Unix time at which this process began.",
                           began_s(stat[STAT_BEGAN]));
    coxi_openmetrics_gauge(m, "process_open_fds", "", "Open files of this process.",
                           count_files());
    coxi_openmetrics_gauge(m, "process_max_fds", "",
                           "Files that this process may have open.",
                           (double)files.rlim_cur);
    coxi_openmetrics_gauge(m, "process_threads", "", "Threads of this process.",
                           (double)stat[STAT_THREADS]);
}

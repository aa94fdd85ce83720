/* A client that stays until SIGTERM: with COX_CLUSTER, and COX_HTTP if it is to serve. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

int main(void)
{
    struct cox_coordinator *c = NULL;
    struct cox_cluster *cluster = NULL;
    sigset_t end;
    int signum;
    (void)sigemptyset(&end);
    (void)sigaddset(&end, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &end, NULL);
    int r = cox_cluster_from_env(&cluster);
    r = r != 0 ? r : cox_open(cluster, NULL, &c);
    cox_cluster_free(cluster);
    if (r != 0) {
        (void)fprintf(stderr, "serves: %s\n", cox_error_last());
        return 1;
    }
    (void)printf("process %d has opened\n", (int)getpid());
    (void)fflush(stdout);
    (void)sigwait(&end, &signum);
    return cox_close(c, 1000) != 0;
}

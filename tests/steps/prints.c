/* Steps that print. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <coxswain/step.h>

static int print(struct cox_step *step)
{
    (void)step;
    (void)printf("one line\n");
    (void)fprintf(stderr, "another, in %s\n", "two parts");
    return 0;
}

/* Without an end of the line. */
static int begin(struct cox_step *step)
{
    (void)step;
    (void)fprintf(stderr, "the beginning of a line");
    return 0;
}

/* Longer than a line may be. */
static int print_long(struct cox_step *step)
{
    (void)step;
    for (int i = 0; i < 5000; i++) {
        (void)fputc('x', stderr);
    }
    (void)fputc('\n', stderr);
    return 0;
}

/* Fails if a program that a step executes would get the pipe for alerts: descriptor 4. */
static int guard_alerts(struct cox_step *step)
{
    struct stat status;
    (void)step;
    int flags = fcntl(4, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0 && fstat(4, &status) == 0 &&
                   S_ISFIFO(status.st_mode)
               ? 4
               : 0;
}

static int last_words(struct cox_step *step)
{
    (void)step;
    (void)printf("last words\n");
    abort();
}

COX_STEPS(COX_STEP("print", print), COX_STEP("begin", begin),
          COX_STEP("print_long", print_long), COX_STEP("last_words", last_words),
          COX_STEP("guard_alerts", guard_alerts));

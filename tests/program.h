/* Programs of the project as processes of a test: started, watched, ended. */
#ifndef COXI_TESTS_PROGRAM_H
#define COXI_TESTS_PROGRAM_H

#include <sys/types.h>

struct program {
    pid_t pid;
    char output[64]; /* name (coxi_test_path) of the file with all that it prints */
    long
        peak_kib; /* once it has ended: the most memory that it had, mapped files too */
};

/*
 * Starts program argv[0] of the built ones (a path with a slash: that one) with its
 * output in a file. It is killed when this process ends.
 */
void program_start(struct program *program, const char *const *argv);

/* Waits for its end: the exit code, or 256 + the signal. */
int program_wait(struct program *program);

/* Both in one: the exit code. */
int program_run(struct program *program, const char *const *argv);

/* All that it has printed so far; for free(). */
char *program_output(const struct program *program);

/* What it has printed so far contains `part`. */
void program_assert_printed(const struct program *program, const char *part);

/* Waits until it has printed `part`. */
void program_wait_printed(const struct program *program, const char *part);

/* Program `name` with the option `option` exits 2, and names itself and `part`. */
void program_assert_refuses(const char *name, const char *option, const char *part);

/* Somebody else listens at a daemon's socket: the path is taken by a socket, for close(). */
int program_occupy(const char *path);

/* Daemon `name` moves what its log file has to another, if told to keep next to nothing. */
void program_assert_bounds_its_log(const char *name);

void program_kill(struct program *program, int signum);

/* SIGSTOP: when this returns, none of its threads does anything any more. */
void program_pause(struct program *program);

/*
 * Starts a daemon ("coxswain-ps", "coxswain-worker") as `index`, listening at `listen`,
 * and waits until it can be dialled: its address.
 */
void daemon_start(struct program *program, const char *name, int index,
                  const char *listen, char ret_address[256]);

#endif

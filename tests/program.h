/* Starts, watches and ends programs of the project as processes of a test. */
#ifndef COXI_TESTS_PROGRAM_H
#define COXI_TESTS_PROGRAM_H

#include <sys/types.h>

struct program {
    pid_t pid;
    char output[64]; /* name (coxi_test_path) of the file with all its output */
    long peak_kib;   /* once it has ended: its peak memory, with mapped files */
};

/* Starts the built program argv[0] (a path with a slash: that program) with its output
 * in a file. It is killed when this process ends. */
void program_start(struct program *program, const char *const *argv);

/* Waits for its end; returns the exit code, or 256 + the signal. */
int program_wait(struct program *program);

/* Runs a program; returns its exit code. */
int program_run(struct program *program, const char *const *argv);

/* All of its output so far; for free(). */
char *program_output(const struct program *program);

/* Asserts that its output so far contains `part`. */
void program_assert_printed(const struct program *program, const char *part);

/* Waits until it has printed `part`. */
void program_wait_printed(const struct program *program, const char *part);

/* Asserts that program `name` with option `option` exits 2, and that its output names
 * the program and `part`. */
void program_assert_refuses(const char *name, const char *option, const char *part);

/* Binds a socket at a daemon's path, so that the path is taken; returns the socket, for
 * close(). */
int program_occupy(const char *path);

/* Listens at a free port, as another program would; returns the socket, for close(). */
int program_occupy_port(char ret_address[32]);

/* Asserts that daemon `name` moves the content of its log file to another file if its
 * bound is tiny. */
void program_assert_bounds_its_log(const char *name);

void program_kill(struct program *program, int signum);

/* Stops with SIGSTOP; none of its threads runs any more when this returns. */
void program_pause(struct program *program);

/*
 * The path of a key file that this makes on the first call. From then on COX_KEY_FILE
 * names it, so the test's own connections and all programs that it starts have the key.
 */
const char *rig_key(void);

/* Waits until the log of a daemon that was started otherwise tells its address. */
void program_wait_address(const struct program *program, char ret_address[256]);

/* Starts a daemon ("coxswain-ps", "coxswain-worker") as `index`, listening at `listen`,
 * and waits until it can be dialled; returns its address. If that is a tcp address and
 * COX_KEY_FILE names no key, the daemon gets the rig's. */
void daemon_start(struct program *program, const char *name, int index,
                  const char *listen, char ret_address[256]);

#endif

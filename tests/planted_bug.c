/* A bug of each kind, for the test that sanitizers find and report them. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int shared;

static void *race(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        shared += i;
    }
    return arg;
}

static int plant(const char *kind, int argc)
{
    if (strcmp(kind, "thread") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, race, NULL) != 0) {
            return 0;
        }
        (void)race(NULL);
        return pthread_join(thread, NULL) + shared;
    }
    if (strcmp(kind, "undefined") == 0) {
        return INT32_MAX - 1 + argc;
    }
    char *volatile bytes = malloc(4);
    if (strcmp(kind, "leak") == 0) {
        bytes = NULL;
        return bytes != NULL;
    }
    int byte = bytes[argc + 2]; /* argc is 3 */
    free(bytes);
    return byte;
}

int main(int argc, char **argv)
{
    return argc == 3 && plant(argv[1], argc) == 42;
}

/* See options.h. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum type { TEXT, INTEGER, REAL };

/* An option, and where its value goes. */
struct item {
    const char *name;
    const char *takes;
    enum type type;
    size_t offset;
    double least;
    double most;
    const char *help;
};

static const struct item items[] = {
    {"train", "FILE", TEXT, offsetof(struct options, train), 0, 0,
     "rows to train on, in libsvm form"},
    {"test", "FILE", TEXT, offsetof(struct options, test), 0, 0, "rows to score on"},
    {"out", "DIR", TEXT, offsetof(struct options, out), 0, 0,
     "curves and generated rows go here"},
    {"modes", "LIST", TEXT, offsetof(struct options, modes), 0, 0,
     "names with commas between"},
    {"ps", "N", INTEGER, offsetof(struct options, ps), 1, 64,
     "parameter servers on this host"},
    {"workers", "N", INTEGER, offsetof(struct options, workers), 2, 64,
     "workers on this host, and closures in a round"},
    {"epochs", "N", INTEGER, offsetof(struct options, epochs), 1, 1000,
     "passes over the rows"},
    {"batch", "N", INTEGER, offsetof(struct options, batch), 1, 100000,
     "rows of a gradient"},
    {"merged", "N", INTEGER, offsetof(struct options, merged), 1, 1000,
     "batches in a closure of local and accumulate"},
    {"rate", "X", REAL, offsetof(struct options, rate), 1e-9, 1000,
     "learning rate of a row's gradient, at first"},
    {"l2", "X", REAL, offsetof(struct options, l2), 0, 1000,
     "penalty of a row's squared weights"},
    {"staleness-max", "N", INTEGER, offsetof(struct options, staleness_max), 0, 1000000,
     "of scale and drop: what is not stale yet"},
    {"lambda", "X", REAL, offsetof(struct options, lambda), 1e-9, 1000,
     "of compensate"},
    {"slow", "MS", INTEGER, offsetof(struct options, slow_ms), 0, 60000,
     "a batch in ten takes so much longer"},
    {"points", "N", INTEGER, offsetof(struct options, points), 1, 1000,
     "of each curve, at most"},
    {"seed", "N", INTEGER, offsetof(struct options, seed), 1, 1e9,
     "of generated rows and of the order of rows"},
    {"rows", "N", INTEGER, offsetof(struct options, rows), 100, 1e8, "to generate"},
    {"ids", "N", INTEGER, offsetof(struct options, ids), 1, 1e9,
     "of each of their 20 fields"},
};

enum { ITEMS = sizeof(items) / sizeof(*items) };

static const struct options defaults = {
    .out = "modes-out",
    .modes = "async,sync,backups,bound1,bound3,local,accumulate,scale,drop,compensate",
    .ps = 1,
    .workers = 4,
    .epochs = 8,
    .batch = 64,
    .merged = 4,
    .points = 20,
    .staleness_max = 3,
    .seed = 1,
    .rows = 50000,
    .ids = 1000,
    .rate = 0.002,
    .l2 = 0.0001,
    .lambda = 0.01,
};

static void print_default(const struct item *item)
{
    const char *at = (const char *)&defaults + item->offset;
    if (item->type == INTEGER) {
        (void)printf(" (%lld)", (long long)*(const int64_t *)(const void *)at);
    } else if (item->type == REAL) {
        (void)printf(" (%g)", *(const double *)(const void *)at);
    } else if (*(const char *const *)(const void *)at != NULL) {
        (void)printf(" (%s)", *(const char *const *)(const void *)at);
    }
}

static void print_help(void)
{
    (void)fputs(
        "Usage: modes [options]\n\n"
        "Trains one model, logistic regression, in each mode of docs/modes.md on the "
        "same\n"
        "rows. Prints a table, and draws the log loss of the test rows over the "
        "examples\n"
        "and over the seconds (DIR/examples.svg, DIR/seconds.svg). Without files it\n"
        "generates a click log. The cluster is the one that COX_CLUSTER describes, or "
        "else\n"
        "processes on this host.\n\nOptions, with their defaults:\n",
        stdout);
    for (int i = 0; i < ITEMS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s %s", items[i].name, items[i].takes);
        (void)printf("  --%-18s %s", name, items[i].help);
        print_default(&items[i]);
        (void)putchar('\n');
    }
    (void)puts("  --help               print this");
}

static int set(const struct item *item, const char *text, struct options *o)
{
    char *at = (char *)o + item->offset;
    char *end = NULL;
    if (item->type == TEXT) {
        *(const char **)(void *)at = text;
        return 0;
    }
    errno = 0;
    double number =
        item->type == REAL ? strtod(text, &end) : (double)strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 ||
        !(number >= item->least && number <= item->most)) {
        (void)fprintf(stderr,
                      "modes: --%s takes a number from %.10g to %.10g, not '%s'\n",
                      item->name, item->least, item->most, text);
        return 2;
    }
    if (item->type == REAL) {
        *(double *)(void *)at = number;
    } else {
        *(int64_t *)(void *)at = (int64_t)number;
    }
    return 0;
}

/* What options have to be together. */
static int check(struct options *o)
{
    if ((o->train == NULL) != (o->test == NULL)) {
        (void)fputs("modes: give both --train and --test, or neither\n", stderr);
        return 2;
    }
    if (!kinds_parse(o->modes, o->chosen)) {
        (void)fprintf(stderr, "modes: --modes takes names of %s, not '%s'\n",
                      defaults.modes, o->modes);
        return 2;
    }
    return 0;
}

int options_parse(int argc, char **argv, struct options *ret)
{
    struct options o = defaults;
    struct option table[ITEMS + 2] = {{"help", no_argument, NULL, 'h'}};
    int key;
    int index = 0;
    for (int i = 0; i < ITEMS; i++) {
        table[i + 1] = (struct option){items[i].name, required_argument, NULL, 's'};
    }
    while ((key = getopt_long(argc, argv, "", table, &index)) != -1) {
        if (key == 'h') {
            print_help();
            return 1;
        }
        if (key != 's') {
            (void)fputs("modes: see --help\n", stderr);
            return 2;
        }
        int r = set(&items[index - 1], optarg, &o);
        if (r != 0) {
            return r;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "modes: what is '%s'? See --help\n", argv[optind]);
        return 2;
    }
    int r = check(&o);
    if (r == 0) {
        *ret = o;
    }
    return r;
}

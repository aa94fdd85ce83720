/* See options.h. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: ctr [options]\n"
    "\n"
    "Trains a click model on parameter servers and workers, while an evaluator scores\n"
    "every checkpoint. Without files it generates a click log. The cluster is the one "
    "that\n"
    "COX_CLUSTER describes, or else processes on this host.\n"
    "\n"
    "  --train FILE          rows to train on\n"
    "  --valid FILE          rows to score on\n"
    "  --format libsvm       of both: 'label id:value ...', label -1, 0 or 1\n"
    "  --out DIR             checkpoints, results and logs go here (default ctr-out)\n"
    "  --checkpoint-dir DIR  checkpoints and results go here; may be "
    "s3://BUCKET/PREFIX\n"
    "  --model lr|fm         logistic regression or factorization machine (default "
    "lr)\n"
    "  --source worker|client   who reads the rows: the client where workers cannot\n"
    "                        (default worker)\n"
    "  --ps N                parameter servers on this host (default 2)\n"
    "  --workers N           workers on this host (default 2)\n"
    "  --epochs N            passes over the rows (default 6)\n"
    "  --checkpoints N       checkpoints in an epoch (default 1)\n"
    "  --batch N             rows of one gradient (default 64)\n"
    "  --learning-rate X     of the weights, at first (default 0.1)\n"
    "  --accumulator X       of Adagrad, at first: more damps rare features (default "
    "100)\n"
    "  --l2 X                penalty of a row's squared weights (default 0.0001)\n"
    "  --factors-rate X      of the factors, at first (default 0.02)\n"
    "  --factors-l2 X        penalty of a row's squared factors (default 0.003)\n"
    "  --seed N              of the generated log and the order of rows (default 1)\n"
    "  --rows N              to generate (default 200000)\n"
    "  --ids N               ids of each of their 20 fields (default 5000)\n"
    "  --pairs X             how much pairs of ids count in them (default 0)\n"
    "  --resume              go on where an earlier run with the same --out ended\n"
    "  --role client|evaluator   the evaluator is started by the client\n"
    "  --help                print this\n";

enum {
    OPTION_FORMAT = 256,
    OPTION_RESUME,
    OPTION_CHECKPOINT_DIR,
    OPTION_SOURCE,
    OPTION_FACTORS_RATE,
    OPTION_FACTORS_L2,
    OPTION_PAIRS,
    OPTION_IDS
};

static int wrong(const char *option, const char *takes, const char *value)
{
    (void)fprintf(stderr, "ctr: --%s takes %s, not '%s'\n", option, takes, value);
    return 2;
}

static int parse_int(const char *option, const char *text, long most, long *ret)
{
    char *end;
    char takes[64];
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < 1 || n > most) {
        (void)snprintf(takes, sizeof(takes), "a number from 1 to %ld", most);
        return wrong(option, takes, text);
    }
    *ret = n;
    return 0;
}

static int parse_real(const char *option, const char *text, double *ret)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !(x >= 0 && x <= 1000)) {
        return wrong(option, "a number from 0 to 1000", text);
    }
    *ret = x;
    return 0;
}

static int parse_choice(const char *option, const char *text, const char *a,
                        const char *b, const char **ret)
{
    char takes[64];
    if (strcmp(text, a) != 0 && strcmp(text, b) != 0) {
        (void)snprintf(takes, sizeof(takes), strcmp(a, b) != 0 ? "%s or %s" : "%s", a,
                       b);
        return wrong(option, takes, text);
    }
    *ret = text;
    return 0;
}

/* Where the real number of an option goes; NULL: it is none. */
static double *real_of(struct options *o, int key)
{
    switch (key) {
    case 'a':
        return &o->learning_rate;
    case 'i':
        return &o->accumulator;
    case 'l':
        return &o->l2;
    case OPTION_FACTORS_RATE:
        return &o->factors_rate;
    case OPTION_FACTORS_L2:
        return &o->factors_l2;
    case OPTION_PAIRS:
        return &o->pairs;
    default:
        return NULL;
    }
}

static int set_number(struct options *o, int key, const char *name, const char *text)
{
    long n = 0;
    int r;
    switch (key) {
    case 'p':
        r = parse_int(name, text, 64, &n);
        o->ps = (int)n;
        return r;
    case 'w':
        r = parse_int(name, text, 64, &n);
        o->workers = (int)n;
        return r;
    case 'e':
        r = parse_int(name, text, 100000, &n);
        o->epochs = (int)n;
        return r;
    case 'c':
        r = parse_int(name, text, 1000, &n);
        o->checkpoints = (int)n;
        return r;
    case 'b':
        r = parse_int(name, text, 1000000, &n);
        o->batch = (int)n;
        return r;
    case OPTION_IDS:
        r = parse_int(name, text, 1000000000, &n);
        o->ids = (int)n;
        return r;
    case 's':
        r = parse_int(name, text, 1000000000, &n);
        o->seed = (uint64_t)n;
        return r;
    case 'n':
        r = parse_int(name, text, 1000000000, &n);
        o->rows = n;
        return r;
    default:
        return 2;
    }
}

static int set(struct options *o, int key, const char *name, const char *text)
{
    double *real = real_of(o, key);
    if (real != NULL) {
        return parse_real(name, text, real);
    }
    const char *ignored;
    switch (key) {
    case 't':
        o->train = text;
        return 0;
    case 'v':
        o->valid = text;
        return 0;
    case 'o':
        o->out = text;
        return 0;
    case OPTION_CHECKPOINT_DIR:
        o->checkpoint_dir = text;
        return 0;
    case OPTION_RESUME:
        o->resume = true;
        return 0;
    case OPTION_FORMAT:
        return parse_choice(name, text, "libsvm", "libsvm", &ignored);
    case 'm':
        return parse_choice(name, text, "lr", "fm", &o->model);
    case OPTION_SOURCE:
        return parse_choice(name, text, "worker", "client", &o->source);
    case 'r':
        return parse_choice(name, text, "client", "evaluator", &o->role);
    default:
        return set_number(o, key, name, text);
    }
}

static const struct option table[] = {
    {"train", required_argument, NULL, 't'},
    {"valid", required_argument, NULL, 'v'},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"out", required_argument, NULL, 'o'},
    {"checkpoint-dir", required_argument, NULL, OPTION_CHECKPOINT_DIR},
    {"model", required_argument, NULL, 'm'},
    {"source", required_argument, NULL, OPTION_SOURCE},
    {"ps", required_argument, NULL, 'p'},
    {"workers", required_argument, NULL, 'w'},
    {"epochs", required_argument, NULL, 'e'},
    {"checkpoints", required_argument, NULL, 'c'},
    {"batch", required_argument, NULL, 'b'},
    {"learning-rate", required_argument, NULL, 'a'},
    {"accumulator", required_argument, NULL, 'i'},
    {"l2", required_argument, NULL, 'l'},
    {"factors-rate", required_argument, NULL, OPTION_FACTORS_RATE},
    {"factors-l2", required_argument, NULL, OPTION_FACTORS_L2},
    {"ids", required_argument, NULL, OPTION_IDS},
    {"pairs", required_argument, NULL, OPTION_PAIRS},
    {"seed", required_argument, NULL, 's'},
    {"rows", required_argument, NULL, 'n'},
    {"resume", no_argument, NULL, OPTION_RESUME},
    {"role", required_argument, NULL, 'r'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const struct options defaults = {
    .role = "client",
    .out = "ctr-out",
    .model = "lr",
    .source = "worker",
    .ps = 2,
    .workers = 2,
    .epochs = 6,
    .checkpoints = 1,
    .batch = 64,
    .learning_rate = 0.1,
    .accumulator = 100,
    .l2 = 0.0001,
    .factors_rate = 0.02,
    .factors_l2 = 0.003,
    .seed = 1,
    .rows = 200000,
    .ids = 5000,
};

int options_parse(int argc, char **argv, struct options *ret)
{
    struct options o = defaults;
    int key;
    int index = 0;
    while ((key = getopt_long(argc, argv, "", table, &index)) != -1) {
        if (key == 'h') {
            (void)fputs(usage, stdout);
            return 1;
        }
        if (key == '?') {
            (void)fputs("ctr: see --help\n", stderr);
            return 2;
        }
        int r = set(&o, key, table[index].name, optarg);
        if (r != 0) {
            return r;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "ctr: what is '%s'? See --help\n", argv[optind]);
        return 2;
    }
    if ((o.train == NULL) != (o.valid == NULL)) {
        (void)fputs("ctr: give both --train and --valid, or neither\n", stderr);
        return 2;
    }
    if (o.checkpoint_dir == NULL) {
        static char beneath[1024];
        (void)snprintf(beneath, sizeof(beneath), "%s/checkpoints", o.out);
        o.checkpoint_dir = beneath;
    }
    *ret = o;
    return 0;
}

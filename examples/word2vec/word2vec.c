/*
 * Word vectors from text files. Two passes over a data set of lines: one counts the words,
 * exactly; the other trains, with a sampler of negative words that every worker makes once
 * from these counts, as a resource.
 *
 * Without a text the example writes one with a planted model (corpus.h), and tells at the
 * end how well the cosines of the vectors rank all pairs of words: Spearman's correlation
 * with the planted similarities.
 *
 *     main -> open_crew   cluster, variables, steps
 *          -> learn       count, sampler, train
 *          -> score       the vectors of a vocabulary, compared
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "corpus.h"
#include "word2vec.h"

enum { LINES = 20000, EPOCHS = 5, N_PAIRS = CORPUS_WORDS * (CORPUS_WORDS - 1) / 2 };

struct client {
    struct cox_coordinator *c;
    struct cox_module *module;
    char text[1024];
    char vocabulary[1024]; /* a word a line */
};

/* ---- the crew */

static int create_table(struct client *client, const char *name, float half_width)
{
    struct cox_table *ignored;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    table.name = name;
    table.dim = DIM;
    table.optimizer.kind = COX_ADAGRAD;
    table.optimizer.learning_rate = 0.1F;
    table.optimizer.initial_accumulator = 1;
    if (half_width > 0) {
        table.initializer =
            (struct cox_initializer){COX_UNIFORM, -half_width, half_width, 1};
    }
    return cox_table_create(client->c, &table, &ignored);
}

static int create_variables(struct client *client)
{
    struct cox_variable *ignored;
    struct cox_variable_spec counts = COX_VARIABLE_SPEC_INIT;
    counts.name = "counts";
    counts.dtype = COX_I64;
    counts.rank = 1;
    counts.shape[0] = BUCKETS;
    int r = cox_variable_create(client->c, &counts, &ignored);
    r = r != 0 ? r : create_table(client, "words", 0.5F);
    return r != 0 ? r : create_table(client, "contexts", 0);
}

/* The module is in this program's directory. */
static int load_steps(struct client *client)
{
    char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)strcpy(slash != NULL ? slash + 1 : path, "word2vec_steps.so");
    return cox_module_load(client->c, path, &client->module);
}

static int open_crew(struct client *client)
{
    struct cox_cluster *cluster;
    int r = cox_cluster_from_env(&cluster); /* running daemons, if there are any */
    if (r == COX_ENOENT) {
        r = cox_cluster_local(1, 2, &cluster);
    }
    if (r == 0) {
        r = cox_open(cluster, NULL, &client->c);
        cox_cluster_free(cluster);
    }
    r = r != 0 ? r : load_steps(client);
    return r != 0 ? r : create_variables(client);
}

static int open_lines(struct client *client, const char *name, const char *path,
                      uint64_t epochs, struct cox_dataset **ret)
{
    struct cox_dataset_spec lines = COX_DATASET_SPEC_INIT;
    lines.name = name;
    lines.files = &path;
    lines.n_files = 1;
    lines.format = COX_TEXT;
    lines.buckets = BUCKETS;
    lines.epochs = epochs;
    lines.batch_size = 32;
    lines.task_bytes = 16384;
    lines.shuffle = epochs > 1;
    return cox_dataset_create(client->c, &lines, ret);
}

/* ---- training */

/* Runs a step on all lines, in all epochs. */
static int run_all(struct client *client, const char *name, uint64_t epochs)
{
    struct cox_dataset *lines;
    struct cox_function *function;
    int r = open_lines(client, name, client->text, epochs, &lines);
    r = r != 0 ? r : cox_function_get(client->module, name, &function);
    while (r == 0) {
        r = cox_schedule_next(client->c, function, lines, NULL, NULL);
    }
    return r == COX_EEOF ? cox_join(client->c, -1) : r;
}

static int learn(struct client *client)
{
    struct cox_function *sampler;
    int r = run_all(client, "count", 1);
    r = r != 0 ? r : cox_function_get(client->module, "sampler", &sampler);
    r = r != 0 ? r : cox_resource_create(client->c, "sampler", sampler, NULL, NULL);
    return r != 0 ? r : run_all(client, "train", EPOCHS);
}

/* ---- the score */

struct pair {
    double value;
    size_t place;
};

static int compare(const void *a, const void *b)
{
    double x = ((const struct pair *)a)->value;
    double y = ((const struct pair *)b)->value;
    return (x > y) - (x < y);
}

/* Replaces n values by their ranks. */
static void rank(double *values, struct pair *scratch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        scratch[i] = (struct pair){values[i], i};
    }
    qsort(scratch, n, sizeof(*scratch), compare);
    for (size_t i = 0; i < n; i++) {
        values[scratch[i].place] = (double)i;
    }
}

static double cosine(const float *a, const float *b)
{
    double ab = 0;
    double aa = 1e-12;
    double bb = 1e-12;
    for (int d = 0; d < DIM; d++) {
        ab += (double)a[d] * (double)b[d];
        aa += (double)a[d] * (double)a[d];
        bb += (double)b[d] * (double)b[d];
    }
    return ab / sqrt(aa * bb);
}

/* Spearman's correlation of the cosines and the planted similarities of all pairs. */
static double correlation(const float *vectors)
{
    static double cosines[N_PAIRS];
    static double planted[N_PAIRS];
    static struct pair scratch[N_PAIRS];
    size_t n = 0;
    for (int a = 0; a < CORPUS_WORDS; a++) {
        for (int b = 0; b < a; b++) {
            cosines[n] = cosine(vectors + (size_t)a * DIM, vectors + (size_t)b * DIM);
            planted[n++] = corpus_similarity(a, b);
        }
    }
    rank(cosines, scratch, n);
    rank(planted, scratch, n);
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (cosines[i] - planted[i]) * (cosines[i] - planted[i]);
    }
    return 1 - 6 * squares / ((double)n * ((double)n * (double)n - 1));
}

/* The vectors of the vocabulary are the result of one step, as it is one task. */
static int score(struct client *client)
{
    struct cox_dataset *words;
    struct cox_function *vectors;
    struct cox_future *future = NULL;
    struct cox_value value;
    int r = open_lines(client, "vocabulary", client->vocabulary, 1, &words);
    r = r != 0 ? r : cox_function_get(client->module, "vectors", &vectors);
    r = r != 0 ? r : cox_schedule_next(client->c, vectors, words, NULL, &future);
    r = r != 0 ? r : cox_future_wait(future, -1);
    r = r != 0 ? r : cox_future_result(future, "vectors", &value);
    if (r == 0 && value.shape[0] == (uint64_t)CORPUS_WORDS * DIM) {
        (void)printf("%d pairs of words: rank correlation %.4f with the planted "
                     "similarities\n",
                     N_PAIRS, correlation(value.data));
    }
    cox_future_free(future);
    return r;
}

/* ---- the text */

/* Writes text and vocabulary, unless they exist. 0, or -1 with errno set. */
static int prepare(struct client *client, const char *dir)
{
    (void)snprintf(client->text, sizeof(client->text), "%s/text", dir);
    (void)snprintf(client->vocabulary, sizeof(client->vocabulary), "%s/words", dir);
    if (access(client->text, F_OK) == 0) {
        return 0;
    }
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        return -1;
    }
    FILE *file = fopen(client->vocabulary, "we");
    for (int w = 0; file != NULL && w < CORPUS_WORDS; w++) {
        (void)fprintf(file, "w%d\n", w);
    }
    return file == NULL || fclose(file) != 0 ? -1 : corpus_write(client->text, LINES);
}

int main(int argc, char **argv)
{
    static struct client client;
    if (argc != 2 || argv[1][0] == '-') {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fputs(
            "Usage: word2vec DIRECTORY\n\nLearns vectors for the words of "
            "DIRECTORY/text. Writes it, with a planted model, if there\nis none; "
            "then it scores the vectors.\n",
            help ? stdout : stderr);
        return help ? 0 : 2;
    }
    if (prepare(&client, argv[1]) != 0) {
        (void)fprintf(stderr, "word2vec: %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    int r = open_crew(&client);
    r = r != 0 ? r : learn(&client);
    r = r != 0 ? r : score(&client);
    if (r != 0) {
        (void)fprintf(stderr, "word2vec: %s\n", cox_error_last());
    }
    (void)cox_close(client.c, 5000);
    return r != 0;
}

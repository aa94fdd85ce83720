/*
 * Matrix factorization: who likes what, from a table of ratings in CSV.
 *
 * Two data sets, train and test, over files with the columns user, item and rating. One
 * table has a row for each user and each item. Without files the example writes ratings
 * of a planted model of rank MF_RANK with noise, so the best score is known: the
 * deviation of the noise.
 *
 *     main -> open_crew   cluster, table, metric, steps, data sets
 *          -> train       an epoch, the test, and so on; prints a line for each epoch
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "mf.h"

enum { USERS = 1000, ITEMS = 500, RATINGS = 100000, EPOCHS = 12 };
enum { N_USER_FACTORS = USERS * MF_RANK, N_ITEM_FACTORS = ITEMS * MF_RANK };

static const double mean = 3.5;
static const double noise = 0.3;
static const double l2 = 0.01;

struct client {
    struct cox_coordinator *c;
    struct cox_function *train;
    struct cox_function *test;
    struct cox_dataset *train_ratings;
    struct cox_dataset *test_ratings;
    struct cox_metric *squares;
};

/* ---- ratings */

/* Fills `paths` with the files of a directory. */
static void name_files(const char *dir, char paths[2][1024])
{
    (void)snprintf(paths[0], sizeof(paths[0]), "%s/train.csv", dir);
    (void)snprintf(paths[1], sizeof(paths[1]), "%s/test.csv", dir);
}

static double uniform(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

static void write_ratings(FILE *file, size_t n, const double *users,
                          const double *items)
{
    (void)fputs("user,item,rating\n", file);
    for (size_t i = 0; i < n; i++) {
        size_t user = (size_t)(uniform() * USERS);
        size_t item = (size_t)(uniform() * ITEMS);
        double rating = mean + noise * normal();
        for (int f = 0; f < MF_RANK; f++) {
            rating +=
                users[user * MF_RANK + (size_t)f] * items[item * MF_RANK + (size_t)f];
        }
        (void)fprintf(file, "%zu,%zu,%.4f\n", user, item, rating);
    }
}

/* Writes train.csv and test.csv. 0, or -1 with errno set. */
static int generate(char paths[2][1024])
{
    static double users[N_USER_FACTORS];
    static double items[N_ITEM_FACTORS];
    for (size_t i = 0; i < N_USER_FACTORS; i++) {
        users[i] = normal() / 2;
    }
    for (size_t i = 0; i < N_ITEM_FACTORS; i++) {
        items[i] = normal();
    }
    for (int k = 0; k < 2; k++) {
        FILE *file = fopen(paths[k], "we");
        if (file == NULL) {
            return -1;
        }
        write_ratings(file, k == 0 ? RATINGS : RATINGS / 10, users, items);
        if (fclose(file) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- the crew */

static int create_variables(struct client *client)
{
    struct cox_table *ignored;
    struct cox_table_spec factors = COX_TABLE_SPEC_INIT;
    struct cox_metric_spec squares = COX_METRIC_SPEC_INIT;
    factors.name = "factors";
    factors.dim = MF_DIM;
    factors.optimizer.kind = COX_ADAGRAD;
    factors.optimizer.learning_rate = 0.1F;
    factors.optimizer.initial_accumulator = 1;
    factors.initializer = (struct cox_initializer){COX_NORMAL, 0, 0.1F, 1};
    squares.name = "test";
    squares.kind = COX_METRIC_MEAN;
    int r = cox_table_create(client->c, &factors, &ignored);
    return r == 0 ? cox_metric_create(client->c, &squares, &client->squares) : r;
}

static int create_ratings(struct client *client, const char *name, const char *path,
                          struct cox_dataset **ret)
{
    const struct cox_column columns[] = {
        {.name = "rating", .kind = COX_COLUMN_LABEL},
        {.name = "user", .kind = COX_COLUMN_KEY, .integers = 1},
        {.name = "item", .kind = COX_COLUMN_KEY, .integers = 1},
    };
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    spec.name = name;
    spec.files = &path;
    spec.n_files = 1;
    spec.format = COX_CSV;
    spec.header = 1;
    spec.columns = columns;
    spec.n_columns = sizeof(columns) / sizeof(*columns);
    spec.epochs = EPOCHS;
    spec.task_bytes = 32768;
    spec.shuffle = 1;
    return cox_dataset_create(client->c, &spec, ret);
}

/* The module is in this program's directory. */
static int load_steps(struct client *client)
{
    char path[1024];
    struct cox_module *module;
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)strcpy(slash != NULL ? slash + 1 : path, "mf_steps.so");
    int r = cox_module_load(client->c, path, &module);
    r = r != 0 ? r : cox_function_get(module, "train", &client->train);
    return r != 0 ? r : cox_function_get(module, "test", &client->test);
}

static int open_crew(struct client *client, char paths[2][1024])
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
    r = r != 0 ? r : create_variables(client);
    r = r != 0 ? r : load_steps(client);
    r = r != 0 ? r : create_ratings(client, "train", paths[0], &client->train_ratings);
    return r != 0 ? r : create_ratings(client, "test", paths[1], &client->test_ratings);
}

/* ---- training */

static int train(struct client *client)
{
    const struct cox_value args[] = {COX_SCALAR("mean", COX_F64, &mean),
                                     COX_SCALAR("l2", COX_F64, &l2)};
    struct cox_call call = COX_CALL_INIT;
    double squares = 0;
    double ratings = 0;
    int r = 0;
    call.args = args;
    call.n_args = 2;
    for (int epoch = 1; r == 0 && epoch <= EPOCHS; epoch++) {
        r = cox_schedule_epoch(client->c, client->train, client->train_ratings, &call);
        r = r != 0 ? r : cox_metric_reset(client->c, client->squares);
        r = r != 0 ? r
                   : cox_schedule_epoch(client->c, client->test, client->test_ratings,
                                        &call);
        r = r != 0 ? r
                   : cox_metric_read(client->c, client->squares, &squares, &ratings);
        if (r == 0) {
            (void)printf("epoch %d: rmse %.4f on %.0f ratings\n", epoch, sqrt(squares),
                         ratings);
        }
    }
    return r;
}

int main(int argc, char **argv)
{
    struct client client = {0};
    char paths[2][1024];
    if (argc != 2 || argv[1][0] == '-') {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fputs(
            "Usage: mf DIRECTORY\n\nFactorizes the ratings in DIRECTORY/train.csv, "
            "and tests on DIRECTORY/test.csv;\ncolumns user, item and rating. "
            "Writes both, with a planted model, if there are none.\n",
            help ? stdout : stderr);
        return help ? 0 : 2;
    }
    name_files(argv[1], paths);
    if (access(paths[0], F_OK) != 0 &&
        ((mkdir(argv[1], 0777) != 0 && errno != EEXIST) || generate(paths) != 0)) {
        (void)fprintf(stderr, "mf: %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    int r = open_crew(&client, paths);
    r = r != 0 ? r : train(&client);
    if (r != 0) {
        (void)fprintf(stderr, "mf: %s\n", cox_error_last());
    }
    (void)cox_close(client.c, 5000);
    return r != 0;
}

/* coxswain data generate: files with a planted model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data_command.h"
#include "cli/data_output.h"
#include "cli/data_progress.h"
#include "cli/data_scan.h"
#include "cli/planted.h"
#include "common/error.h"
#include "common/hash.h"
#include "coxswain/batch.h"

struct config {
    const char *format;
    int64_t records;
    int64_t files;
    int64_t seed;
    int64_t draw;
    double noise;
    double interactions;
    int64_t users;
    int64_t items;
    int64_t words;
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "format",
     .type = COXI_OPTION_CHOICE,
     .offset = offsetof(struct config, format),
     .choices = "libsvm|criteo|csv|text",
     .help = "clicks: libsvm (default) or criteo; ratings: csv (default) or libsvm; "
             "texts: text"},
    {.name = "records",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, records),
     .min = 1,
     .max = 1e15,
     .fallback = "100000",
     .help = "records of all files together"},
    {.name = "files",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, files),
     .min = 1,
     .max = 99999,
     .fallback = "1",
     .help = "write so many files; with more than one, their numbers come before the "
             "name's ending: clicks-00000.libsvm"},
    {.name = "seed",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, seed),
     .max = 9e15,
     .fallback = "1",
     .help = "of the model"},
    {.name = "draw",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, draw),
     .max = 9e15,
     .fallback = "0",
     .help = "draws other records of the same model: 0 to train, 1 to test"},
    {.name = "noise",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, noise),
     .max = 100,
     .fallback = "0.3",
     .help = "ratings: its standard deviation; texts: its share of the words"},
    {.name = "interactions",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, interactions),
     .max = 100,
     .fallback = "0",
     .help = "clicks: how much pairs of features weigh"},
    {.name = "users",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, users),
     .min = 1,
     .max = 9e15,
     .fallback = "10000",
     .help = "ratings: users"},
    {.name = "items",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, items),
     .min = 1,
     .max = 9e15,
     .fallback = "2000",
     .help = "ratings: items"},
    {.name = "words",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, words),
     .min = 1,
     .max = 9e15,
     .fallback = "2000",
     .help = "texts: common words"},
    COXI_DATA_JSON(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain data generate",
    .usage = "[options] clicks|ratings|texts FILE",
    .summary =
        "Makes files of any size with a planted model, in constant memory, and prints "
        "the\nquality that a model of them can reach. The same options make the same "
        "bytes.\nFor example:\n"
        "  coxswain data generate --records 1000000 --files 4 clicks clicks.libsvm\n"
        "  coxswain data generate --draw 1 clicks test.libsvm\n"
        "  coxswain data generate --format criteo --interactions 1 clicks day.tsv.gz\n"
        "  coxswain data generate --noise 0.5 ratings ratings.csv",
    .prefix = "COX_DATA_GENERATE",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static const struct coxi_planted_kind *const kinds[] = {
    &coxi_planted_clicks, &coxi_planted_ratings, &coxi_planted_texts};

static const struct coxi_planted_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

/* The chosen format, or the first of the kind's; NULL: the kind does not have it. */
static const char *find_format(const struct coxi_planted_kind *kind, const char *chosen)
{
    static const char *const all[] = {"libsvm", "criteo", "csv", "text"};
    size_t first = strcspn(kind->formats, "|");
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        bool is_first =
            strlen(all[i]) == first && strncmp(all[i], kind->formats, first) == 0;
        if (chosen == NULL ? is_first
                           : strcmp(chosen, all[i]) == 0 &&
                                 strstr(kind->formats, chosen) != NULL) {
            return all[i];
        }
    }
    return NULL;
}

/* The records of one file. */
static int write_records(const struct coxi_planted_kind *kind, void *model,
                         uint64_t records, uint64_t rng, struct coxi_progress *progress,
                         struct coxi_data_output *output)
{
    struct coxi_buffer line = {0};
    const char *header = kind->header != NULL ? kind->header(model) : NULL;
    int r = header != NULL ? coxi_data_output_add(output, header, strlen(header)) : 0;
    for (uint64_t i = 0; r == 0 && i < records; i++) {
        line.len = 0;
        r = kind->record(model, &rng, &line);
        r = r == 0 ? coxi_data_output_add(output, line.data, line.len) : r;
        if (i % 1024 == 0) {
            coxi_progress_show(progress, progress->done + i);
            r = r == 0 ? coxi_data_check_interrupted() : r;
        }
    }
    progress->done += records;
    coxi_buffer_fini(&line);
    return r;
}

static int write_file(const struct coxi_planted_kind *kind, void *model,
                      const struct config *config, const char *name, int64_t number,
                      struct coxi_progress *progress)
{
    uint64_t all = (uint64_t)config->records;
    uint64_t files = (uint64_t)config->files;
    uint64_t k = (uint64_t)number;
    uint64_t records = all / files + (k < all % files);
    uint64_t rng = coxi_hash_key((uint64_t)config->seed ^
                                 coxi_hash_key((uint64_t)config->draw << 20 | k));
    struct coxi_data_output *output;
    char path[PATH_MAX];
    int r = coxi_data_part_name(name, k, files, path);
    r = r == 0 ? coxi_data_output_check(path, NULL, 0) : r;
    r = r == 0 ? coxi_data_output_open(path, COX_TEXT, 0, &output) : r;
    if (r != 0) {
        return r;
    }
    r = write_records(kind, model, records, rng, progress, output);
    if (r != 0) {
        coxi_data_output_abandon(output);
        return r;
    }
    return coxi_data_output_finish(output);
}

static int print_quality(const struct config *config, json_t *quality)
{
    const char *name;
    json_t *value;
    if (config->json) {
        return coxi_data_print(quality);
    }
    json_object_foreach(quality, name, value)
    {
        if (json_is_string(value)) {
            (void)printf("%-26s %s\n", name, json_string_value(value));
        } else {
            (void)printf("%-26s %.9g\n", name, json_number_value(value));
        }
    }
    json_decref(quality);
    return 0;
}

static int generate(const struct coxi_planted_kind *kind, const struct config *config,
                    const char *name)
{
    struct coxi_progress progress;
    const struct coxi_planted_options planted = {.seed = (uint64_t)config->seed,
                                                 .format =
                                                     find_format(kind, config->format),
                                                 .noise = config->noise,
                                                 .interactions = config->interactions,
                                                 .users = (uint64_t)config->users,
                                                 .items = (uint64_t)config->items,
                                                 .words = (uint64_t)config->words};
    if (planted.format == NULL) {
        return coxi_error(COX_EINVAL, "%s come as %s, not as %s", kind->name,
                          kind->formats, config->format);
    }
    uint32_t guess = coxi_data_guess_format(name);
    if (guess == COX_RECORDIO || guess == COX_TFRECORD) {
        return coxi_error(
            COX_EINVAL,
            "%s: %s are written as lines: take a name such as %s.txt, and "
            "'coxswain data convert'",
            name, kind->name, kind->name);
    }
    int r = coxi_data_parts_check(name, (uint64_t)config->files);
    if (r != 0) {
        return r;
    }
    void *model = kind->new_model(&planted);
    if (model == NULL) {
        return coxi_error_memory("a model");
    }
    coxi_progress_begin(&progress, "generating", (uint64_t)config->records);
    progress.unit = "records";
    for (int64_t i = 0; r == 0 && i < config->files; i++) {
        r = write_file(kind, model, config, name, i, &progress);
    }
    coxi_progress_clear(&progress);
    r = r == 0 ? print_quality(config, kind->quality(model)) : r;
    free(model);
    return r;
}

int coxi_data_generate(int argc, char **argv)
{
    struct config config = {0};
    char **words;
    size_t n;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 2, &words, &n, &code)) {
        return code;
    }
    const struct coxi_planted_kind *kind = find_kind(words[0]);
    int r = kind != NULL && n == 2
                ? generate(kind, &config, words[1])
                : coxi_error(COX_EINVAL, "say: %s %s", program.name, program.usage);
    return coxi_data_exit(&program, r);
}

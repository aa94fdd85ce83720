/* coxswain checkpoint list, verify, prune: directories of checkpoints. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/hold.h"
#include "checkpoint/latest.h"
#include "checkpoint/place.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "common/error.h"
#include "common/file.h"
#include "net/daemon.h"

/* Takes the name of a directory of checkpoints. */
static int take_directory(const char *given, char ret[PATH_MAX])
{
    int r = coxi_place_take(given, ret);
    return r == 0 && coxi_checkpoint_is_one(ret)
               ? coxi_error(COX_EINVAL,
                            "%s is the name of a checkpoint: say the directory that "
                            "holds it",
                            ret)
               : r;
}

/* ---- list */

struct list_config {
    bool json;
};

static const struct coxi_option list_options[] = {
    COXI_CHECKPOINT_JSON(struct list_config),
};

static const struct coxi_program list_program = {
    .name = "coxswain checkpoint list",
    .usage = "[options] DIR",
    .summary =
        "Prints the checkpoints of a directory. State: complete, or the fault that "
        "was\nfound (without reading the data: verify does that); LATEST; being "
        "read.\nAn unfinished checkpoint is being written, or its writer has "
        "died." COXI_CHECKPOINT_PLACE,
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = list_options,
    .n_options = sizeof(list_options) / sizeof(*list_options),
};

/* A checkpoint, as it is listed. */
struct line {
    uint64_t number;
    bool unfinished;
    bool latest;
    bool is_read;
    char fault[COXI_ERROR_TEXT_MAX]; /* "": the checkpoint is complete */
    double time_s;
    uint64_t bytes;
    uint64_t rows; /* of all tables */
    uint64_t base; /* the checkpoint that it builds on; 0: none */
    uint32_t n_ps;
    uint32_t n_variables;
};

static void count(const struct coxi_checkpoint *checkpoint, struct line *line)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    line->time_s = m->time_s;
    line->n_ps = m->n_shards;
    line->base = m->base;
    line->n_variables = m->n_variables;
    for (uint32_t i = 0; i < m->n_shards; i++) {
        line->bytes += m->shards[i].bytes;
    }
    for (size_t i = 0; i < checkpoint->n_wholes; i++) {
        bool keys = strcmp(checkpoint->wholes[i].part, "keys") == 0;
        line->rows += keys ? checkpoint->wholes[i].shape[0] : 0;
    }
}

static struct line describe(const char *dir, const struct coxi_listed *listed,
                            uint64_t latest)
{
    char path[PATH_MAX];
    struct coxi_checkpoint *checkpoint;
    struct line line = {.number = listed->number,
                        .unfinished = listed->unfinished,
                        .latest = !listed->unfinished && listed->number == latest};
    if (listed->unfinished) {
        return line;
    }
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, listed->number);
    if (r == 0) {
        line.is_read = coxi_hold_is_taken(path);
        r = coxi_checkpoint_open(path, COXI_CHECKPOINT_GLANCED, &checkpoint);
    }
    if (r == 0) {
        count(checkpoint, &line);
        coxi_checkpoint_close(checkpoint);
    } else {
        (void)snprintf(line.fault, sizeof(line.fault), "%s", coxi_error_text());
    }
    return line;
}

static void age_text(double time_s, char *ret, size_t len)
{
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    double age = difftime(time(NULL), (time_t)time_s);
    size_t i = 0;
    while (i < 3 && age < 2 * units[i].seconds) {
        i++;
    }
    (void)snprintf(ret, len, "%.0f %s", age > 0 ? age / units[i].seconds : 0,
                   units[i].unit);
}

static void print_line(const struct line *line)
{
    char when[32] = "";
    char age[32] = "";
    char base[32] = "whole";
    const char *state = line->unfinished ? "unfinished"
                        : *line->fault   ? line->fault
                                         : "complete";
    (void)printf("%10" PRIu64, line->number);
    if (line->unfinished || *line->fault) {
        (void)printf("  %-19s %7s %14s %4s %9s %12s %9s", "", "", "", "", "", "", "");
    } else {
        coxi_checkpoint_time(line->time_s, when, sizeof(when));
        age_text(line->time_s, age, sizeof(age));
        if (line->base != 0) {
            (void)snprintf(base, sizeof(base), "%" PRIu64, line->base);
        }
        (void)printf(
            "  %-19s %7s %14" PRIu64 " %4" PRIu32 " %9" PRIu32 " %12" PRIu64 " %9s",
            when, age, line->bytes, line->n_ps, line->n_variables, line->rows, base);
    }
    (void)printf("  %s%s%s\n", state, line->latest ? ", LATEST" : "",
                 line->is_read ? ", being read" : "");
}

static json_t *line_json(const struct line *line)
{
    const char *state = line->unfinished ? "unfinished"
                        : *line->fault   ? "faulty"
                                         : "complete";
    json_t *object =
        json_pack("{s:I, s:s, s:b, s:b}", "number", (json_int_t)line->number, "state",
                  state, "latest", line->latest, "being_read", line->is_read);
    if (*line->fault) {
        (void)json_object_set_new(object, "fault", json_string(line->fault));
    } else if (!line->unfinished) {
        json_t *more =
            json_pack("{s:f, s:I, s:I, s:I, s:I, s:I}", "time", line->time_s, "bytes",
                      (json_int_t)line->bytes, "ps", (json_int_t)line->n_ps,
                      "variables", (json_int_t)line->n_variables, "rows",
                      (json_int_t)line->rows, "base", (json_int_t)line->base);
        (void)json_object_update(object, more);
        json_decref(more);
    }
    return object;
}

static int find_any(void *arg, const char *name)
{
    (void)name;
    *(bool *)arg = true;
    return COX_EEXIST; /* ends the list */
}

/* Stores have no directories: a prefix without any object is one that is missing. */
static int check_there(const char *dir)
{
    bool any = false;
    if (!coxi_place_in_store(dir)) {
        return 0;
    }
    int r = coxi_place_names(dir, "", find_any, &any);
    if (r == 0) {
        return coxi_error(COX_ENOENT, "%s is no checkpoint and holds none", dir);
    }
    return any ? 0 : r;
}

static int list(const char *dir, bool json)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t latest = 0;
    json_t *lines = json_array();
    int r = coxi_checkpoints_list(dir, &all, &n);
    r = r == 0 && n == 0 ? check_there(dir) : r;
    if (r == 0) {
        /* without LATEST, no line is marked as the latest */
        (void)coxi_latest_read(dir, &latest);
    }
    if (r == 0 && !json) {
        (void)printf("%10s  %-19s %7s %14s %4s %9s %12s %9s  %s\n", "checkpoint",
                     "written", "age", "bytes", "ps", "variables", "rows", "builds on",
                     "state");
    }
    for (size_t i = 0; i < n; i++) {
        struct line line = describe(dir, &all[i], latest);
        if (json) {
            (void)json_array_append_new(lines, line_json(&line));
        } else {
            print_line(&line);
        }
    }
    free(all);
    if (r == 0 && json) {
        return coxi_checkpoint_print(json_pack("{s:o}", "checkpoints", lines));
    }
    json_decref(lines);
    return r;
}

int coxi_checkpoint_list(int argc, char **argv)
{
    struct list_config config = {0};
    char dir[PATH_MAX];
    char **words;
    int code;
    if (!coxi_command_options(&list_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    int r = take_directory(words[0], dir);
    r = r == 0 ? list(dir, config.json) : r;
    return coxi_checkpoint_exit(&list_program, r);
}

/* ---- verify */

static const struct coxi_program verify_program = {
    .name = "coxswain checkpoint verify",
    .usage = "[options] DIR",
    .summary = "Reads all of a checkpoint (.../ckpt-3), or of each in a directory, as "
               "loading\n"
               "would: every checksum, name, type and shape. Prints a line for each "
               "fault and\n"
               "exits 1 if there is one." COXI_CHECKPOINT_PLACE,
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = list_options,
    .n_options = sizeof(list_options) / sizeof(*list_options),
};

struct verifying {
    const char *path; /* the checkpoint that is being verified */
    bool json;
    json_t *faults; /* its faults */
    size_t n_faults;
    bool held;
};

static void tell_fault(void *arg, const char *text)
{
    struct verifying *v = arg;
    v->n_faults++;
    if (v->json) {
        (void)json_array_append_new(v->faults, json_string(text));
    } else {
        (void)printf("%s: %s\n", v->path, text);
    }
}

/* Verifies one checkpoint; false: it has faults. */
static bool verify_one(struct verifying *v, const char *path, json_t *all)
{
    size_t before = v->n_faults;
    v->path = path;
    v->faults = json_array();
    int r = coxi_checkpoint_verify(path, tell_fault, v, &v->held);
    if (r != 0 && v->n_faults == before) {
        tell_fault(v, coxi_error_text());
    }
    bool whole = v->n_faults == before;
    if (v->json) {
        (void)json_array_append_new(all,
                                    json_pack("{s:s, s:b, s:O}", "path", path,
                                              "complete", whole, "faults", v->faults));
    } else if (whole) {
        (void)printf("%s: complete\n", path);
    }
    json_decref(v->faults);
    return whole;
}

/* Verifies each checkpoint of a directory, and that LATEST names one of them. */
static int verify_directory(struct verifying *v, const char *dir, json_t *checkpoints)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t latest = 0;
    bool found = false;
    char path[PATH_MAX];
    int r = coxi_checkpoints_list(dir, &all, &n);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (!all[i].unfinished) {
            r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, all[i].number);
        }
        if (r == 0 && !all[i].unfinished) {
            (void)verify_one(v, path, checkpoints);
        }
    }
    if (r == 0) {
        r = coxi_checkpoints_latest(dir, &latest);
    }
    for (size_t i = 0; i < n; i++) {
        found = found || (!all[i].unfinished && all[i].number == latest);
    }
    free(all);
    return r != 0 || found
               ? r
               : coxi_error(COX_EFORMAT,
                            "%s/LATEST names ckpt-%" PRIu64 ", which is not there", dir,
                            latest);
}

static int verify(const char *dir, bool json)
{
    struct verifying v = {.json = json, .held = true};
    json_t *checkpoints = json_array();
    int r = 0;
    if (coxi_checkpoint_is_one(dir)) {
        (void)verify_one(&v, dir, checkpoints);
    } else {
        r = verify_directory(&v, dir, checkpoints);
    }
    if (json) {
        (void)coxi_checkpoint_print(json_pack("{s:O}", "checkpoints", checkpoints));
    }
    json_decref(checkpoints);
    if (!v.held) {
        coxi_checkpoint_warn(&verify_program, dir);
    }
    if (r == 0 && v.n_faults > 0) {
        r = coxi_error(COX_EFORMAT, "%zu fault%s", v.n_faults,
                       v.n_faults > 1 ? "s" : "");
    }
    return r;
}

int coxi_checkpoint_verify_all(int argc, char **argv)
{
    struct list_config config = {0};
    char dir[PATH_MAX];
    char **words;
    int code;
    if (!coxi_command_options(&verify_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    int r = coxi_place_take(words[0], dir);
    r = r == 0 ? verify(dir, config.json) : r;
    return coxi_checkpoint_exit(&verify_program, r);
}

/* ---- prune */

struct prune_config {
    int64_t keep;
    int64_t keep_every;
    bool dry_run;
    bool json;
};

static const struct coxi_option prune_options[] = {
    {.name = "keep",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct prune_config, keep),
     .max = 1e15,
     .fallback = "0",
     .help = "number of newest checkpoints to keep (1 or more; required)"},
    {.name = "keep-every",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct prune_config, keep_every),
     .max = 1e15,
     .fallback = "0",
     .help = "also keep checkpoints whose number this divides; 0: none of them"},
    {.name = "dry-run",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct prune_config, dry_run),
     .help = "delete nothing, but print what would be deleted"},
    COXI_CHECKPOINT_JSON(struct prune_config),
};

static const struct coxi_program prune_program = {
    .name = "coxswain checkpoint prune",
    .usage = "--keep N [options] DIR",
    .summary = "Deletes old checkpoints, except the one that LATEST names and those "
               "being read.\nDo not use it while a client with checkpoint_keep writes "
               "to the directory." COXI_CHECKPOINT_PLACE,
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = prune_options,
    .n_options = sizeof(prune_options) / sizeof(*prune_options),
};

struct pruning {
    bool dry_run;
    json_t *lines; /* NULL: prints a table */
};

static void tell_fate(void *arg, uint64_t number, enum coxi_fate fate)
{
    static const char *const words[] = {
        [COXI_FATE_NEWEST] = "kept, one of the newest",
        [COXI_FATE_EVERY] = "kept by its number",
        [COXI_FATE_BASE] = "kept, others build on it",
        [COXI_FATE_READ] = "kept, being read",
        [COXI_FATE_FAILED] = "not deleted",
        [COXI_FATE_DELETED] = "deleted",
    };
    const struct pruning *p = arg;
    bool would = p->dry_run && fate == COXI_FATE_DELETED;
    const char *word = would ? "would be deleted" : words[fate];
    if (p->lines == NULL) {
        (void)printf("%10" PRIu64 "  %s\n", number, word);
    } else {
        (void)json_array_append_new(
            p->lines, json_pack("{s:I, s:b, s:s}", "number", (json_int_t)number, "kept",
                                fate != COXI_FATE_DELETED, "fate", word));
    }
}

int coxi_checkpoint_prune(int argc, char **argv)
{
    struct prune_config config = {0};
    char dir[PATH_MAX];
    char **words;
    int code;
    if (!coxi_command_options(&prune_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    if (config.keep == 0) {
        (void)coxi_error(COX_EINVAL, "--keep is missing: say how many to keep");
        return coxi_exit_config(prune_program.name);
    }
    const struct coxi_retention retention = {.keep = (uint64_t)config.keep,
                                             .keep_every = (uint64_t)config.keep_every};
    struct pruning pruning = {config.dry_run, config.json ? json_array() : NULL};
    int r = take_directory(words[0], dir);
    if (r == 0) {
        r = coxi_checkpoints_prune(dir, &retention, config.dry_run, tell_fate,
                                   &pruning);
    }
    if (config.json && r == 0) {
        r = coxi_checkpoint_print(json_pack("{s:O}", "checkpoints", pruning.lines));
    }
    json_decref(pruning.lines);
    return coxi_checkpoint_exit(&prune_program, r);
}

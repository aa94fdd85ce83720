/*
 * Results of evaluators: lines of JSON in <dir>/eval.jsonl, which evaluators append and
 * clients read. Several evaluators may report to one file (coxi_place_append); their lines
 * have the time in them, so no two are alike. A line that was cut (the disk was full, its
 * writer was killed) is skipped by readers, and the next line begins on a line of its own. A host that loses its
 * power may leave NULs in the file. Lines are found by length, not as strings, so NULs
 * hide no line.
 *
 * Threads: the evaluator's; reading: any. Cost: reading is O(file).
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint/place.h"
#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/file.h"
#include "common/structs.h"
#include "evaluator/evaluator.h"

enum { EVALS_BYTES_MAX = 64 << 20, STORE_WAIT_MS = 3000 };

/* ---- reporting */

/* True for members of a line that are not scores. */
static bool is_reserved(const char *name)
{
    return strcmp(name, "checkpoint") == 0 || strcmp(name, "time") == 0;
}

/* Checks the names of scores. A line of the log is a JSON object, so each of its names
 * must be different. */
static int check_scores(const struct cox_score *scores, size_t n_scores)
{
    for (size_t i = 0; i < n_scores; i++) {
        const char *name = scores[i].name;
        if (name == NULL) {
            return coxi_error(COX_EINVAL, "scores[%zu].name is NULL", i);
        }
        if (is_reserved(name)) {
            return coxi_error(
                COX_EINVAL,
                "a score must not be called '%s': each line of eval.jsonl "
                "has a member of that name",
                name);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(scores[j].name, name) == 0) {
                return coxi_error(COX_EINVAL, "two scores are called '%s'", name);
            }
        }
    }
    return 0;
}

/* Makes the line, with its newline; for free(). NULL: a name is not UTF-8 text. */
static char *line_of(const struct cox_eval *eval)
{
    json_t *line = json_pack("{s:I, s:f}", "checkpoint", (json_int_t)eval->checkpoint,
                             "time", eval->time_s);
    for (size_t i = 0; i < eval->n_scores; i++) {
        /* JSON has no NaN and no infinity. */
        json_t *value = json_real(eval->scores[i].value);
        if (json_object_set_new(line, eval->scores[i].name,
                                value != NULL ? value : json_null()) != 0) {
            json_decref(line);
            return NULL;
        }
    }
    char *json = json_dumps(line, JSON_COMPACT);
    char *text = NULL;
    if (json != NULL && asprintf(&text, "%s\n", json) < 0) {
        text = NULL;
    }
    free(json);
    json_decref(line);
    return text;
}

static int append(const char *dir, const char *text)
{
    char path[PATH_MAX];
    int r = coxi_path(path, "%s/eval.jsonl", dir);
    return r == 0 ? coxi_place_append(path, text, true) : r;
}

int cox_evaluator_report(struct cox_evaluator *evaluator,
                         const struct cox_score *scores, size_t n_scores)
{
    struct timespec now;
    struct cox_eval eval = COX_EVAL_INIT;
    if (evaluator == NULL || (n_scores > 0 && scores == NULL)) {
        return coxi_error(COX_EINVAL, "cox_evaluator_report needs scores");
    }
    int r = check_scores(scores, n_scores);
    if (r != 0) {
        return r;
    }
    eval.checkpoint = coxi_evaluator_loaded(evaluator);
    if (eval.checkpoint == 0) {
        return coxi_error(COX_ENOTREADY, "no checkpoint is loaded");
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    eval.time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    eval.scores = scores;
    eval.n_scores = n_scores;
    char *text = line_of(&eval);
    if (text == NULL) {
        return coxi_error(COX_EINVAL, "a score's name is no UTF-8 text");
    }
    r = append(coxi_evaluator_dir(evaluator), text);
    free(text);
    const struct cox_evaluator_options *o = coxi_evaluator_options(evaluator);
    if (r == 0 && o->on_report != NULL) {
        o->on_report(o->arg, &eval);
    }
    return r;
}

/* ---- reading */

struct cox_evals {
    struct cox_eval *all;
    size_t n;
    json_t *lines; /* owns the names */
};

static double value_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Appends the result in a line; skips a line without one. COX_ENOMEM. */
static int take_line(struct cox_evals *evals, const char *text, size_t len)
{
    const char *name;
    json_t *value;
    json_t *line = json_loadb(text, len, 0, NULL);
    const json_t *number = json_object_get(line, "checkpoint");
    if (!json_is_integer(number) || !json_is_number(json_object_get(line, "time"))) {
        json_decref(line);
        return 0;
    }
    struct cox_score *scores = calloc(json_object_size(line), sizeof(*scores));
    if (scores == NULL || json_array_append_new(evals->lines, line) != 0) {
        free(scores);
        return coxi_error_memory("results of evaluators");
    }
    struct cox_eval *eval = &evals->all[evals->n++];
    *eval = (struct cox_eval)COX_EVAL_INIT;
    eval->checkpoint = (uint64_t)json_integer_value(number);
    eval->time_s = json_number_value(json_object_get(line, "time"));
    eval->scores = scores;
    json_object_foreach(line, name, value)
    {
        if (!is_reserved(name)) {
            scores[eval->n_scores++] = (struct cox_score){name, value_of(value)};
        }
    }
    return 0;
}

static int take_lines(struct cox_evals *evals, const char *text, size_t len)
{
    const char *limit = text + len;
    size_t n_lines = 0;
    int r = 0;
    for (const char *at = text; at < limit; at++) {
        n_lines += *at == '\n';
    }
    evals->all = calloc(n_lines + 1, sizeof(*evals->all));
    evals->lines = json_array();
    if (evals->all == NULL || evals->lines == NULL) {
        return coxi_error_memory("results of evaluators");
    }
    while (r == 0 && n_lines-- > 0) {
        const char *end = memchr(text, '\n', (size_t)(limit - text));
        while (*text == '\0') {
            text++; /* a line may follow NULs without a newline between */
        }
        r = take_line(evals, text, (size_t)(end - text));
        text = end + 1;
    }
    return r;
}

/* Reads the whole file, of a store for a short time only: training waits. */
static int read_lines(const char *dir, uint8_t **ret, size_t *ret_len)
{
    char taken[PATH_MAX];
    char path[PATH_MAX];
    int r = coxi_place_take(dir, taken);
    r = r == 0 ? coxi_path(path, "%s/eval.jsonl", taken) : r;
    if (r != 0) {
        return r;
    }
    coxi_disk_give_up_at(coxi_now_ms() + STORE_WAIT_MS);
    r = coxi_place_read(path, EVALS_BYTES_MAX, ret, ret_len);
    coxi_disk_give_up_at(UINT64_MAX);
    if (r == COX_ECANCELLED) {
        char text[COXI_ERROR_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        r = coxi_error(COX_ETIMEDOUT, "%s", text);
    }
    return r;
}

int cox_evals_read(const char *dir, struct cox_evals **ret)
{
    uint8_t *text = NULL;
    size_t len = 0;
    if (dir == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_evals_read needs a checkpoint directory");
    }
    struct cox_evals *evals = calloc(1, sizeof(*evals));
    if (evals == NULL) {
        return coxi_error_memory("results of evaluators");
    }
    int r = read_lines(dir, &text, &len);
    if (r == 0) {
        r = take_lines(evals, (const char *)text, len);
    }
    free(text);
    if (r != 0) {
        cox_evals_free(evals);
        return r;
    }
    *ret = evals;
    return 0;
}

size_t cox_evals_count(const struct cox_evals *evals)
{
    return evals != NULL ? evals->n : 0;
}

int cox_evals_at(const struct cox_evals *evals, size_t i, struct cox_eval *ret)
{
    if (evals == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_evals_at needs results and a place");
    }
    return i < evals->n ? coxi_struct_return(ret, COXI_STRUCT_EVAL, &evals->all[i])
                        : coxi_error(COX_ENOENT, "there are %zu results", evals->n);
}

int cox_eval_score(const struct cox_eval *eval, const char *name, double *ret_value)
{
    struct cox_eval known;
    if (eval == NULL || name == NULL || ret_value == NULL) {
        return coxi_error(COX_EINVAL, "cox_eval_score needs a result and a name");
    }
    int r = coxi_struct_copy(&known, COXI_STRUCT_EVAL, eval);
    for (size_t i = 0; r == 0 && i < known.n_scores; i++) {
        if (strcmp(known.scores[i].name, name) == 0) {
            *ret_value = known.scores[i].value;
            return 0;
        }
    }
    return r != 0 ? r
                  : coxi_error(COX_ENOENT,
                               "nobody has reported a score '%s' of checkpoint %llu",
                               name, (unsigned long long)known.checkpoint);
}

void cox_evals_free(struct cox_evals *evals)
{
    if (evals == NULL) {
        return;
    }
    for (size_t i = 0; i < evals->n; i++) {
        free((void *)(uintptr_t)evals->all[i].scores);
    }
    free(evals->all);
    json_decref(evals->lines);
    free(evals);
}

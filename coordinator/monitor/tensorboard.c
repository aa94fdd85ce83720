/* See tensorboard.h. */
#include "coordinator/monitor/tensorboard.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/history_file.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "coordinator/monitor/event_file.h"

enum {
    WAIT_MS = 10000,      /* a point waits for earlier steps for so long */
    POINTS_MAX = 1 << 12, /* points that wait; beyond that all are written */
};

/* A point that waits for earlier steps. */
struct point {
    uint64_t step;
    uint64_t seq; /* points of equal steps stay in order */
    uint64_t since_ms;
    double t;
    double value;
    char name[COXI_SCALAR_NAME_MAX + 1];
};

struct coxi_tensorboard {
    struct coxi_event_file *train;
    struct coxi_event_file *eval;
    struct point *points;
    size_t n;
};

static bool is_eval(const struct coxi_record *record)
{
    return strcmp(record->scalar.source, "eval") == 0;
}

/* Adds a point; writes the file first if too much waits. */
static int put(struct coxi_event_file *file, const struct coxi_record_scalar *scalar,
               double t)
{
    int r = coxi_event_file_scalar(file, scalar->name, scalar->step, t, scalar->value);
    if (r == COX_EIO && coxi_event_file_flush(file) == 0) {
        r = coxi_event_file_scalar(file, scalar->name, scalar->step, t, scalar->value);
    }
    return r;
}

/* ---- points */

static int by_step(const void *a, const void *b)
{
    const struct point *x = a;
    const struct point *y = b;
    return x->step != y->step ? (x->step > y->step ? 1 : -1)
                              : (x->seq > y->seq) - (x->seq < y->seq);
}

int coxi_tensorboard_flush(struct coxi_tensorboard *board, uint64_t settled, bool all)
{
    uint64_t now_ms = coxi_now_ms();
    size_t left = 0;
    int r = 0;
    qsort(board->points, board->n, sizeof(*board->points), by_step);
    for (size_t i = 0; i < board->n; i++) {
        const struct point *point = &board->points[i];
        bool due = all || point->step < settled || now_ms - point->since_ms >= WAIT_MS;
        if (r == 0 && due) {
            struct coxi_record_scalar scalar = {
                .name = point->name, .step = point->step, .value = point->value};
            r = put(board->train, &scalar, point->t);
        }
        if (r != 0 || !due) {
            board->points[left++] = *point;
        }
    }
    board->n = left;
    int written = coxi_event_file_flush(board->train);
    int eval_written = coxi_event_file_flush(board->eval);
    r = r != 0 ? r : written;
    return r != 0 ? r : eval_written;
}

/* Writes the points of the lowest steps. */
static int make_room(struct coxi_tensorboard *board)
{
    qsort(board->points, board->n, sizeof(*board->points), by_step);
    int r = coxi_tensorboard_flush(board, board->points[board->n / 4 * 3].step, false);
    return r == 0 && board->n == POINTS_MAX ? coxi_tensorboard_flush(board, 0, true)
                                            : r;
}

int coxi_tensorboard_add(struct coxi_tensorboard *board,
                         const struct coxi_record *record)
{
    const struct coxi_record_scalar *scalar = &record->scalar;
    if (is_eval(record)) {
        return put(board->eval, scalar, record->t);
    }
    if (strcmp(scalar->source, "client") == 0) {
        return put(board->train, scalar, record->t);
    }
    int r = board->n == POINTS_MAX ? make_room(board) : 0;
    if (r == 0) {
        struct point *point = &board->points[board->n++];
        *point = (struct point){.step = scalar->step,
                                .seq = record->seq,
                                .since_ms = coxi_now_ms(),
                                .t = record->t,
                                .value = scalar->value};
        (void)strncat(point->name, scalar->name, sizeof(point->name) - 1);
    }
    return r;
}

/* ---- going on from a checkpoint */

/* A client of the run that has gone on from a checkpoint. */
struct resumption {
    uint64_t seq; /* of its `run` record */
    struct coxi_repeated repeated;
};

/* What the records so far mean for TensorBoard. */
struct survey {
    struct coxi_buffer resumptions; /* the last one is this client */
    /* the lowest step of a point that this client repeats */
    uint64_t train_first;
    uint64_t eval_first;
    struct coxi_tensorboard *board;
    uint64_t left_out;
    int code;
};

static void note_resumption(void *arg, const struct coxi_record *record)
{
    struct survey *survey = arg;
    struct resumption one = {.seq = record->seq};
    if (survey->code == 0 && coxi_record_repeats(record, &one.repeated)) {
        survey->code = coxi_buffer_append_raw(&survey->resumptions, &one, sizeof(one));
    }
}

/* The first resumption that repeats the scalar: its place among all; n: none does. */
static size_t repeated_by(const struct survey *survey, const struct coxi_record *record,
                          size_t n)
{
    const struct resumption *all =
        (const struct resumption *)(const void *)survey->resumptions.data;
    size_t i = 0;
    while (i < n &&
           (record->seq > all[i].seq || !coxi_repeated_has(&all[i].repeated, record))) {
        i++;
    }
    return i;
}

static size_t count(const struct survey *survey)
{
    return survey->resumptions.len / sizeof(struct resumption);
}

/* Finds the lowest step that this client repeats. */
static void note_first(void *arg, const struct coxi_record *record)
{
    struct survey *survey = arg;
    size_t n = count(survey);
    if (record->kind == COXI_RECORD_SCALAR && repeated_by(survey, record, n) == n - 1) {
        uint64_t *first = is_eval(record) ? &survey->eval_first : &survey->train_first;
        *first = record->scalar.step < *first ? record->scalar.step : *first;
    }
}

/* Writes a point again that is not repeated, but that TensorBoard forgets. */
static void rewrite(void *arg, const struct coxi_record *record)
{
    struct survey *survey = arg;
    size_t n = count(survey);
    if (survey->code != 0 || record->kind != COXI_RECORD_SCALAR ||
        repeated_by(survey, record, n) < n) {
        return;
    }
    bool eval = is_eval(record);
    if (record->scalar.step >= (eval ? survey->eval_first : survey->train_first)) {
        int r = coxi_tensorboard_add(survey->board, record);
        survey->left_out += r == COX_EIO;
        survey->code = r == COX_EIO ? 0 : r;
    }
}

static int look_back(const char *history, const struct coxi_repeated *repeated,
                     struct survey *survey)
{
    struct resumption own = {UINT64_MAX, *repeated};
    survey->train_first = survey->eval_first = repeated->closure + 1;
    int r = coxi_history_each(history, COXI_RECORDS_OF(COXI_RECORD_RUN),
                              note_resumption, survey);
    r = r == COX_ENOENT ? 0 : r;
    r = r == 0 ? survey->code : r;
    r = r == 0 ? coxi_buffer_append_raw(&survey->resumptions, &own, sizeof(own)) : r;
    if (r == 0) {
        /* what is repeated comes after the checkpoint */
        r = coxi_history_scalars(history, repeated->seq > 0 ? repeated->seq + 1 : 0,
                                 repeated->seq > 0 ? 0 : repeated->closure + 1,
                                 note_first, survey);
    }
    return r == COX_ENOENT ? 0 : r;
}

/* ---- life */

static int open_files(struct coxi_tensorboard *board, const char *dir,
                      const struct survey *survey)
{
    char path[PATH_MAX];
    int r = coxi_path(path, "%s/train", dir);
    r = r == 0 ? coxi_event_file_new(path, survey->train_first, &board->train) : r;
    r = r == 0 ? coxi_path(path, "%s/eval", dir) : r;
    return r == 0 ? coxi_event_file_new(path, survey->eval_first, &board->eval) : r;
}

int coxi_tensorboard_new(const char *dir, const char *history,
                         const struct coxi_repeated *repeated, uint64_t *ret_left_out,
                         struct coxi_tensorboard **ret)
{
    struct survey survey = {0};
    struct coxi_tensorboard *board = calloc(1, sizeof(*board));
    if (board != NULL) {
        board->points = calloc(POINTS_MAX, sizeof(*board->points));
    }
    if (board == NULL || board->points == NULL) {
        coxi_tensorboard_free(board);
        return coxi_error_memory("files for TensorBoard");
    }
    bool goes_on = repeated != NULL && history != NULL;
    survey.board = board;
    int r = goes_on ? look_back(history, repeated, &survey) : 0;
    r = r == 0 ? open_files(board, dir, &survey) : r;
    if (r == 0 && goes_on) {
        r = coxi_history_scalars(history, 0,
                                 survey.train_first < survey.eval_first
                                     ? survey.train_first
                                     : survey.eval_first,
                                 rewrite, &survey);
        r = r == COX_ENOENT ? 0 : r;
        r = r == 0 ? survey.code : r;
        /* what cannot be written now is tried again by the next flush */
        (void)coxi_tensorboard_flush(board, 0, true);
    }
    coxi_buffer_fini(&survey.resumptions);
    if (r != 0) {
        coxi_tensorboard_free(board);
        return r;
    }
    *ret_left_out = survey.left_out;
    *ret = board;
    return 0;
}

void coxi_tensorboard_free(struct coxi_tensorboard *board)
{
    if (board != NULL) {
        coxi_event_file_free(board->train);
        coxi_event_file_free(board->eval);
        free(board->points);
        free(board);
    }
}

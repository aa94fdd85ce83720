/* See backlog.h. */
#include "checkpoint/backlog.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/error.h"
#include "coxswain/round.h"

enum { COLUMNS = 10, NAMES_BYTES = 2 * (COX_NAME_MAX + 1) };
_Static_assert(sizeof(struct coxi_backlog_head) == COLUMNS * sizeof(uint64_t),
               "a row of heads");

/* ---- writing */

static char *functions_text(const struct coxi_backlog *backlog)
{
    json_t *list = json_array();
    for (size_t i = 0; i < backlog->n_functions; i++) {
        const struct coxi_backlog_function *f = &backlog->functions[i];
        (void)json_array_append_new(list, json_pack("[s, s]", f->module, f->name));
    }
    char *text = json_dumps(list, 0);
    json_decref(list);
    return text;
}

static int write_all(struct coxi_st_writer *file, const struct coxi_backlog *backlog)
{
    int r = coxi_st_write(file, backlog->heads, backlog->n * sizeof(*backlog->heads));
    for (size_t i = 0; r == 0 && i < backlog->n_inputs; i++) {
        r = coxi_st_write(file, &backlog->inputs[i].closure, sizeof(uint64_t));
    }
    if (r == 0) {
        r = coxi_st_write(file, backlog->args, backlog->args_len);
    }
    for (size_t i = 0; r == 0 && i < backlog->n_inputs; i++) {
        r = coxi_st_write(file, backlog->inputs[i].name, NAMES_BYTES);
    }
    return r;
}

int coxi_backlog_write(const char *path, const struct coxi_backlog *backlog,
                       uint64_t *ret_bytes, uint32_t *ret_crc32)
{
    const uint64_t n_inputs = backlog->n_inputs;
    const struct coxi_st_tensor tensors[] = {
        {.name = "heads",
         .dtype = "U64",
         .rank = 2,
         .shape = {backlog->n, COLUMNS},
         .bytes = backlog->n * sizeof(*backlog->heads)},
        {.name = "inputs",
         .dtype = "U64",
         .rank = 1,
         .shape = {n_inputs},
         .bytes = n_inputs * sizeof(uint64_t)},
        {.name = "args",
         .dtype = "U8",
         .rank = 1,
         .shape = {backlog->args_len},
         .bytes = backlog->args_len},
        {.name = "input_names",
         .dtype = "U8",
         .rank = 2,
         .shape = {n_inputs, NAMES_BYTES},
         .bytes = n_inputs * NAMES_BYTES},
    };
    struct coxi_st_writer *file;
    char *functions = functions_text(backlog);
    if (functions == NULL) {
        return coxi_error_memory("the backlog of a checkpoint");
    }
    const struct coxi_st_metadata metadata[] = {{"format", "coxswain-backlog-1"},
                                                {"functions", functions}};
    int r = coxi_st_create(path, tensors, sizeof(tensors) / sizeof(*tensors), metadata,
                           sizeof(metadata) / sizeof(*metadata), &file);
    free(functions);
    if (r != 0) {
        return r;
    }
    r = write_all(file, backlog);
    if (r != 0) {
        coxi_st_abandon(file);
        return r;
    }
    return coxi_st_finish(file, ret_bytes, ret_crc32);
}

/* ---- reading */

struct coxi_backlog_file {
    struct coxi_st_file *file;
    json_t *names; /* owns the text of `backlog.functions` */
    void *heads;
    void *args;
    struct coxi_backlog backlog;
};

static const struct coxi_st_tensor *find(const struct coxi_backlog_file *file,
                                         const char *name, const char *dtype,
                                         uint64_t item_bytes)
{
    const struct coxi_st_tensor *tensor = coxi_st_find(file->file, name);
    return tensor != NULL && strcmp(tensor->dtype, dtype) == 0 &&
                   tensor->bytes % item_bytes == 0
               ? tensor
               : NULL;
}

/* Reads one of the tensors, which must have that type. */
static int read_tensor(const struct coxi_backlog_file *file, const char *name,
                       const char *dtype, uint64_t item_bytes, void **ret,
                       size_t *ret_n)
{
    const struct coxi_st_tensor *tensor = find(file, name, dtype, item_bytes);
    if (tensor == NULL) {
        return coxi_error(COX_EFORMAT, "it has no tensor '%s' of %s", name, dtype);
    }
    *ret_n = tensor->bytes / item_bytes;
    return coxi_st_read_all(tensor, ret);
}

static bool read_functions(struct coxi_backlog_file *file)
{
    struct coxi_backlog *backlog = &file->backlog;
    const char *text = coxi_st_metadata(file->file, "functions");
    file->names = text != NULL ? json_loads(text, 0, NULL) : NULL;
    size_t n = json_array_size(file->names);
    backlog->functions = calloc(n + 1, sizeof(*backlog->functions));
    for (size_t i = 0; backlog->functions != NULL && i < n; i++) {
        const json_t *pair = json_array_get(file->names, i);
        struct coxi_backlog_function *f = &backlog->functions[i];
        f->module = json_string_value(json_array_get(pair, 0));
        f->name = json_string_value(json_array_get(pair, 1));
        if (f->module == NULL || f->name == NULL) {
            return false;
        }
    }
    backlog->n_functions = n;
    return json_is_array(file->names) && backlog->functions != NULL;
}

/* Makes the list of inputs. False: a name does not end, or there is no memory. */
static bool make_inputs(struct coxi_backlog *backlog, const uint64_t *closures,
                        const char *names)
{
    backlog->inputs = calloc(backlog->n_inputs + 1, sizeof(*backlog->inputs));
    for (size_t i = 0; backlog->inputs != NULL && i < backlog->n_inputs; i++) {
        struct coxi_backlog_input *input = &backlog->inputs[i];
        input->closure = closures[i];
        memcpy(input->name, names + i * NAMES_BYTES, NAMES_BYTES);
        if (input->name[COX_NAME_MAX] != '\0' || input->result[COX_NAME_MAX] != '\0') {
            return false;
        }
    }
    return backlog->inputs != NULL;
}

static int read_inputs(struct coxi_backlog_file *file)
{
    struct coxi_backlog *backlog = &file->backlog;
    void *closures = NULL;
    void *names = NULL;
    size_t n_names = 0;
    int r = read_tensor(file, "inputs", "U64", sizeof(uint64_t), &closures,
                        &backlog->n_inputs);
    if (r == 0) {
        r = read_tensor(file, "input_names", "U8", NAMES_BYTES, &names, &n_names);
    }
    if (r == 0 &&
        (n_names != backlog->n_inputs || !make_inputs(backlog, closures, names))) {
        r = coxi_error(COX_EFORMAT, "its inputs are malformed");
    }
    free(closures);
    free(names);
    return r;
}

static int read_tensors(struct coxi_backlog_file *file)
{
    struct coxi_backlog *backlog = &file->backlog;
    int r = read_tensor(file, "heads", "U64", sizeof(*backlog->heads), &file->heads,
                        &backlog->n);
    if (r == 0) {
        r = read_tensor(file, "args", "U8", 1, &file->args, &backlog->args_len);
    }
    backlog->heads = file->heads;
    backlog->args = file->args;
    return r == 0 ? read_inputs(file) : r;
}

static int by_closure(const void *key, const void *head)
{
    uint64_t closure = *(const uint64_t *)key;
    uint64_t other = ((const struct coxi_backlog_head *)head)->closure;
    return closure < other ? -1 : closure > other;
}

/* True if the inputs of heads[i] are closures that come before it in the backlog. */
static bool check_inputs(const struct coxi_backlog *backlog, size_t i, size_t first)
{
    for (size_t k = 0; k < backlog->heads[i].n_inputs; k++) {
        const struct coxi_backlog_head *source =
            i == 0 ? NULL
                   : bsearch(&backlog->inputs[first + k].closure, backlog->heads, i,
                             sizeof(*backlog->heads), by_closure);
        if (source == NULL || source->function >= COXI_BACKLOG_ROUND) {
            return false;
        }
    }
    return true;
}

/* True if nothing but calls lies in a round: no write, and no end of another round. */
static bool check_members(const struct coxi_backlog *backlog, size_t end,
                          uint64_t first)
{
    const struct coxi_backlog_head *heads = backlog->heads;
    size_t i = end;
    while (i > 0 && heads[i - 1].closure >= first &&
           heads[i - 1].function < COXI_BACKLOG_ROUND) {
        i--;
    }
    return i == 0 || heads[i - 1].closure < first;
}

/* True if the end of a round is one. */
static bool check_round(const struct coxi_backlog *backlog, size_t i)
{
    const struct coxi_backlog_head *head = &backlog->heads[i];
    struct coxi_backlog_round round;
    if (head->args_len < sizeof(round)) {
        return false;
    }
    memcpy(&round, backlog->args + head->args_at, sizeof(round));
    return round.n > 0 && round.n <= COX_ROUND_MAX && round.first > 0 &&
           head->closure > round.n && round.first == head->closure - round.n &&
           round.needed > 0 && round.needed <= round.n &&
           round.staleness <= UINT32_MAX && round.reduce <= COX_REDUCE_SUM &&
           round.flags <= COXI_BACKLOG_ROUND_FLAGS &&
           head->args_len ==
               sizeof(round) + round.n * sizeof(struct coxi_backlog_part) &&
           head->n_inputs == 0 && head->done == 0 &&
           check_members(backlog, i, round.first);
}

static bool check_head(const struct coxi_backlog *backlog, size_t i, size_t first_input)
{
    const struct coxi_backlog_head *head = &backlog->heads[i];
    bool update = head->function == COXI_BACKLOG_UPDATE;
    bool is_round = head->function == COXI_BACKLOG_ROUND;
    bool more = update && i > 0 && head[-1].function == COXI_BACKLOG_UPDATE &&
                head->closure == head[-1].closure;
    return (i == 0 ? head->closure > 0 : more || head->closure > head[-1].closure) &&
           (update ? head->args_len >= sizeof(struct coxi_backlog_update)
                   : is_round || head->function < backlog->n_functions) &&
           head->args_at % 8 == 0 && head->args_at <= backlog->args_len &&
           head->args_len <= backlog->args_len - head->args_at &&
           head->n_inputs <= backlog->n_inputs - first_input &&
           head->done <= 1 + COX_ROUND_MAX && !(update && head->done) &&
           head->timeout_ms <= INT_MAX && head->only_worker <= UINT32_MAX &&
           check_inputs(backlog, i, first_input) &&
           (!is_round || check_round(backlog, i));
}

static bool check(const struct coxi_backlog *backlog)
{
    size_t first_input = 0;
    for (size_t i = 0; i < backlog->n; i++) {
        if (!check_head(backlog, i, first_input)) {
            return false;
        }
        first_input += backlog->heads[i].n_inputs;
    }
    return first_input == backlog->n_inputs;
}

int coxi_backlog_open(const char *path, uint64_t bytes, uint32_t crc32,
                      struct coxi_backlog_file **ret)
{
    struct coxi_backlog_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("the backlog of a checkpoint");
    }
    int r = coxi_st_open(path, bytes, &crc32, &file->file);
    if (r == 0) {
        r = read_tensors(file);
        if (r == 0 && (!read_functions(file) || !check(&file->backlog))) {
            r = coxi_error(COX_EFORMAT, "its closures are malformed");
        }
        if (r == COX_EFORMAT) {
            r = coxi_error(r, "%s is no backlog of a checkpoint: %.400s", path,
                           coxi_error_text());
        }
    }
    if (r != 0) {
        coxi_backlog_close(file);
        return r;
    }
    *ret = file;
    return 0;
}

const struct coxi_backlog *coxi_backlog_of(const struct coxi_backlog_file *file)
{
    return &file->backlog;
}

void coxi_backlog_close(struct coxi_backlog_file *file)
{
    if (file != NULL) {
        json_decref(file->names);
        free(file->heads);
        free(file->args);
        free(file->backlog.inputs);
        free(file->backlog.functions);
        coxi_st_close(file->file);
        free(file);
    }
}

/* coxswain checkpoint show: the content of a checkpoint. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "common/layout.h"

struct config {
    bool json;
    const char *variable;
};

static const struct coxi_option options[] = {
    COXI_CHECKPOINT_JSON(struct config),
    COXI_CHECKPOINT_VARIABLE(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain checkpoint show",
    .usage = "[options] DIR",
    .summary = "Verifies every checksum of a checkpoint and prints its content: for "
               "each tensor\nof each shard the sum, least and greatest value (for a "
               "step: its value; for a\nrate: the one set last); for each variable the "
               "optimizer with which it was\ncreated.\nDIR is a checkpoint "
               "(.../ckpt-3), or a checkpoint directory, whose latest one "
               "is\nshown." COXI_CHECKPOINT_PLACE,
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static void print_head(const struct coxi_manifest *m)
{
    char when[64];
    coxi_checkpoint_time(m->time_s, when, sizeof(when));
    (void)printf("checkpoint %" PRIu64 "%s  run %016" PRIx64 "  generation %" PRIu64
                 "  written %s\n",
                 m->number, m->final ? " (final)" : "", m->session.run,
                 m->session.generation, when);
    (void)printf("\n%-32s %12s %-10s %s\n", "shard", "bytes", "crc32", "watermark");
    for (uint32_t i = 0; i < m->n_shards; i++) {
        (void)printf("%-32s %12" PRIu64 " %08" PRIx32 "   %" PRIu64 "\n",
                     m->shards[i].file, m->shards[i].bytes, m->shards[i].crc32,
                     m->shards[i].applied.watermark);
    }
    (void)printf("\n%-28s %3s %-5s %-16s %12s %14s %12s %12s\n", "tensor", "ps", "type",
                 "shape", "bytes", "sum", "least", "most");
}

/* ---- optimizers */

static void print_number(const char *name, double value)
{
    if (value != 0) {
        (void)printf(", %s %g", name, value);
    }
}

static void print_schedule(const struct coxi_schedule *s)
{
    if (s->kind != COXI_SCHEDULE_CONSTANT) {
        (void)printf(", schedule %s", coxi_schedule_name(s->kind));
    }
#define PRINT(name) print_number(#name, (double)s->name);
    COXI_SCHEDULE_NUMBERS(PRINT)
    PRINT(steps)
    PRINT(warmup_steps)
#undef PRINT
}

/* Prints the optimizer with which each chosen variable was created. */
static void print_optimizers(const struct coxi_manifest *m, const char *variable)
{
    (void)printf("\n%-28s %s\n", "variable", "optimizer");
    for (uint32_t i = 0; i < m->n_variables; i++) {
        const struct coxi_variable *v = m->variables[i];
        const struct coxi_optimizer *o = &v->optimizer;
        if (!coxi_name_matches(variable, v->name)) {
            continue;
        }
        (void)printf("%-28s %s", v->name,
                     o->kind == COXI_OPTIMIZER_NONE ? "none" : coxi_optimizer_name(o));
#define PRINT(name) print_number(#name, (double)o->name);
        COXI_OPTIMIZER_NUMBERS(PRINT)
#undef PRINT
        print_schedule(&o->schedule);
        (void)printf("\n");
    }
}

static void put_number(json_t *object, const char *name, double value)
{
    if (value != 0) {
        (void)json_object_set_new(object, name, json_real(value));
    }
}

static json_t *schedule_json(const struct coxi_schedule *s)
{
    json_t *object = json_pack("{s:s}", "kind", coxi_schedule_name(s->kind));
#define PUT(name) put_number(object, #name, (double)s->name);
    COXI_SCHEDULE_NUMBERS(PUT)
#undef PUT
    (void)json_object_set_new(object, "steps", json_integer((json_int_t)s->steps));
    (void)json_object_set_new(object, "warmup_steps",
                              json_integer((json_int_t)s->warmup_steps));
    return object;
}

static json_t *optimizers_json(const struct coxi_manifest *m, const char *variable)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < m->n_variables; i++) {
        const struct coxi_variable *v = m->variables[i];
        const struct coxi_optimizer *o = &v->optimizer;
        if (!coxi_name_matches(variable, v->name)) {
            continue;
        }
        json_t *optimizer =
            json_pack("{s:s, s:o}", "kind",
                      o->kind == COXI_OPTIMIZER_NONE ? "none" : coxi_optimizer_name(o),
                      "schedule", schedule_json(&o->schedule));
#define PUT(name) put_number(optimizer, #name, (double)o->name);
        COXI_OPTIMIZER_NUMBERS(PUT)
#undef PUT
        (void)json_array_append_new(
            all, json_pack("{s:s, s:o}", "name", v->name, "optimizer", optimizer));
    }
    return all;
}

/* Finds the rate that was set later, if this is one; a ps has written it. */
static bool rate_of(const struct coxi_whole *whole, const struct coxi_piece *piece,
                    struct coxi_optimizer *ret)
{
    struct coxi_rate rate;
    if (strcmp(whole->part, "rate") != 0) {
        return false;
    }
    *ret = whole->variable->optimizer;
    return coxi_st_read(piece->tensor, 0, &rate, sizeof(rate)) == 0 &&
           coxi_rate_set(ret, &rate) == 0;
}

/* The step, the only element of such a tensor; 0: it cannot be read. */
static uint64_t step_of(const struct coxi_st_tensor *tensor)
{
    uint64_t step = 0;
    return coxi_st_read(tensor, 0, &step, sizeof(step)) == 0 ? step : 0;
}

/* ---- tensors */

/* True if a summary of the numbers is useful; keys have none. */
static bool has_summary(const struct coxi_whole *whole, const struct coxi_summary *s)
{
    return strcmp(whole->part, "keys") != 0 && s->elements > 0;
}

static int print_piece(const struct coxi_checkpoint *checkpoint,
                       const struct coxi_whole *whole, const struct coxi_piece *piece)
{
    char shape[64];
    const struct coxi_st_tensor *tensor = piece->tensor;
    struct coxi_summary s;
    struct coxi_optimizer rated;
    int r = coxi_summarize(checkpoint->shards[piece->ps], tensor, &s);
    if (r != 0) {
        return r;
    }
    coxi_shape_text(tensor->rank, tensor->shape, shape, sizeof(shape));
    (void)printf("%-28s %3" PRIu32 " %-5s %-16s %12" PRIu64, tensor->name, piece->ps,
                 tensor->dtype, shape, tensor->bytes);
    if (strcmp(whole->part, "step") == 0) {
        (void)printf(" %14" PRIu64, step_of(tensor));
    } else if (rate_of(whole, piece, &rated)) {
        (void)printf("   learning_rate %g", (double)rated.learning_rate);
        print_schedule(&rated.schedule);
    } else if (has_summary(whole, &s)) {
        (void)printf(" %14.6g %12.6g %12.6g", s.sum, s.least, s.most);
    }
    (void)printf("\n");
    return 0;
}

static int add_piece(const struct coxi_checkpoint *checkpoint,
                     const struct coxi_whole *whole, const struct coxi_piece *piece,
                     json_t *tensors)
{
    const struct coxi_st_tensor *tensor = piece->tensor;
    struct coxi_summary s;
    struct coxi_optimizer rated;
    int r = coxi_summarize(checkpoint->shards[piece->ps], tensor, &s);
    if (r != 0) {
        return r;
    }
    json_t *shape = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++) {
        (void)json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    }
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:s, s:o, s:I}", "name", tensor->name, "variable",
                  whole->variable->name, "ps", (int)piece->ps, "dtype", tensor->dtype,
                  "shape", shape, "bytes", (json_int_t)tensor->bytes);
    if (strcmp(whole->part, "step") == 0) {
        uint64_t step = step_of(tensor);
        (void)json_object_set_new(object, "value", json_integer((json_int_t)step));
    } else if (rate_of(whole, piece, &rated)) {
        (void)json_object_set_new(object, "learning_rate",
                                  json_real((double)rated.learning_rate));
        (void)json_object_set_new(object, "schedule", schedule_json(&rated.schedule));
    } else if (has_summary(whole, &s) && isfinite(s.sum)) {
        (void)json_object_set_new(object, "sum", json_real(s.sum));
        (void)json_object_set_new(object, "least", json_real(s.least));
        (void)json_object_set_new(object, "most", json_real(s.most));
    }
    (void)json_array_append_new(tensors, object);
    return 0;
}

/* Prints the tensors of the chosen variables, or collects them in `tensors`. */
static int show_pieces(const struct coxi_checkpoint *checkpoint, const char *variable,
                       json_t *tensors)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < checkpoint->n_wholes; i++) {
        const struct coxi_whole *whole = &checkpoint->wholes[i];
        bool chosen = coxi_name_matches(variable, whole->variable->name);
        for (size_t p = 0; r == 0 && chosen && p < whole->n_pieces; p++) {
            const struct coxi_piece *piece = &whole->pieces[p];
            r = tensors != NULL ? add_piece(checkpoint, whole, piece, tensors)
                                : print_piece(checkpoint, whole, piece);
        }
    }
    return r;
}

static int show_json(const struct coxi_checkpoint *checkpoint, const char *variable)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    char run[32];
    json_t *tensors = json_array();
    (void)snprintf(run, sizeof(run), "%016" PRIx64, m->session.run);
    int r = show_pieces(checkpoint, variable, tensors);
    if (r != 0) {
        json_decref(tensors);
        return r;
    }
    return coxi_checkpoint_print(
        json_pack("{s:I, s:s, s:b, s:o, s:o}", "checkpoint", (json_int_t)m->number,
                  "run", run, "final", m->final, "variables",
                  optimizers_json(m, variable), "tensors", tensors));
}

static int show(const char *dir, const struct config *config)
{
    struct coxi_checkpoint *checkpoint;
    int r = coxi_checkpoint_use(dir, COXI_CHECKPOINT_STREAMED, &checkpoint);
    if (r != 0) {
        return r;
    }
    if (config->json) {
        r = show_json(checkpoint, config->variable);
    } else {
        print_head(checkpoint->manifest);
        r = show_pieces(checkpoint, config->variable, NULL);
    }
    if (r == 0 && !config->json) {
        print_optimizers(checkpoint->manifest, config->variable);
        (void)printf("\nall %" PRIu32 " checksums are right\n",
                     checkpoint->manifest->n_shards);
    }
    coxi_checkpoint_close(checkpoint);
    return r;
}

int coxi_checkpoint_show(int argc, char **argv)
{
    struct config config = {0};
    char **words;
    int code;
    if (!coxi_command_options(&program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    return coxi_checkpoint_exit(&program, show(words[0], &config));
}

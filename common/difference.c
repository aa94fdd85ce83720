/* See difference.h. The fields are a table; a field's type says how it is compared and
 * printed. */
#include "common/difference.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "common/layout.h"
#include "common/rule.h"

enum type { TYPE_U32, TYPE_U64, TYPE_F32, TYPE_F64 };

struct field {
    const char *name;
    size_t offset; /* in the description */
    enum type type;
    /* returns the name of an enum's value; NULL: the field is a number */
    const char *(*word)(uint32_t value);
};

#define TYPE(x)                                                                        \
    _Generic((x),                                                                      \
        float: TYPE_F32,                                                               \
        double: TYPE_F64,                                                              \
        uint64_t: TYPE_U64,                                                            \
        default: TYPE_U32)
#define FIELD(name, member, word)                                                      \
    {name, offsetof(struct coxi_variable, member),                                     \
     TYPE(((struct coxi_variable *)NULL)->member), word},
#define OPTIMIZER(member) FIELD("optimizer." #member, optimizer.member, NULL)
#define SCHEDULE(member)  FIELD("schedule." #member, optimizer.schedule.member, NULL)
#define LIFECYCLE(member) FIELD("lifecycle." #member, lifecycle.member, NULL)

static const char *kind_name(uint32_t kind)
{
    return kind == COXI_KIND_TABLE ? "table" : "dense";
}

static const char *optimizer_name(uint32_t kind)
{
    const struct coxi_optimizer optimizer = {.kind = kind};
    return coxi_optimizer_name(&optimizer);
}

static const char *type_name(uint32_t dtype)
{
    return dtype == 0 ? "none" : coxi_dtype_name(dtype);
}

static const struct field fields[] = {
    FIELD("kind", kind, kind_name) FIELD("dtype", dtype, type_name) FIELD(
        "metric", metric, NULL) FIELD("optimizer.kind", optimizer.kind,
                                      optimizer_name) COXI_OPTIMIZER_NUMBERS(OPTIMIZER)
        FIELD("schedule.kind", optimizer.schedule.kind,
              coxi_schedule_name) COXI_SCHEDULE_NUMBERS(SCHEDULE) SCHEDULE(steps)
            SCHEDULE(warmup_steps) FIELD("initializer.kind", initializer.kind, NULL)
                FIELD("initializer.a", initializer.a, NULL) FIELD("initializer.b",
                                                                  initializer.b, NULL)
                    FIELD("initializer.seed", initializer.seed,
                          NULL) FIELD("wire_dtype", wire_dtype, type_name)
                        FIELD("wire_rounding", wire_rounding,
                              NULL) FIELD("staleness_action", staleness.action, NULL)
                            FIELD("staleness_max", staleness.max, NULL)
                                FIELD("delay_compensation", staleness.compensation,
                                      NULL) FIELD("nonfinite", nonfinite, NULL)
                                    LIFECYCLE(admit_count) LIFECYCLE(admit_probability)
                                        LIFECYCLE(evict_age) LIFECYCLE(evict_count)
                                            LIFECYCLE(evict_count_age)
                                                LIFECYCLE(rows_max)};

/* A list in words; items that do not fit are left out. */
struct list {
    char *text;
    size_t len;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct list *list,
                                                      const char *format, ...)
{
    char item[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(item, sizeof(item), format, args);
    va_end(args);
    const char *comma = list->used > 0 ? "; " : "";
    size_t more = strlen(comma) + strlen(item);
    if (list->used + more < list->len) {
        (void)snprintf(list->text + list->used, list->len - list->used, "%s%s", comma,
                       item);
        list->used += more;
    }
}

static size_t size_of(enum type type)
{
    return type == TYPE_U64 || type == TYPE_F64 ? 8 : 4;
}

/* Prints the field's value; a fraction with `digits` digits. */
static void tell(const struct field *field, const void *value, int digits, char ret[64])
{
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
    switch (field->type) {
    case TYPE_U32:
        memcpy(&u32, value, sizeof(u32));
        if (field->word != NULL) {
            (void)snprintf(ret, 64, "%s", field->word(u32));
        } else {
            (void)snprintf(ret, 64, "%" PRIu32, u32);
        }
        return;
    case TYPE_U64:
        memcpy(&u64, value, sizeof(u64));
        (void)snprintf(ret, 64, "%" PRIu64, u64);
        return;
    case TYPE_F32:
        memcpy(&f32, value, sizeof(f32));
        (void)snprintf(ret, 64, "%.*g", digits, (double)f32);
        return;
    case TYPE_F64:
        memcpy(&f64, value, sizeof(f64));
        (void)snprintf(ret, 64, "%.*g", digits, f64);
        return;
    }
}

static void compare(const struct field *field, const struct coxi_variable *a,
                    const struct coxi_variable *b, struct list *list)
{
    char x[64] = "";
    char y[64] = "";
    const char *at = (const char *)a + field->offset;
    const char *other = (const char *)b + field->offset;
    if (memcmp(at, other, size_of(field->type)) == 0) {
        return;
    }
    for (int digits = 6; strcmp(x, y) == 0 && digits <= 17; digits++) {
        tell(field, at, digits, x);
        tell(field, other, digits, y);
    }
    add(list, "%s is %s, not %s", field->name, x, y);
}

void coxi_variable_difference(const struct coxi_variable *a,
                              const struct coxi_variable *b, char *ret, size_t len)
{
    struct list list = {ret, len, 0};
    char x[64];
    char y[64];
    *ret = '\0';
    coxi_shape_text(a->rank, a->shape, x, sizeof(x));
    coxi_shape_text(b->rank, b->shape, y, sizeof(y));
    if (a->rank != b->rank ||
        memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape)) != 0) {
        add(&list, "shape is %s, not %s", x, y);
    }
    if (a->n_shards != b->n_shards) {
        add(&list, "it has %zu shards, not %zu", a->n_shards, b->n_shards);
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        compare(&fields[i], a, b, &list);
    }
}

/* See spec.h. */
#include "coordinator/datasets/spec.h"

#include <string.h>

#include "common/defaults.h"
#include "common/error.h"
#include "data/task.h"

/* The first number of the packed form. */
enum { VERSION = 1 };

static const struct coxi_spec defaults = {
#define DEFAULT(field, value) .field = (value),
    COXI_DEFAULTS_DATASET_SPEC(DEFAULT)
#undef DEFAULT
};

static int check_name(const char *name)
{
    if (name == NULL || name[0] == '\0' || strlen(name) > COXI_DATASET_NAME_MAX) {
        return coxi_error(COX_EINVAL, "a data set's name has 1 to %d bytes",
                          COXI_DATASET_NAME_MAX);
    }
    for (const char *at = name; *at != '\0'; at++) {
        if ((unsigned char)*at <= ' ' || *at == '\x7f' ||
            strchr("\"'\\", *at) != NULL) {
            return coxi_error(COX_EINVAL,
                              "a data set's name has no white space, control "
                              "character, quote or backslash: '%s'",
                              name);
        }
    }
    return 0;
}

static int check_numbers(const struct cox_dataset_spec *given)
{
    if (given->source > COX_SOURCE_CLIENT) {
        return coxi_error(COX_EINVAL, "source is %u: 0 or %d", given->source,
                          COX_SOURCE_CLIENT);
    }
    if (given->shuffle > 1) {
        return coxi_error(COX_EINVAL, "shuffle is %u: 0 or 1", given->shuffle);
    }
    if (given->timeout_floor_ms < -1) {
        return coxi_error(COX_EINVAL, "timeout_floor_ms is %d: at least -1",
                          given->timeout_floor_ms);
    }
    return 0;
}

int coxi_spec_check(const struct cox_dataset_spec *given, struct coxi_spec *ret)
{
    struct coxi_spec spec = {
        .decoding = {.format = given->format,
                     .content = given->content,
                     .columns = given->columns,
                     .n_columns = given->n_columns < UINT32_MAX
                                      ? (uint32_t)given->n_columns
                                      : UINT32_MAX,
                     .buckets = given->buckets,
                     .header = given->header,
                     .separator = given->separator,
                     .on_bad_record = given->on_bad_record},
        .source = given->source,
        .batch_size = given->batch_size,
        .task_bytes = given->task_bytes,
        .shuffle = given->shuffle,
        .shuffle_window = given->shuffle_window,
        .seed = given->seed,
        .epochs = given->epochs,
        .prefetch = given->prefetch,
        .failures_max = given->failures_max,
        .timeout_floor_ms = given->timeout_floor_ms,
        .failed_max = given->failed_max,
    };
    struct coxi_spec *o = &spec;
    COXI_DEFAULTS_DATASET_SPEC(COXI_FILL_IN)
    if (spec.decoding.format == COX_CSV && spec.decoding.separator == '\0') {
        spec.decoding.separator = ',';
    }
    int r = check_name(given->name);
    if (r != 0) {
        return r;
    }
    r = check_numbers(given);
    r = r == 0 ? coxi_decoding_check(&spec.decoding) : r;
    if (r != 0) {
        return coxi_error(r, "data set '%s': %s", given->name, coxi_error_text());
    }
    *ret = spec;
    return 0;
}

int coxi_spec_pack(const struct coxi_spec *spec, struct coxi_buffer *to)
{
    struct coxi_packer packer = {.to = to};
    coxi_pack_number(&packer, VERSION);
    coxi_pack_number(&packer, spec->source);
    coxi_pack_number(&packer, spec->batch_size);
    coxi_pack_number(&packer, spec->task_bytes);
    coxi_pack_number(&packer, spec->shuffle);
    coxi_pack_number(&packer, spec->shuffle_window);
    coxi_pack_number(&packer, spec->seed);
    coxi_decoding_pack(&spec->decoding, &packer);
    return packer.code;
}

int coxi_spec_unpack(const void *bytes, size_t len, struct coxi_spec *ret)
{
    struct coxi_unpacker unpacker = {bytes, (const uint8_t *)bytes + len, false};
    struct coxi_spec spec = defaults;
    bool known = coxi_unpack_number(&unpacker, UINT64_MAX) == VERSION;
    spec.source = (uint32_t)coxi_unpack_number(&unpacker, COX_SOURCE_CLIENT);
    spec.batch_size = (uint32_t)coxi_unpack_number(&unpacker, UINT32_MAX);
    spec.task_bytes = coxi_unpack_number(&unpacker, UINT64_MAX);
    spec.shuffle = (uint32_t)coxi_unpack_number(&unpacker, 1);
    spec.shuffle_window = (uint32_t)coxi_unpack_number(&unpacker, UINT32_MAX);
    spec.seed = coxi_unpack_number(&unpacker, UINT64_MAX);
    int r = known ? coxi_decoding_unpack(&unpacker, &spec.decoding)
                  : coxi_error(COX_EFORMAT, "its spec is of another version");
    if (r == 0 && unpacker.at != unpacker.end) {
        coxi_decoding_fini(&spec.decoding);
        r = coxi_error(COX_EFORMAT, "its spec goes on behind its end");
    }
    if (r == 0) {
        *ret = spec;
    }
    return r;
}

void coxi_spec_differ(const struct coxi_spec *a, const struct coxi_spec *b, char *ret,
                      size_t len)
{
    const struct coxi_differences list = {ret, len};
    *ret = '\0';
    coxi_decoding_differ(&a->decoding, &b->decoding, &list);
    coxi_differ_number(&list, "source", a->source, b->source);
    coxi_differ_number(&list, "batch_size", a->batch_size, b->batch_size);
    coxi_differ_number(&list, "task_bytes", a->task_bytes, b->task_bytes);
    coxi_differ_number(&list, "shuffle", a->shuffle, b->shuffle);
    coxi_differ_number(&list, "shuffle_window", a->shuffle_window, b->shuffle_window);
    coxi_differ_number(&list, "seed", a->seed, b->seed);
}

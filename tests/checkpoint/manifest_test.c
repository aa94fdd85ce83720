/* Manifests: what is written is read back, and what is none is refused with its reason. Linked so
 * that what the product allocates goes through here. */
#include "checkpoint/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/rand.h"
#include "coxswain/types.h"
#include "tests/test.h"

/* ---- allocations that fail */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static int n_left = -1; /* allocations until one fails; below 0: none does */

static bool fails(void)
{
    bool is_it = n_left == 0;
    n_left -= n_left >= 0;
    errno = is_it ? ENOMEM : errno;
    return is_it;
}

/* What common/ allocates; and jansson, where the test sets its functions. */
void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __real_calloc(n, bytes);
}

/* ---- a manifest with some of everything */

static struct coxi_interval applied[] = {{5, 9, 0, 1, 0, 2}, {12, 12, 3, 0, 2, 1}};
static uint32_t touched[] = {0, 1, 1};
static struct coxi_shard parts[] = {{1, 0, 6}, {0, 6, 5}};
static struct coxi_variable dense = {
    .id = 0,
    .name = "layer/w",
    .kind = COXI_KIND_DENSE,
    .dtype = COX_F32,
    .rank = 3,
    .shape = {11, 2, 5},
    .shards = parts,
    .n_shards = 2,
    .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                  .learning_rate = 0.1F,
                  .epsilon = 1e-7F,
                  .initial_accumulator = 0.3F,
                  .schedule = {.kind = COXI_SCHEDULE_COSINE,
                               .end_rate = 0.003F,
                               .steps = INT64_MAX,
                               .warmup_steps = 7}},
    .initializer = {COXI_INIT_NORMAL, 0.1F, 1e-30F, UINT64_MAX},
};
static struct coxi_variable table = {
    .id = 2,
    .name = "gr\xc3\xb6\xc3\x9f"
            "e",
    .kind = COXI_KIND_TABLE,
    .dtype = COX_F32,
    .rank = 1,
    .shape = {16},
    .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F},
};

static struct coxi_manifest_shard shards[] = {
    {.file = "ps-0-of-2.safetensors",
     .bytes = (uint64_t)1 << 40,
     .crc32 = UINT32_MAX,
     .applied = {4, applied, 2, touched, 3}},
    {.file = "ps-1-of-2.safetensors", .bytes = 1},
};
static struct coxi_variable *variables[] = {&dense, NULL, &table};
static const struct coxi_manifest sample = {
    .session = {.run = 0xfedcba9876543210, .generation = 3, .token = 99},
    .number = 12,
    .next_closure = ((uint64_t)1 << 53) + 1,
    .time_s = 1769860800.125,
    .final = true,
    .shards = shards,
    .n_shards = 2,
    .variables = variables,
    .n_variables = 3,
};

static const char *write_sample(void)
{
    assert_code(0, coxi_manifest_write(&sample, coxi_test_dir()));
    return coxi_test_path("manifest.json");
}

static void assert_shard(const struct coxi_manifest_shard *expected,
                         const struct coxi_manifest_shard *found)
{
    assert_string_equal(expected->file, found->file);
    assert_int_equal(expected->bytes, found->bytes);
    assert_int_equal(expected->crc32, found->crc32);
    const struct coxi_applied_list *a = &expected->applied;
    const struct coxi_applied_list *b = &found->applied;
    assert_int_equal(a->watermark, b->watermark);
    assert_int_equal(a->n_intervals, b->n_intervals);
    assert_int_equal(a->n_touched, b->n_touched);
    if (a->n_intervals > 0) {
        assert_memory_equal(a->intervals, b->intervals,
                            a->n_intervals * sizeof(*a->intervals));
        assert_memory_equal(a->touched, b->touched, a->n_touched * sizeof(*a->touched));
    }
}

TEST(what_is_written_is_read_back)
{
    struct coxi_manifest *m = NULL;
    (void)write_sample();
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_int_equal(sample.session.run, m->session.run);
    assert_int_equal(3, m->session.generation);
    assert_int_equal(0, m->session.token);
    assert_int_equal(12, m->number);
    assert_int_equal(sample.next_closure, m->next_closure);
    assert_true(sample.time_s == m->time_s);
    assert_true(m->final);
    assert_int_equal(2, m->n_shards);
    assert_shard(&shards[0], &m->shards[0]);
    assert_shard(&shards[1], &m->shards[1]);
    /* The variable that was not made is not there; the others keep their ids. */
    assert_int_equal(2, m->n_variables);
    assert_true(coxi_variable_equal(&dense, m->variables[0]));
    assert_true(coxi_variable_equal(&table, m->variables[1]));
    assert_int_equal(0, m->variables[0]->id);
    assert_int_equal(2, m->variables[1]->id);
    coxi_manifest_free(m);
    coxi_manifest_free(NULL);
}

TEST(every_number_of_an_optimizer_is_read_back)
{
    static const struct coxi_optimizer optimizers[] = {
        {.kind = COXI_OPTIMIZER_MOMENTUM, .learning_rate = 0.1F, .momentum = 0.7F},
        {.kind = COXI_OPTIMIZER_RMSPROP,
         .epsilon = 1e-5F,
         .rho = 0.95F,
         .schedule = {COXI_SCHEDULE_POLYNOMIAL, 0.2F, 0.3F, 0, 11, 13}},
        {.kind = COXI_OPTIMIZER_ADAMW,
         .epsilon = 1e-5F,
         .beta1 = 0.85F,
         .beta2 = 0.998F,
         .weight_decay = 0.2F,
         .clip_value = 3,
         .clip_norm = 1e30F,
         .schedule = {COXI_SCHEDULE_STEP, 0, 0, 0.6F, 17, 0}},
        {.kind = COXI_OPTIMIZER_FTRL,
         .learning_rate = 0.1F,
         .initial_accumulator = 0.4F,
         .beta = 1.1F,
         .l1 = 1.2F,
         .l2 = 1.3F},
    };
    struct coxi_variable v = table;
    struct coxi_variable *one[] = {&v};
    struct coxi_manifest with = sample;
    with.variables = one;
    with.n_variables = 1;
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers); i++) {
        struct coxi_manifest *m = NULL;
        v.optimizer = optimizers[i];
        assert_code(0, coxi_variable_check(&v, 2));
        assert_code(0, coxi_manifest_write(&with, coxi_test_dir()));
        assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
        assert_true(coxi_variable_equal(&v, m->variables[0]));
        coxi_manifest_free(m);
    }
}

TEST(members_that_are_0_are_left_out)
{
    json_t *root = json_load_file(write_sample(), 0, NULL);
    const json_t *variable = json_array_get(json_object_get(root, "variables"), 1);
    const json_t *optimizer = json_object_get(variable, "optimizer");
    assert_int_equal(2, json_object_size(optimizer)); /* kind, learning_rate */
    assert_int_equal(0, json_object_size(json_object_get(variable, "lifecycle")));
    assert_null(json_object_get(variable, "metric"));
    json_decref(root);
}

TEST(what_is_said_of_a_variable_is_read_back)
{
    struct coxi_variable v = table;
    struct coxi_variable *one[] = {&v};
    struct coxi_manifest with = sample;
    struct coxi_manifest *m = NULL;
    v.wire_dtype = COX_BF16;
    v.wire_rounding = COXI_ROUND_STOCHASTIC;
    v.nonfinite = COXI_NONFINITE_ALLOW;
    v.lifecycle = (struct coxi_lifecycle){1, 0.5F, 2, 3, 4, 5};
    with.variables = one;
    with.n_variables = 1;
    assert_code(0, coxi_manifest_write(&with, coxi_test_dir()));
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_true(coxi_variable_equal(&v, m->variables[0]));
    coxi_manifest_free(m);
}

TEST(a_manifest_without_variables_is_read_back)
{
    struct coxi_manifest little = sample;
    struct coxi_manifest *m = NULL;
    little.n_variables = 0;
    little.final = false;
    little.n_shards = 1;
    assert_code(0, coxi_manifest_write(&little, coxi_test_dir()));
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_int_equal(0, m->n_variables);
    assert_int_equal(1, m->n_shards);
    assert_false(m->final);
    coxi_manifest_free(m);
}

TEST(the_files_of_shards_are_named_by_ps)
{
    char name[64];
    coxi_manifest_file(0, 2, name);
    assert_string_equal("ps-0-of-2.safetensors", name);
    coxi_manifest_file(UINT32_MAX - 1, UINT32_MAX, name);
    assert_string_equal("ps-4294967294-of-4294967295.safetensors", name);
}

TEST(a_manifest_that_cannot_be_written_is_eio)
{
    char *file = coxi_test_path("file");
    coxi_test_write(file, "", 0);
    assert_code(COX_EIO, coxi_manifest_write(&sample, file));
    assert_error_names(file);
    assert_code(COX_EIO, coxi_manifest_write(&sample, coxi_test_path("missing")));
    assert_error_names("missing/manifest.json");
}

/* ---- files that are none */

static int read_again(void)
{
    struct coxi_manifest *m = NULL;
    int r = coxi_manifest_read(coxi_test_dir(), &m);
    assert_int_equal(r == 0, m != NULL);
    coxi_manifest_free(m);
    return r;
}

/* Writes what is no manifest, or not quite, with a checksum that is right. */
static void write_sealed(const char *path, const char *text)
{
    char *sealed = coxi_manifest_seal(text);
    assert_non_null(sealed);
    coxi_test_write(path, sealed, strlen(sealed));
    free(sealed);
}

/* Allocation k fails, for each k until none does; how many there are. */
static int count_failures(int (*act)(void))
{
    int k = 0;
    for (int r = COX_ENOMEM; r != 0; k++) {
        n_left = k;
        r = act();
        bool failed = n_left < 0;
        n_left = -1;
        if (r != (failed ? COX_ENOMEM : 0)) {
            fail_msg("allocation %d: %d: %s", k, r, coxi_error_text());
        }
    }
    return k - 1;
}

static int write_once(void)
{
    return coxi_manifest_write(&sample, coxi_test_dir());
}

static int read_once(void)
{
    struct coxi_manifest *found = NULL;
    int r = coxi_manifest_read(coxi_test_dir(), &found);
    assert_true((r == 0) == (found != NULL));
    coxi_manifest_free(found);
    return r;
}

TEST(lack_of_memory_is_enomem_and_no_part_of_a_manifest)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    assert_true(count_failures(write_once) > 100);
    json_set_alloc_funcs(__real_malloc, free);
    /* Jansson's own are not among these: while it reads it passes over some. */
    assert_true(count_failures(read_once) > 8);
}

TEST(a_missing_manifest_is_enoent)
{
    struct coxi_manifest *m = NULL;
    assert_code(COX_ENOENT, coxi_manifest_read(coxi_test_path("missing"), &m));
    assert_error_names("missing/manifest.json");
    assert_null(m);
}

TEST(malformed_json_is_eformat)
{
    static const char *const bad[] = {"",   "{",     "{}x", "\xff", "{\"a\":1,\"a\":1}",
                                      "[]", "\"a\"", "17",  "{}",   "null"};
    char *path = coxi_test_path("manifest.json");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        coxi_test_write(path, bad[i], strlen(bad[i]));
        assert_code(COX_EFORMAT, read_again());
        assert_error_names(path);
        write_sealed(path, bad[i]);
        assert_code(COX_EFORMAT, read_again());
        assert_error_names(path);
    }
}

/* The part of the manifest at `where`, like "shards/0". */
static json_t *part(json_t *root, const char *where)
{
    char names[64];
    char *saved = NULL;
    (void)snprintf(names, sizeof(names), "%s", where);
    for (char *name = strtok_r(names, "/", &saved); name != NULL;
         name = strtok_r(NULL, "/", &saved)) {
        root = json_is_array(root) ? json_array_get(root, (size_t)atoi(name))
                                   : json_object_get(root, name);
        assert_non_null(root);
    }
    return root;
}

/* Writes out the members that were left out because they are 0, as older versions did. */
static void write_zeros_out(json_t *root)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(root, "variables"), i, v)
    {
        json_t *zeros =
            json_pack("{s:i, s:i, s:i, s:i, s:{}}", "wire_dtype", 0, "wire_rounding", 0,
                      "nonfinite", 0, "metric", 0, "lifecycle");
        json_t *rates = json_pack("{s:i, s:i}", "kind", 0, "steps", 0);
        json_t *numbers = json_object();
#define PUT(name) (void)json_object_set_new(numbers, #name, json_real(0));
        COXI_OPTIMIZER_NUMBERS(PUT)
#undef PUT
#define PUT(name) (void)json_object_set_new(rates, #name, json_real(0));
        COXI_SCHEDULE_NUMBERS(PUT)
#undef PUT
        (void)json_object_set_new(rates, "warmup_steps", json_integer(0));
        (void)json_object_set_new(numbers, "schedule", json_object());
        (void)json_object_update_missing(v, zeros);
        json_t *lifecycle = json_object_get(v, "lifecycle");
        static const char *const limits[] = {"admit_count",     "evict_age",
                                             "evict_count",     "rows_max",
                                             "evict_count_age", "admit_probability"};
        for (size_t k = 0; k < sizeof(limits) / sizeof(*limits); k++) {
            if (json_object_get(lifecycle, limits[k]) == NULL) {
                (void)json_object_set_new(lifecycle, limits[k], json_integer(0));
            }
        }
        json_t *optimizer = json_object_get(v, "optimizer");
        (void)json_object_update_missing(optimizer, numbers);
        (void)json_object_update_missing(json_object_get(optimizer, "schedule"), rates);
        json_decref(zeros);
        json_decref(numbers);
        json_decref(rates);
    }
}

/* Reads the sample with `member` of the part at `where` replaced, or removed (NULL). */
static int read_with(const char *where, const char *member, json_t *value)
{
    const char *path = write_sample();
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    write_zeros_out(root);
    json_t *object = part(root, where);
    assert_true(json_object_get(object, member) != NULL);
    assert_int_equal(0, value == NULL ? json_object_del(object, member)
                                      : json_object_set_new(object, member, value));
    (void)json_object_del(root, "crc32");
    char *text = json_dumps(root, 0);
    write_sealed(path, text);
    free(text);
    json_decref(root);
    return read_again();
}

static const struct {
    const char *where;
    const char *members[10];
    const char *text; /* of the error; NULL: older versions have not written them */
} members[] = {
    {"", {"format"}, "format"},
    {"",
     {"run", "generation", "checkpoint", "time", "final", "next_closure"},
     "member"},
    {"", {"shards"}, "shards"},
    {"", {"variables"}, "variables"},
    {"shards/0", {"file", "bytes", "crc32", "watermark", "applied"}, "shards"},
    {"variables/0",
     {"id", "name", "kind", "dtype", "shape", "shards", "optimizer", "initializer"},
     "variables"},
    {"variables/0/shards/1", {"ps", "begin", "count"}, "variables"},
    {"variables/0/optimizer", {"kind"}, "variables"},
    {"variables/0/optimizer",
     {"epsilon", "momentum", "rho", "beta1", "beta2", "beta", "l1"},
     NULL},
    {"variables/1/optimizer",
     {"learning_rate", "initial_accumulator", "l2", "weight_decay", "clip_value",
      "clip_norm", "growth_factor", "growth_interval", "schedule"},
     NULL},
    {"variables/0/optimizer/schedule", {"kind", "steps"}, "variables"},
    {"variables/0/optimizer/schedule",
     {"end_rate", "power", "gamma", "warmup_steps"},
     NULL},
    {"variables/1/initializer", {"kind", "a", "b", "seed"}, "variables"},
    {"variables/1",
     {"wire_dtype", "wire_rounding", "nonfinite", "metric", "lifecycle"},
     NULL},
    {"variables/1/lifecycle",
     {"admit_count", "admit_probability", "evict_age", "evict_count", "evict_count_age",
      "rows_max"},
     NULL},
};

enum { N_MEMBERS = sizeof(members) / sizeof(*members) };

static void assert_eformat(const char *where, const char *member, int r,
                           const char *text)
{
    if (r != COX_EFORMAT) {
        fail_msg("%s/%s: %d, not COX_EFORMAT", where, member, r);
    }
    assert_error_names("manifest.json");
    assert_error_names(text);
}

TEST(a_missing_member_is_eformat_but_for_those_that_came_later)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        for (size_t k = 0; k < 10 && members[i].members[k] != NULL; k++) {
            const char *member = members[i].members[k];
            int r = read_with(members[i].where, member, NULL);
            if (members[i].text == NULL) {
                assert_code(0, r);
            } else {
                assert_eformat(members[i].where, member, r, members[i].text);
            }
        }
    }
}

TEST(a_member_of_the_wrong_type_is_eformat)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        for (size_t k = 0; k < 10 && members[i].members[k] != NULL; k++) {
            const char *where = members[i].where;
            const char *member = members[i].members[k];
            const char *text = members[i].text != NULL ? members[i].text : "variables";
            assert_eformat(where, member, read_with(where, member, json_null()), text);
            if (strcmp(member, "lifecycle") != 0) { /* all of which came later */
                assert_eformat(where, member, read_with(where, member, json_object()),
                               text);
            }
        }
    }
}

TEST(another_format_number_is_eformat)
{
    assert_code(COX_EFORMAT, read_with("", "format", json_integer(2)));
    assert_error_names("a newer version");
    assert_code(COX_EFORMAT, read_with("", "format", json_integer(0)));
    assert_code(COX_EFORMAT, read_with("", "format", json_integer(-1)));
    assert_code(COX_EFORMAT, read_with("", "format", json_integer(4294967297)));
}

/* ---- values that are none */

static void assert_bad(const char *where, const char *member, json_t *value)
{
    assert_eformat(where, member, read_with(where, member, value), "");
}

TEST(a_file_outside_the_checkpoint_is_refused)
{
    static const char *const bad[] = {
        "../ps-0-of-2.safetensors", "/etc/passwd", "a/b", "..", ".", ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_bad("shards/0", "file", json_string(bad[i]));
    }
    char name[65];
    memset(name, 'n', sizeof(name));
    name[64] = '\0';
    assert_bad("shards/0", "file", json_string(name));
}

TEST(numbers_out_of_range_are_eformat)
{
    assert_bad("", "generation", json_integer(-1));
    assert_bad("", "checkpoint", json_real(1.0));
    assert_bad("shards/1", "bytes", json_integer(-1));
    assert_bad("shards/1", "crc32", json_integer((json_int_t)1 << 32));
    assert_bad("shards/0", "applied", json_pack("[[i, i]]", 5, 6));
    assert_bad("shards/0", "applied", json_pack("[[i, i, i, i, []]]", 5, 6, -3, 1));
    assert_bad("shards/0", "applied", json_pack("[[i, i, i, i, []]]", 5, 6, 0, 2));
    assert_bad("shards/0", "applied", json_pack("[[i, i, i, i, [i]]]", 5, 6, 0, 1, -1));
    assert_bad("shards/0", "applied", json_pack("[[i, i, i, i]]", 5, 6, 0, 1));
    assert_bad("shards/0", "applied", json_pack("[[i, i, i, i, []]]", 6, 5, 0, 1));
    assert_bad("shards/0", "applied", json_pack("[[i, i, i, i, []]]", 4, 5, 0, 1));
    assert_bad(
        "shards/0", "applied",
        json_pack("[[i, i, i, i, []], [i, i, i, i, []]]", 5, 6, 0, 1, 6, 7, 0, 1));
    assert_bad(
        "shards/0", "applied",
        json_pack("[[i, i, i, i, []], [i, i, i, i, []]]", 5, 6, 1, 1, 8, 9, 0, 1));
    assert_bad("shards/0", "applied", json_pack("[i]", 1));
    assert_bad("variables/0", "id", json_integer(COXI_VARIABLES_MAX));
    assert_bad("variables/0/initializer", "a", json_real(1e300));
    assert_bad("variables/0/shards/0", "ps", json_integer(2));
    assert_bad("variables/0/shards/0", "count", json_integer(12));
    assert_bad("variables/0", "shape", json_pack("[i, i, i]", 11, 2, 0));
    assert_bad("variables/0", "shape", json_pack("[i, i, i]", 11, 2, -5));
    assert_bad("variables/0", "shape",
               json_pack("[i, i, i, i, i, i, i, i, i]", 11, 1, 1, 1, 1, 1, 1, 1, 1));
    assert_bad("", "shards", json_array());
}

TEST(words_that_are_none_are_eformat)
{
    static const char *const bad_ids[] = {
        "",
        "fedcba987654321",
        "fedcba98765432100",
        "fedcba987654321g",
        "0xdcba9876543210",
        "-edcba9876543210",
        "+edcba9876543210",
        "  dcba9876543210",
        "fedcba98 6543210",
    };
    for (size_t i = 0; i < sizeof(bad_ids) / sizeof(*bad_ids); i++) {
        assert_bad("", "run", json_string(bad_ids[i]));
        assert_bad("variables/0/initializer", "seed", json_string(bad_ids[i]));
    }
    assert_bad("variables/0", "kind", json_string("banana"));
    assert_bad("variables/0", "dtype", json_string("F31"));
    assert_bad("variables/0", "name", json_string("a b"));
    assert_bad("variables/0", "name", json_string(""));
}

TEST(a_changed_byte_is_never_read)
{
    const char *path = write_sample();
    size_t len = 0;
    char *text = coxi_test_read(path, &len);
    uint64_t rng = 6;
    for (size_t at = 0; at < len; at++) {
        char was = text[at];
        text[at] = (char)(was ^ (1 << (coxi_rand(&rng) >> 61)));
        coxi_test_write(path, text, len);
        int r = read_again();
        assert_true(r == COX_ECHECKSUM || r == COX_EFORMAT);
        assert_error_names(path);
        text[at] = was;
    }
    free(text);
}

TEST(a_manifest_that_was_cut_or_added_to_is_never_read)
{
    const char *path = write_sample();
    size_t len = 0;
    char *text = coxi_test_read(path, &len);
    for (size_t cut = 0; cut < len; cut += 7) {
        coxi_test_write(path, text, cut);
        assert_code(COX_EFORMAT, read_again());
        assert_error_names(path);
    }
    text[len] = '\n';
    coxi_test_write(path, text, len + 1);
    assert_code(COX_EFORMAT, read_again());
    free(text);
}

TEST(a_manifest_is_json_whose_last_member_is_the_checksum)
{
    json_t *root = json_load_file(write_sample(), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    const char *crc = json_string_value(json_object_get(root, "crc32"));
    assert_non_null(crc);
    assert_int_equal(8, strlen(crc));
    json_decref(root);
}

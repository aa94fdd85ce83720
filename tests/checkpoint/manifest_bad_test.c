/* Files that are no manifest are refused with a reason; lack of memory is not reported
 * as such a reason. The product's calls of malloc and calloc go through this
 * file (ld --wrap). */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/manifest.h"
#include "common/error.h"
#include "common/file.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/rand.h"
#include "coxswain/types.h"
#include "tests/checkpoint/manifest_sample.h"
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

/* Allocations of common/, and of jansson if the test sets its functions. */
void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __real_calloc(n, bytes);
}

/* ---- files that are no manifests */

static int read_again(void)
{
    struct coxi_manifest *m = NULL;
    int r = coxi_manifest_read(coxi_test_dir(), &m);
    assert_int_equal(r == 0, m != NULL);
    coxi_manifest_free(m);
    return r;
}

/* Writes a text that is no correct manifest, with a correct checksum. */
static void write_sealed(const char *path, const char *text)
{
    char *sealed = coxi_manifest_seal(text);
    assert_non_null(sealed);
    coxi_test_write(path, sealed, strlen(sealed));
    free(sealed);
}

/* Lets allocation k fail, for each k until none does; returns the number of
 * allocations. */
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
    return coxi_manifest_write(&manifest_sample, coxi_test_dir());
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
    /* Without jansson's own allocations, because it ignores some failures while it
     * reads. */
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

/* Adds the members that were left out because they are 0, as older versions wrote
 * them. */
static void write_zeros_out(json_t *root)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(root, "variables"), i, v)
    {
        json_t *zeros = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:{}}",
                                  "wire_dtype", 0, "wire_rounding", 0, "nonfinite", 0,
                                  "metric", 0, "staleness_action", 0, "staleness_max",
                                  0, "delay_compensation", 0, "lifecycle");
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
    const char *path = manifest_sample_write();
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
    /* the error's text if such a member is missing; NULL: a manifest may lack them,
     * because older versions did not write them */
    const char *text;
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
     {"wire_dtype", "wire_rounding", "nonfinite", "metric", "lifecycle",
      "staleness_action", "staleness_max", "delay_compensation"},
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
            /* all members of `lifecycle` were added later */
            if (strcmp(member, "lifecycle") != 0) {
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

/* ---- values that are not allowed */

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
    const char *path = manifest_sample_write();
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
    const char *path = manifest_sample_write();
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
    json_t *root =
        json_load_file(manifest_sample_write(), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    const char *crc = json_string_value(json_object_get(root, "crc32"));
    assert_non_null(crc);
    assert_int_equal(8, strlen(crc));
    json_decref(root);
}

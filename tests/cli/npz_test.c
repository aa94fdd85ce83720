/* Names of arrays that would lead out of the directory where an archive is unpacked. */
#include <unistd.h>

#include "cli/npz.h"
#include "tests/test.h"

static const uint64_t shape[] = {1};
static const float number = 1;

/* Writes an archive with one array of that name. */
static int export_as(const char *name)
{
    struct coxi_npz *npz;
    char *path = coxi_test_path("made.npz");
    assert_code(0, coxi_npz_create(path, false, &npz));
    int r = coxi_npz_begin(npz, name, "<f4", 1, shape);
    if (r != 0) {
        coxi_npz_abandon(npz);
        return r;
    }
    assert_code(0, coxi_npz_write(npz, &number, sizeof(number)));
    return coxi_npz_finish(npz);
}

/* "x", `n` times; for free(). */
static char *long_name(size_t n)
{
    char *name = malloc(n + 1);
    assert_non_null(name);
    memset(name, 'x', n);
    name[n] = '\0';
    return name;
}

TEST(npz_a_name_that_leads_out_of_the_directory_is_refused)
{
    static const char *const names[] = {
        "../../x",   "/etc/x", "a/../../x", "..",   ".",     "a/./b",
        "a//b",      "a/",     "",          "/",    "a\\..", "a\nb",
        "a\033[2Jb", "t/..",   "../keys",   "\x7f",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_code(COX_EINVAL, export_as(names[i]));
        assert_error_names("npz");
    }
}

TEST(npz_a_name_that_is_too_long_is_refused)
{
    static const size_t lengths[] = {251, 4001, 65532, 70000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        char *name = long_name(lengths[i]);
        for (size_t k = 200; i > 0 && k < lengths[i]; k += 200) {
            name[k] = '/';
        }
        assert_code(COX_EINVAL, export_as(name));
        free(name);
    }
}

TEST(npz_names_of_variables_and_tables_are_taken)
{
    static const char *const names[] = {
        "w", "tower/layer_1/kernel:0", "t/keys", "...", "..a/.b", "gr\xc3\xb6"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_code(0, export_as(names[i]));
    }
    char *name = long_name(250);
    assert_code(0, export_as(name));
    free(name);
}

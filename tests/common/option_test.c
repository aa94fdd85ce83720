#include "common/option.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/test.h"

struct config {
    bool verbose;
    const char *name;
    int64_t count;
    double rate;
    const char *color;
    int64_t memory;
    struct coxi_option_list oar;
};

static const struct coxi_option options[] = {
    {.name = "verbose",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, verbose),
     .help = "say more"},
    {.name = "name",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, name),
     .help = "whose it is"},
    {.name = "some-count",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, count),
     .min = -5,
     .max = 100,
     .fallback = "7",
     .help = "how many"},
    {.name = "rate",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, rate),
     .min = 0,
     .max = 1,
     .fallback = "0.5",
     .help = "how fast"},
    {.name = "color",
     .type = COXI_OPTION_CHOICE,
     .offset = offsetof(struct config, color),
     .choices = "red|green|blue",
     .fallback = "green",
     .help = "which"},
    {.name = "memory",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct config, memory),
     .min = 16,
     .max = COXI_BYTES_MAX,
     .fallback = "4K",
     .help = "how much"},
    {.name = "oar",
     .type = COXI_OPTION_LIST,
     .offset = offsetof(struct config, oar),
     .help = "one of several"},
};

static const struct coxi_program strict = {
    .name = "coxswain-test",
    .usage = "[options] FILE",
    .summary = "Tests options.",
    .prefix = "COX_TEST",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static int parse_argv(const struct coxi_program *program, struct config *config,
                      int *rest, char **argv)
{
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    *config = (struct config){0};
    return coxi_options_parse(program, argc, argv, config, rest);
}

/* parse(program, config, rest, arguments...) */
#define parse(program, config, rest, ...)                                              \
    parse_argv(program, config, rest, (char *[]){"test", __VA_ARGS__, NULL})

static char *file_with(const char *text)
{
    char *path = coxi_test_path("options");
    coxi_test_write(path, text, strlen(text));
    return path;
}

/* ---- flags */

TEST(what_is_not_given_has_its_fallback)
{
    struct config c;
    assert_code(0, parse_argv(&strict, &c, NULL, (char *[]){"test", NULL}));
    assert_false(c.verbose);
    assert_null(c.name);
    assert_int_equal(7, c.count);
    assert_true(c.rate == 0.5);
    assert_string_equal("green", c.color);
    assert_int_equal(4096, c.memory);
}

TEST(a_list_has_its_values_in_order)
{
    struct config c;
    assert_code(0, parse_argv(&strict, &c, NULL, (char *[]){"test", NULL}));
    assert_int_equal(0, c.oar.n);
    assert_code(0, parse(&strict, &c, NULL, "--oar", "b", "--verbose", "--oar=a"));
    assert_int_equal(2, c.oar.n);
    assert_string_equal("b", c.oar.all[0]);
    assert_string_equal("a", c.oar.all[1]);
}

TEST(values_come_behind_the_flag_or_behind_an_equals_sign)
{
    struct config c;
    assert_code(0, parse(&strict, &c, NULL, "--verbose", "--name", "x=y",
                         "--some-count=-5", "--rate", "0.25", "--color=blue"));
    assert_true(c.verbose);
    assert_string_equal("x=y", c.name);
    assert_int_equal(-5, c.count);
    assert_true(c.rate == 0.25);
    assert_string_equal("blue", c.color);
    assert_code(0, parse(&strict, &c, NULL, "--name=", "--some-count", "100"));
    assert_string_equal("", c.name);
    assert_int_equal(100, c.count);
}

TEST(the_last_of_a_repeated_option_counts)
{
    struct config c;
    assert_code(0, parse(&strict, &c, NULL, "--verbose", "--some-count", "1",
                         "--verbose=false", "--some-count=2"));
    assert_false(c.verbose);
    assert_int_equal(2, c.count);
}

TEST(a_number_out_of_range_is_refused_with_the_range)
{
    static char *const bad[] = {"-6",  "101", "seven", "",    "7x",
                                "1.5", "0x7", "1e2",   "nan", "99999999999999999999"};
    struct config c;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--some-count", bad[i]));
        assert_error_names("--some-count");
        assert_error_names("from -5 to 100");
        assert_error_names(bad[i]);
    }
    static char *const bad_reals[] = {"-0.1", "1.01", "nan", "inf", "", "half"};
    for (size_t i = 0; i < sizeof(bad_reals) / sizeof(*bad_reals); i++) {
        assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--rate", bad_reals[i]));
        assert_error_names("--rate");
        assert_error_names("from 0 to 1");
    }
}

TEST(bytes_may_be_given_in_larger_units)
{
    static const struct {
        char *text;
        int64_t bytes;
    } good[] = {
        {"17", 17},         {"64K", 65536},        {"512M", 536870912},
        {"2g", 2147483648}, {"1T", 1099511627776}, {"1048576T", 1152921504606846976}};
    static char *const bad[] = {"",   "K",   "15",  "-1K",      "1.5G",
                                "2Q", "2K ", "2KB", "1048577T", "99999999999T"};
    struct config c;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_code(0, parse(&strict, &c, NULL, "--memory", good[i].text));
        assert_int_equal(good[i].bytes, c.memory);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--memory", bad[i]));
        assert_error_names("--memory");
        assert_error_names("from 16 to");
        assert_error_names(bad[i]);
    }
}

TEST(a_choice_that_is_none_is_refused_with_the_choices)
{
    static char *const bad[] = {"yellow", "",          "re",   "redd",
                                "Red",    "red|green", "|red", "green|"};
    struct config c;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--color", bad[i]));
        assert_error_names("--color");
        assert_error_names("red|green|blue");
    }
    assert_code(0, parse(&strict, &c, NULL, "--color", "red"));
    assert_string_equal("red", c.color);
}

TEST(a_flag_takes_true_or_false_only)
{
    struct config c;
    assert_code(0, parse(&strict, &c, NULL, "--verbose=true"));
    assert_true(c.verbose);
    assert_code(0, parse(&strict, &c, NULL, "--verbose=0"));
    assert_false(c.verbose);
    assert_code(0, parse(&strict, &c, NULL, "--verbose=1"));
    assert_true(c.verbose);
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--verbose=yes"));
    assert_error_names("--verbose");
    assert_error_names("yes");
}

TEST(an_option_without_its_value_is_refused_by_name)
{
    struct config c;
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--verbose", "--name"));
    assert_error_names("--name needs a value");
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--config"));
    assert_error_names("--config");
}

TEST(an_unknown_option_is_refused_by_name)
{
    static char *const bad[] = {"--colour", "--colour=red", "--",        "--nam",
                                "--names",  "--help=me",    "--Verbose", "---"};
    struct config c;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (strcmp(bad[i], "--") != 0) {
            assert_code(COX_EINVAL, parse(&strict, &c, NULL, bad[i]));
            assert_error_names(bad[i]);
            assert_error_names("coxswain-test --help");
        }
    }
}

/* ---- arguments that are no options */

TEST(arguments_where_none_belong_are_refused)
{
    struct config c;
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--verbose", "file"));
    assert_error_names("'file'");
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, "-v"));
    assert_error_names("'-v'");
    assert_code(0, parse(&strict, &c, NULL, "--verbose", "--"));
}

TEST(the_first_argument_ends_the_options)
{
    struct config c;
    int rest = 0;
    assert_code(0, parse(&strict, &c, &rest, "--verbose", "file", "--some-count", "1"));
    assert_int_equal(2, rest);
    assert_int_equal(7, c.count);
    assert_code(0, parse(&strict, &c, &rest, "--", "--verbose"));
    assert_int_equal(2, rest);
    assert_false(c.verbose);
    assert_code(0, parse(&strict, &c, &rest, "--verbose"));
    assert_int_equal(2, rest);
}

TEST(mixed_options_may_follow_arguments)
{
    struct coxi_program mixed = strict;
    struct config c;
    int rest = 0;
    char *argv[] = {"test", "one", "--some-count", "3", "two",
                    "-",    "--",  "--verbose",    "x", NULL};
    mixed.mixed = true;
    assert_code(0, parse_argv(&mixed, &c, &rest, argv));
    assert_int_equal(3, c.count);
    assert_false(c.verbose);
    static const char *const expected[] = {"one", "two", "-", "--verbose", "x"};
    assert_int_equal(9 - 5, rest);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(expected[i], argv[rest + i]);
    }
}

TEST(an_option_may_have_a_short_form)
{
    static const struct coxi_option lettered[] = {
        {.name = "some-count",
         .letter = 'c',
         .type = COXI_OPTION_INT,
         .offset = offsetof(struct config, count),
         .max = 100,
         .help = "how many"},
    };
    struct coxi_program program = strict;
    struct config c;
    int rest = 0;
    program.options = lettered;
    program.n_options = 1;
    assert_code(0, parse(&program, &c, &rest, "-c", "3", "one"));
    assert_int_equal(3, c.count);
    assert_int_equal(3, rest);
    assert_code(0, parse(&program, &c, &rest, "-x")); /* it is no option */
    assert_int_equal(1, rest);
    assert_code(COX_EINVAL, parse(&program, &c, &rest, "-c"));
    assert_error_names("-c needs a value");
    assert_code(COX_EINVAL, parse(&program, &c, &rest, "-c", "101"));
    assert_error_names("--some-count");
}

/* ---- environment and file */

TEST(the_environment_is_read)
{
    struct config c;
    assert_int_equal(0, setenv("COX_TEST_SOME_COUNT", "9", 1));
    assert_int_equal(0, setenv("COX_TEST_VERBOSE", "true", 1));
    int r = parse_argv(&strict, &c, NULL, (char *[]){"test", NULL});
    (void)setenv("COX_TEST_SOME_COUNT", "101", 1);
    int bad = parse_argv(&strict, &c, NULL, (char *[]){"test", NULL});
    (void)unsetenv("COX_TEST_SOME_COUNT");
    (void)unsetenv("COX_TEST_VERBOSE");
    assert_code(0, r);
    assert_code(COX_EINVAL, bad);
    assert_error_names("COX_TEST_SOME_COUNT");
    assert_error_names("from -5 to 100");
}

TEST(a_file_is_read)
{
    struct config c;
    char *path = file_with("# what belongs to the test\n"
                           "\n"
                           "  some-count =  8  \n"
                           "name=a = b\n"
                           "\tverbose = true\r\n"
                           "rate = 1");
    assert_code(0, parse(&strict, &c, NULL, "--config", path));
    assert_int_equal(8, c.count);
    assert_string_equal("a = b", c.name);
    assert_true(c.verbose);
    assert_true(c.rate == 1);
}

TEST(flags_go_before_the_environment_and_that_before_the_file)
{
    struct config c;
    char *path = file_with("some-count = 1\nname = file\nrate = 0.1\n");
    (void)setenv("COX_TEST_SOME_COUNT", "2", 1);
    (void)setenv("COX_TEST_NAME", "environment", 1);
    int r = parse(&strict, &c, NULL, "--some-count=3", "--config", path);
    (void)unsetenv("COX_TEST_SOME_COUNT");
    (void)unsetenv("COX_TEST_NAME");
    assert_code(0, r);
    assert_int_equal(3, c.count);
    assert_string_equal("environment", c.name);
    assert_true(c.rate == 0.1);
}

TEST(errors_in_a_file_name_it_and_the_line)
{
    static const struct {
        char *text;
        const char *where;
        const char *what;
    } bad[] = {
        {"some-count = 1\n\n#\nsome-count = 500\n", ":4:", "from -5 to 100"},
        {"colour = red\n", ":1:", "'colour'"},
        {"config = other\n", ":1:", "'config'"},
        {"some-count\n", ":1:", "'='"},
        {"name = x\n--verbose\n", ":2:", "'='"},
        {"color = mauve", ":1:", "red|green|blue"},
        {"= 5\n", ":1:", "''"},
    };
    struct config c;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char *path = file_with(bad[i].text);
        assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--config", path));
        assert_error_names(path);
        assert_error_names(bad[i].where);
        assert_error_names(bad[i].what);
    }
}

TEST(a_file_that_cannot_be_read_is_an_error)
{
    struct config c;
    char *path = coxi_test_path("missing");
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, "--config", path));
    assert_error_names(path);
    char directory[256];
    (void)snprintf(directory, sizeof(directory), "--config=%s", coxi_test_dir());
    assert_code(COX_EINVAL, parse(&strict, &c, NULL, directory));
    assert_error_names(coxi_test_dir());
}

TEST(long_lines_of_a_file_are_read_whole)
{
    struct config c;
    char text[5000];
    memset(text, '=', sizeof(text));
    memcpy(text, "#", 1);
    memcpy(text + 2000, "\nname =", 7);
    text[4000] = '\n';
    (void)snprintf(text + 4001, 100, "some-count = 5\n");
    char *path = file_with(text);
    assert_code(0, parse(&strict, &c, NULL, "--config", path));
    assert_int_equal(4000 - 2007, strlen(c.name));
    assert_int_equal(5, c.count);
}

/* ---- --help and --version */

/* What parsing `argument` prints on standard output. */
static char *printed(char *argument, int *ret)
{
    struct config c;
    char *path = coxi_test_path("out");
    (void)fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    (void)dup2(fileno(out), STDOUT_FILENO);
    *ret = parse(&strict, &c, NULL, argument, "--no-such-thing");
    (void)fflush(stdout);
    (void)dup2(saved, STDOUT_FILENO);
    (void)close(saved);
    (void)fclose(out);
    return coxi_test_read(path, NULL);
}

TEST(help_lists_every_option_with_all_that_the_table_says)
{
    static const char *const parts[] = {
        "Usage: coxswain-test [options] FILE\n",
        "Tests options.",
        "--verbose ",
        "say more\n",
        "--name TEXT ",
        "whose it is\n",
        "--some-count N ",
        "how many (default 7)\n",
        "--rate X ",
        "how fast (default 0.5)\n",
        "--color red|green|blue ",
        "which (default green)\n",
        "--config FILE ",
        "--help ",
        "--version ",
        "COX_TEST_SOME_NAME",
    };
    int r = 0;
    char *text = printed("--help", &r);
    assert_int_equal(COXI_OPTIONS_EXIT, r);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (strstr(text, parts[i]) == NULL) {
            fail_msg("--help lacks '%s':\n%s", parts[i], text);
        }
    }
    free(text);
}

TEST(version_prints_the_name_and_both_versions)
{
    int r = 0;
    char *text = printed("--version", &r);
    assert_int_equal(COXI_OPTIONS_EXIT, r);
    int major = -1;
    int minor = -1;
    int patch = -1;
    int protocol = -1;
    assert_int_equal(4, sscanf(text, "coxswain-test %d.%d.%d (protocol %d)\n", &major,
                               &minor, &patch, &protocol));
    assert_int_equal(COX_VERSION_MAJOR, major);
    assert_true(minor >= 0 && patch >= 0 && protocol > 0);
    free(text);
}

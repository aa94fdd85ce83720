/* See option.h. Threads: main, before others start. */
#include "common/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/manual.h"
#include "schema/wire.h"

void coxi_version_print(const char *program, FILE *out)
{
    (void)fprintf(out, "%s %d.%d.%d (protocol %d)\n", program, COX_VERSION_MAJOR,
                  COX_VERSION_MINOR, COX_VERSION_PATCH, COXI_WIRE_VERSION);
}

const char *coxi_option_takes(const struct coxi_option *option)
{
    switch (option->type) {
    case COXI_OPTION_FLAG:
        return "";
    case COXI_OPTION_STRING:
    case COXI_OPTION_LIST:
        return "TEXT";
    case COXI_OPTION_INT:
        return "N";
    case COXI_OPTION_BYTES:
        return "BYTES";
    case COXI_OPTION_REAL:
        return "X";
    case COXI_OPTION_CHOICE:
        return option->choices;
    }
    return "";
}

static void print_help(const struct coxi_program *program)
{
    (void)printf("Usage: %s %s\n\n%s\n\nOptions:\n", program->name, program->usage,
                 program->summary);
    for (size_t i = 0; i < program->n_options; i++) {
        const struct coxi_option *option = &program->options[i];
        char left[80];
        const char letter[] = {'-', option->letter, ',', ' ', '\0'};
        (void)snprintf(left, sizeof(left), "%s--%s %s",
                       option->letter != 0 ? letter : "", option->name,
                       coxi_option_takes(option));
        (void)printf("  %-26s %s", left, option->help);
        if (option->fallback != NULL) {
            (void)printf(" (default %s)", option->fallback);
        }
        (void)putchar('\n');
    }
    (void)printf("  %-26s %s\n  %-26s %s\n  %-26s %s\n\n"
                 "An option --some-name may also be given as %s_SOME_NAME in the "
                 "environment\nor as a line 'some-name = value' in the file.\n",
                 "--config FILE", "read options from a file", "--help", "print this",
                 "--version", "print the version", program->prefix);
}

static int parse_number(const struct coxi_option *option, const char *text, void *field)
{
    char *end = NULL;
    errno = 0;
    if (option->type == COXI_OPTION_INT) {
        long long n = strtoll(text, &end, 10);
        if (end != text && *end == '\0' && errno == 0 && (double)n >= option->min &&
            (double)n <= option->max) {
            *(int64_t *)field = n;
            return 0;
        }
    } else {
        double x = strtod(text, &end);
        if (end != text && *end == '\0' && errno == 0 && x >= option->min &&
            x <= option->max) {
            *(double *)field = x;
            return 0;
        }
    }
    return coxi_error(COX_EINVAL, "--%s takes a number from %.15g to %.15g, not '%s'",
                      option->name, option->min, option->max, text);
}

/* Parses a number, with an optional unit: K, M, G or T. */
static int parse_bytes(const struct coxi_option *option, const char *text, void *field)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    const char *unit =
        *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    int bits = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    end += unit != NULL ? 1 : 0;
    if (end == text || *end != '\0' || errno != 0 || n < 0 || n > INT64_MAX >> bits ||
        (double)(n << bits) < option->min || (double)(n << bits) > option->max) {
        return coxi_error(
            COX_EINVAL,
            "--%s takes a number of bytes from %.15g to %.15g, or of KiB, "
            "MiB, GiB, TiB (64K, 512M, 2G, 1T), not '%s'",
            option->name, option->min, option->max, text);
    }
    *(int64_t *)field = n << bits;
    return 0;
}

static int parse_choice(const struct coxi_option *option, const char *text, void *field)
{
    /* so that the text "a|b" does not match the choices "a|b" */
    size_t len = strcspn(text, "|");
    for (const char *at = option->choices; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (len > 0 && text[len] == '\0' && strncmp(at, text, len) == 0 &&
            (at[len] == '|' || at[len] == '\0')) {
            *(const char **)field = text;
            return 0;
        }
    }
    return coxi_error(COX_EINVAL, "--%s takes one of %s, not '%s'", option->name,
                      option->choices, text);
}

/* 1 and 0, too, as environments have them. */
static int parse_flag(const struct coxi_option *option, const char *text, bool *field)
{
    *field = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!*field && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        return coxi_error(COX_EINVAL, "--%s takes true or false, not '%s'",
                          option->name, text);
    }
    return 0;
}

static int add_to_list(const struct coxi_option *option, const char *text,
                       struct coxi_option_list *list)
{
    if (list->n == COXI_OPTION_LIST_MAX) {
        return coxi_error(COX_EINVAL, "--%s may be given %d times", option->name,
                          COXI_OPTION_LIST_MAX);
    }
    list->all[list->n++] = text;
    return 0;
}

static int set_option(const struct coxi_option *option, const char *text, void *config)
{
    void *field = (char *)config + option->offset;
    switch (option->type) {
    case COXI_OPTION_FLAG:
        return parse_flag(option, text, field);
    case COXI_OPTION_STRING:
        *(const char **)field = text;
        return 0;
    case COXI_OPTION_INT:
    case COXI_OPTION_REAL:
        return parse_number(option, text, field);
    case COXI_OPTION_BYTES:
        return parse_bytes(option, text, field);
    case COXI_OPTION_CHOICE:
        return parse_choice(option, text, field);
    case COXI_OPTION_LIST:
        return add_to_list(option, text, field);
    }
    return COX_EINVAL;
}

static const struct coxi_option *find_option(const struct coxi_program *program,
                                             const char *name, size_t len)
{
    for (size_t i = 0; i < program->n_options; i++) {
        const struct coxi_option *option = &program->options[i];
        if (strlen(option->name) == len && strncmp(option->name, name, len) == 0) {
            return option;
        }
    }
    return NULL;
}

/* The option that an argument is the short form of, or NULL. */
static const struct coxi_option *find_letter(const struct coxi_program *program,
                                             const char *arg)
{
    for (size_t i = 0; arg[0] == '-' && arg[1] != '\0' && i < program->n_options; i++) {
        if (program->options[i].letter == arg[1] && arg[2] == '\0') {
            return &program->options[i];
        }
    }
    return NULL;
}

static int parse_environment(const struct coxi_program *program, void *config)
{
    for (size_t i = 0; i < program->n_options; i++) {
        char name[96];
        int n = snprintf(name, sizeof(name), "%s_%s", program->prefix,
                         program->options[i].name);
        for (int c = 0; c < n && c < (int)sizeof(name); c++) {
            name[c] = (char)(name[c] == '-' ? '_' : toupper((unsigned char)name[c]));
        }
        const char *text = getenv(name);
        int r = text != NULL ? set_option(&program->options[i], text, config) : 0;
        if (r != 0) {
            return coxi_error(r, "environment variable %s: %s", name,
                              coxi_error_text());
        }
    }
    return 0;
}

/* Cuts white space at both ends, in place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) {
        text++;
    }
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) {
        end--;
    }
    *end = '\0';
    return text;
}

static int parse_file(const struct coxi_program *program, const char *path,
                      void *config)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return coxi_error_errno(COX_EINVAL, "cannot read options from %s", path);
    }
    int r = 0;
    int number = 0;
    char *line = NULL;
    size_t size = 0;
    while (r == 0 && getline(&line, &size, file) >= 0) {
        number++;
        char *name = trim(line);
        if (*name == '\0' || *name == '#') {
            continue;
        }
        char *equals = strchr(name, '=');
        if (equals == NULL) {
            r = coxi_error(COX_EINVAL, "%s:%d: no '=' in the line", path, number);
            break;
        }
        *equals = '\0';
        name = trim(name);
        const struct coxi_option *option = find_option(program, name, strlen(name));
        if (option == NULL) {
            r = coxi_error(COX_EINVAL, "%s:%d: no option '%s'", path, number, name);
            break;
        }
        /* Kept for the life of the program, like the text in argv. */
        static char *kept[256];
        static size_t n_kept;
        char *value = strdup(trim(equals + 1));
        if (value == NULL || n_kept == sizeof(kept) / sizeof(*kept)) {
            free(value);
            r = coxi_error(COX_EINVAL, "%s:%d: too many options", path, number);
            break;
        }
        kept[n_kept++] = value;
        r = set_option(option, value, config);
        if (r != 0) {
            r = coxi_error(r, "%s:%d: %s", path, number, coxi_error_text());
        }
    }
    if (r == 0 && ferror(file)) {
        r = coxi_error_errno(COX_EINVAL, "cannot read options from %s", path);
    }
    free(line);
    (void)fclose(file);
    return r;
}

/* The value of option argument argv[*i] ("--name=value" or the next argument). */
static int take_value(int argc, char **argv, int *i, const char *equals,
                      const char **ret)
{
    if (equals != NULL) {
        *ret = equals + 1;
    } else if (*i + 1 < argc) {
        *ret = argv[++*i];
    } else {
        return coxi_error(COX_EINVAL, "%s needs a value", argv[*i]);
    }
    return 0;
}

/* Answers --help, --version or --man, if `name` is one of them. */
static bool print_about(const struct coxi_program *program, const char *name)
{
    bool help = strcmp(name, "help") == 0;
    bool version = strcmp(name, "version") == 0;
    bool man = strcmp(name, "man") == 0;
    if (help) {
        print_help(program);
    } else if (version) {
        coxi_version_print(program->name, stdout);
    } else if (man) {
        coxi_manual_print(program, stdout);
    }
    return help || version || man;
}

/* Handles the option at argv[*i] and its value. The file pass handles only --config,
 * the other pass all other options. */
static int parse_option(const struct coxi_program *program, int argc, char **argv,
                        int *i, bool file_pass, void *config)
{
    const struct coxi_option *option = find_letter(program, argv[*i]);
    const char *name = option != NULL ? option->name : argv[*i] + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const char *value = "true";
    bool is_file = len == 6 && strncmp(name, "config", len) == 0;
    int r = 0;
    option = find_option(program, name, len);
    if (option == NULL && print_about(program, name)) {
        return COXI_OPTIONS_EXIT;
    }
    if (option == NULL && !is_file) {
        return coxi_error(COX_EINVAL, "no option '%s'; see %s --help", argv[*i],
                          program->name);
    }
    if (is_file || option->type != COXI_OPTION_FLAG || equals != NULL) {
        r = take_value(argc, argv, i, equals, &value);
    }
    if (r != 0 || is_file != file_pass) {
        return r;
    }
    return is_file ? parse_file(program, value, config)
                   : set_option(option, value, config);
}

/* One pass over the arguments: `file_pass` handles only --config, the other pass all
 * other options. Arguments that are no options are moved after the options, in
 * order. */
static int parse_arguments(const struct coxi_program *program, int argc, char **argv,
                           bool file_pass, void *config, int *ret_rest)
{
    char **others = calloc((size_t)argc + 1, sizeof(*others));
    int n_others = 0;
    int i = 1;
    int r = others == NULL ? coxi_error_memory("arguments") : 0;
    for (; r == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strncmp(argv[i], "--", 2) == 0 || find_letter(program, argv[i]) != NULL) {
            r = parse_option(program, argc, argv, &i, file_pass, config);
        } else if (program->mixed) {
            others[n_others++] = argv[i];
        } else {
            break;
        }
    }
    if (r == 0 && !file_pass) {
        memcpy(argv + i - n_others, others, (size_t)n_others * sizeof(*others));
        *ret_rest = i - n_others;
    }
    free(others);
    return r;
}

int coxi_options_parse(const struct coxi_program *program, int argc, char **argv,
                       void *config, int *ret_rest)
{
    int r = 0;
    int rest = argc;
    for (size_t i = 0; r == 0 && i < program->n_options; i++) {
        if (program->options[i].fallback != NULL) {
            r = set_option(&program->options[i], program->options[i].fallback, config);
        }
    }
    if (r == 0) {
        r = parse_arguments(program, argc, argv, true, config, &rest);
    }
    if (r == 0) {
        r = parse_environment(program, config);
    }
    if (r == 0) {
        r = parse_arguments(program, argc, argv, false, config, &rest);
    }
    if (r == 0 && ret_rest == NULL && rest < argc) {
        r = coxi_error(COX_EINVAL, "what is '%s'? %s takes options only", argv[rest],
                       program->name);
    }
    if (r == 0 && ret_rest != NULL) {
        *ret_rest = rest;
    }
    return r;
}

/* See manual.h. The text of the pages comes only from the tables of options, so nothing
 * is written twice. */
#include "common/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "coxswain/types.h"

/* The date of the text that is not in the tables, because a page must not depend on its
 * build. */
static const char date[] = "2026-11-22";

/* bytes of a line of a page's source: mandoc warns of longer lines */
enum { LINE_BYTES = 78 };

/* The source text that roff prints as `c`; it may be written into `room`. `start`: `c`
 * is at the start of a line. */
static const char *escaped(char c, bool start, char room[2])
{
    switch (c) {
    case '\\':
        return "\\e";
    case '-':
        return "\\-";
    case '\'':
        return "\\(aq";
    case '.':
        return start ? "\\&." : ".";
    default:
        room[0] = c;
        room[1] = '\0';
        return room;
    }
}

/* Prints `len` bytes; returns how many bytes they became. */
static size_t put_bytes(const char *text, size_t len, bool start, FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char room[2];
        const char *byte = escaped(text[i], start && i == 0, room);
        (void)fputs(byte, out);
        n += strlen(byte);
    }
    return n;
}

/* Prints the words of `text` in lines; the first line has `column` bytes already. */
static void put_words(const char *text, size_t len, size_t column, FILE *out)
{
    static const char space[] = " \n";
    for (const char *at = text; at < text + len; at += strspn(at, space)) {
        size_t left = len - (size_t)(at - text);
        size_t word = strcspn(at, space);
        word = word < left ? word : left;
        if (column + 1 + word > LINE_BYTES) {
            (void)fputc('\n', out);
            column = 0;
        } else if (column > 0) {
            (void)fputc(' ', out);
            column++;
        }
        column += put_bytes(at, word, column == 0, out);
        at += word;
    }
    (void)fputc('\n', out);
}

static void put_text(const char *text, FILE *out)
{
    put_words(text, strlen(text), 0, out);
}

/* Prints the name of the page: "coxswain-run" of "coxswain run". */
static size_t put_page(const char *name, bool upper, FILE *out)
{
    size_t n = 0;
    for (const char *at = name; *at != '\0'; at++) {
        char c = (char)(upper ? toupper((unsigned char)*at) : *at);
        c = (char)(c == ' ' ? '-' : c);
        n += put_bytes(&c, 1, false, out);
    }
    return n;
}

/* The length of the first sentence without its end, or of its part before a colon. */
static size_t phrase_len(const char *summary)
{
    size_t len = strcspn(summary, ".:");
    while (summary[len] != '\0' && summary[len + 1] != '\0' &&
           !isspace((unsigned char)summary[len + 1])) {
        len += 1 + strcspn(summary + len + 1, ".:");
    }
    return len;
}

void coxi_manual_begin(const char *name, const char *usage, const char *summary,
                       FILE *out)
{
    (void)fputs(".TH ", out);
    (void)put_page(name, true, out);
    (void)fprintf(out, " 1 %s \"coxswain %d.%d.%d\" Coxswain\n", date,
                  COX_VERSION_MAJOR, COX_VERSION_MINOR, COX_VERSION_PATCH);
    coxi_manual_section("NAME", out);
    size_t column = put_page(name, false, out);
    (void)fputs(" \\-", out);
    put_words(summary, phrase_len(summary), column + strlen(" \\-"), out);
    coxi_manual_section("SYNOPSIS", out);
    (void)fputs(".B ", out);
    put_text(name, out);
    put_text(usage, out);
    coxi_manual_section("DESCRIPTION", out);
    put_text(summary, out);
}

void coxi_manual_section(const char *title, FILE *out)
{
    (void)fprintf(out, ".SH %s\n", title);
}

void coxi_manual_item(const char *term, const char *text, FILE *out)
{
    (void)fputs(".TP\n.B ", out);
    put_text(term, out);
    put_text(text, out);
}

void coxi_manual_reference(const char *name, const char *command, FILE *out)
{
    (void)fputs(".BR ", out);
    (void)put_page(name, false, out);
    if (command != NULL) {
        (void)fprintf(out, "\\-%s", command);
    }
    (void)fputs(" (1)\n", out);
}

static void put_option(const struct coxi_option *option, FILE *out)
{
    char term[96];
    char text[1024];
    const char *takes = coxi_option_takes(option);
    bool has_default = option->fallback != NULL;
    const char letter[] = {'-', option->letter, ',', ' ', '\0'};
    (void)snprintf(term, sizeof(term), "%s--%s%s%s", option->letter != 0 ? letter : "",
                   option->name, takes[0] != '\0' ? " " : "", takes);
    (void)snprintf(text, sizeof(text), "%s%s%s%s", option->help,
                   has_default ? " (default " : "", has_default ? option->fallback : "",
                   has_default ? ")" : "");
    coxi_manual_item(term, text, out);
}

static void put_environment(const char *prefix, FILE *out)
{
    char text[256];
    (void)snprintf(text, sizeof(text),
                   "An option --some-name may also be given as %s_SOME_NAME, or as a "
                   "line \"some-name = value\" in the file that --config names.",
                   prefix);
    coxi_manual_section("ENVIRONMENT", out);
    put_text(text, out);
}

void coxi_manual_print(const struct coxi_program *program, FILE *out)
{
    coxi_manual_begin(program->name, program->usage, program->summary, out);
    coxi_manual_section("OPTIONS", out);
    for (size_t i = 0; i < program->n_options; i++) {
        put_option(&program->options[i], out);
    }
    coxi_manual_item("--config FILE", "read options from a file", out);
    coxi_manual_item("--help", "print the options", out);
    coxi_manual_item("--version", "print the version", out);
    put_environment(program->prefix, out);
    coxi_manual_section("SEE ALSO", out);
    coxi_manual_reference("coxswain", NULL, out);
}

/* Manual pages, in roff's man(7) macros: each program prints its own with --man, from
 * the tables that --help prints, and the build installs them. Main thread. */
#ifndef COXI_COMMON_MANUAL_H
#define COXI_COMMON_MANUAL_H

#include <stdio.h>

#include "common/option.h"

/* Prints the whole page of a program: "coxswain run" has the page coxswain-run. */
void coxi_manual_print(const struct coxi_program *program, FILE *out);

/*
 * Print parts of a page that has no table of options: its head (the first sentence of
 * `summary` says what the program is), a section, an item of a section, and a
 * reference, on a line of its own, to the page of `name` or of its `command` (or NULL).
 */
void coxi_manual_begin(const char *name, const char *usage, const char *summary,
                       FILE *out);
void coxi_manual_section(const char *title, FILE *out);
void coxi_manual_item(const char *term, const char *text, FILE *out);
void coxi_manual_reference(const char *name, const char *command, FILE *out);

#endif

/*
 * Names of files: paths, and addresses SCHEME://HOST/PATH?QUERY. An address may have
 * secrets: a user and password before its host, a signature in its query. Messages and
 * logs show it without both.
 *
 * Threads: any.
 */
#ifndef COXI_DATA_NAME_H
#define COXI_DATA_NAME_H

#include <stdbool.h>

/* Whether a name is an address, and so no path. */
bool coxi_name_has_scheme(const char *name);

/* Whether the name ends with `end`, and has more before it. The path of an address counts,
 * not its query. */
bool coxi_name_has_end(const char *name, const char *end);

/* Whether the name ends in .gz: the file is compressed as a whole, and can be read from
 * its beginning only. */
bool coxi_name_inflates(const char *name);

/* As coxi_name_has_end, before a .gz at the name's end. */
bool coxi_name_has_format(const char *name, const char *end);

/* Whether a file that matches the pattern is none of its files: an index (.coxi) or a part
 * of a file that is being written (.part), unless the pattern ends so. */
bool coxi_name_is_aside(const char *pattern, const char *name);

/* Removes what messages must not show, in place. */
void coxi_name_hide(char *name);

/* A copy without it, for a message: coxi_name_shown(name).text. Long names are cut. */
struct coxi_shown_name {
    char text[512];
};
struct coxi_shown_name coxi_name_shown(const char *name);

#endif

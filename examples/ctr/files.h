/* The files of a run: the user's, or a generated log; and the directory for what comes
 * out. */
#ifndef CTR_FILES_H
#define CTR_FILES_H

#include "options.h"

/* Makes the directory, refuses one that has an earlier run unless the options resume it,
 * and generates a log if no files are given. 0, or the program's exit code. */
int files_prepare(struct options *options);

#endif

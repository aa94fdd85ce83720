/*
 * What a run is like, as text for a terminal or a pipe. `state` is what coxi_state_json
 * returns (page/state.h). Texts from the run are made plain. One thread.
 */
#ifndef COXI_CLI_RUN_TEXT_H
#define COXI_CLI_RUN_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The size of the text; 0: no bound. */
struct coxi_run_text {
    size_t columns;
    size_t
        rows; /* so many coxi_run_text_tables tries to do with; it leaves out peers */
};

/* A few lines: which run, how far, how fast, what is wrong, the newest metrics, of which it
 * leaves out some if there are few rows. */
void coxi_run_text_head(json_t *state, FILE *out, struct coxi_run_text size);

/* A table of ps, and one of workers: those that are not ready come first. Says so if they are as
 * last seen, because the client does not run. */
void coxi_run_text_tables(json_t *state, FILE *out, struct coxi_run_text size);

/* An event as one line: time, level, name, text. */
void coxi_run_text_event(json_t *event, FILE *out);

/* True if the client runs, every ps is up and every worker is ready; or if the run was closed and
 * could have gone on. */
bool coxi_run_is_well(json_t *state);

#endif

/* What bounds a run, from where the time of its slots went; profiles for those who watch
 * it. Any thread. docs/watching.md describes the rule. */
#ifndef COXI_COORDINATOR_MONITOR_PROFILE_H
#define COXI_COORDINATOR_MONITOR_PROFILE_H

#include "common/buffer.h"
#include "coordinator/base/profile.h"
#include "coordinator/coordinator.h"

/* The rule: what most of the slots' time went to, and a sentence about it in `text`. */
enum cox_bound coxi_profile_bound(const struct coxi_part_sums *sums, char *text,
                                  size_t size);

/*
 * Appends two members of a JSON object, without braces or a comma at either end:
 *
 *   "profile":{"train":{"n":900,"step_us":51,"data_us":0,"pull_us":20,"compute_us":31,
 *   "commit_us":60,"p50_us":50,"p99_us":80},...},"bound":"ps-bound: ..."
 *
 * `n` counts all steps, and p50_us and p99_us are of all of them (of step_us). The other
 * times are averages of the steps of the last 10 to 20 s, and so is what bounds the run.
 * Functions that have not run are missing; "bound" is "" if no step has run lately.
 * COX_ENOMEM.
 */
int coxi_profile_json(struct cox_coordinator *c, struct coxi_buffer *out);

#endif

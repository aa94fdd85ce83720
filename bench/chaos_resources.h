/* With --resources: the resources that steps use, which workers make from a variable
 * (see chaos.h). */
#ifndef COXI_BENCH_CHAOS_RESOURCES_H
#define COXI_BENCH_CHAOS_RESOURCES_H

#include <stdint.h>

struct chaos_client;
struct cox_module;
struct chaos_resources;

/* Attaches to the variables, or creates them, and creates the resources that steps
 * before number `next` use. NULL: no --resources. */
int chaos_resources_open(struct chaos_client *client, struct cox_module *module,
                         uint64_t next, struct chaos_resources **ret);

/* 0, or 1 + the version of the resource that step `number` uses. */
int64_t chaos_resources_version(const struct chaos_client *client, uint64_t number);

/* Creates the resource that step `number` uses. Call it before the step is
 * scheduled. */
int chaos_resources_prepare(struct chaos_resources *resources, uint64_t number);

/* Checks that as many steps have used a resource as n_steps contain, and that each
 * found it as it must be. */
int chaos_resources_check(struct chaos_resources *resources, uint64_t n_steps);

/* Takes NULL. */
void chaos_resources_free(struct chaos_resources *resources);

#endif

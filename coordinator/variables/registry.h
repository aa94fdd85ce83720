/* The variables, tables and metrics: by id and by name. All under c->lock. */
#ifndef COXI_COORDINATOR_VARIABLES_REGISTRY_H
#define COXI_COORDINATOR_VARIABLES_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/names.h"

struct cox_coordinator;
struct coxi_entry;
struct coxi_registry_name;

struct coxi_registry {
    struct coxi_names names;          /* of variables, and of their folders */
    struct coxi_registry_name *first; /* a list of these */
    struct coxi_entry **entries;      /* by variable id */
    uint32_t n_entries;
    uint32_t capacity; /* of entries */
    uint64_t *ps_load; /* bytes placed on each ps */
};

/* The entry with that name; NULL: there is none, or it was not created yet. */
struct coxi_entry *coxi_registry_find(const struct cox_coordinator *c,
                                      const char *name);

/*
 * Gives the entry's variable the next id. From then on its name is taken, and its bytes
 * count when others are placed. Names are like paths: unique, and none is the folder of
 * another. A variable without a name only gets its id. COX_EEXIST, COX_ELIMIT,
 * COX_ENOMEM: the entry stays the caller's.
 */
int coxi_registry_add(struct cox_coordinator *c, struct coxi_entry *entry);

/* The variable can be used from now on: workers are told of it before any closure that
 * is scheduled later. */
void coxi_registry_announce(struct cox_coordinator *c, struct coxi_entry *entry);

/* The variable could not be created: its name is free again. It keeps its id. */
void coxi_registry_forget(struct cox_coordinator *c, struct coxi_entry *entry);

/* Makes an empty registry. COX_ENOMEM. */
int coxi_registry_new(struct cox_coordinator *c);

/* Frees the registry with every entry. Takes a registry that was not made. */
void coxi_registry_free(struct cox_coordinator *c);

void coxi_entry_free(struct coxi_entry *entry);

#endif

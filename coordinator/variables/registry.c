/*
 * See registry.h.
 *
 * Invariant: a name of a variable, or of a folder of variables, is in `names`, and so
 * is every folder above it. A name that is free again stays there, without variables
 * below it.
 *
 * Cost: adding and finding take constant time for each folder of the name; a refused
 * name may be compared with all names.
 */
#include "coordinator/variables/registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/layout.h"
#include "coordinator/coordinator.h"
#include "coordinator/variables/partition.h"

enum { ENTRIES_FIRST = 16 };

struct coxi_registry_name {
    struct coxi_named named;
    struct coxi_registry_name *next;
    struct coxi_entry *entry; /* the variable with that name; or NULL */
    uint32_t n_below;         /* variables in this folder */
    char text[];
};

/* ---- names */

static struct coxi_registry_name *name_get(const struct cox_coordinator *c,
                                           const char *text, size_t len)
{
    return (struct coxi_registry_name *)coxi_names_get(&c->registry->names, text, len);
}

/* Gets the name, or makes it; NULL: no memory. */
static struct coxi_registry_name *name_make(struct cox_coordinator *c, const char *text,
                                            size_t len)
{
    struct coxi_registry_name *name = name_get(c, text, len);
    if (name != NULL) {
        return name;
    }
    name = calloc(1, sizeof(*name) + len + 1);
    if (name == NULL) {
        return NULL;
    }
    memcpy(name->text, text, len);
    name->named = (struct coxi_named){.name = name->text, .len = len};
    if (coxi_names_add(&c->registry->names, &name->named) != 0) {
        free(name);
        return NULL;
    }
    name->next = c->registry->first;
    c->registry->first = name;
    return name;
}

/* The length of the next folder above `name`, after the folder of `len` bytes; 0: there
 * is none. */
static size_t next_folder(const char *name, size_t len)
{
    const char *slash = strchr(name + len + 1, '/');
    return slash != NULL ? (size_t)(slash - name) : 0;
}

/* Makes the names of all folders above `name`, then the name itself, which it returns.
 * NULL: no memory. */
static struct coxi_registry_name *make_all(struct cox_coordinator *c, const char *name)
{
    bool made = true;
    for (size_t len = next_folder(name, 0); made && len > 0;
         len = next_folder(name, len)) {
        made = name_make(c, name, len) != NULL;
    }
    return made ? name_make(c, name, strlen(name)) : NULL;
}

/* Adds `change` to the count of variables below each folder of the name. */
static void count_below(struct cox_coordinator *c, const char *name, int change)
{
    for (size_t len = next_folder(name, 0); len > 0; len = next_folder(name, len)) {
        name_get(c, name, len)->n_below += (uint32_t)change;
    }
}

/* True if `name` is "<above>/...": then tensors of both could have the same name in
 * checkpoints. */
static bool lies_below(const char *name, const char *above)
{
    size_t len = strlen(above);
    return strncmp(name, above, len) == 0 && name[len] == '/';
}

/* Makes the error, with the variable that stands in the way of the name. */
static int refuse_beside(const struct cox_coordinator *c, const char *name)
{
    const char *other = "";
    for (uint32_t i = 0; *other == '\0' && i < c->registry->n_entries; i++) {
        const char *taken = c->registry->entries[i]->description->name;
        if (*taken != '\0' && (lies_below(name, taken) || lies_below(taken, name))) {
            other = taken;
        }
    }
    return coxi_error(COX_EEXIST,
                      "variable '%s' cannot lie beside '%s': a name is a variable or a "
                      "folder of them, not both",
                      name, other);
}

static int check_free(const struct cox_coordinator *c, const char *name)
{
    const struct coxi_registry_name *there = name_get(c, name, strlen(name));
    bool is_beside = there != NULL && there->n_below > 0;
    if (there != NULL && there->entry != NULL) {
        return coxi_error(COX_EEXIST, "there is a variable called '%s' already", name);
    }
    for (size_t len = next_folder(name, 0); len > 0; len = next_folder(name, len)) {
        const struct coxi_registry_name *folder = name_get(c, name, len);
        is_beside = is_beside || (folder != NULL && folder->entry != NULL);
    }
    return is_beside ? refuse_beside(c, name) : 0;
}

/* ---- entries */

/* Makes room for another entry, and for announcing it. */
static int grow(struct cox_coordinator *c)
{
    struct coxi_registry *registry = c->registry;
    if (c->registry->n_entries < registry->capacity) {
        return 0;
    }
    uint32_t n = registry->capacity > 0 ? 2 * registry->capacity : ENTRIES_FIRST;
    struct coxi_entry **entries =
        realloc(c->registry->entries, n * sizeof(struct coxi_entry *));
    c->registry->entries = entries != NULL ? entries : c->registry->entries;
    if (entries == NULL) {
        return coxi_error_memory("variables");
    }
    int r = coxi_announced_reserve(&c->announced, n);
    registry->capacity = r == 0 ? n : registry->capacity;
    return r;
}

struct coxi_entry *coxi_registry_find(const struct cox_coordinator *c, const char *name)
{
    const struct coxi_registry_name *there = name_get(c, name, strlen(name));
    return there != NULL && there->entry != NULL && there->entry->made ? there->entry
                                                                       : NULL;
}

/* Gives the entry its name. */
static int take_name(struct cox_coordinator *c, struct coxi_entry *entry)
{
    const char *text = entry->description->name;
    int r = check_free(c, text);
    if (r != 0) {
        return r;
    }
    struct coxi_registry_name *name = make_all(c, text);
    if (name == NULL) {
        return coxi_error_memory("a variable's name");
    }
    name->entry = entry;
    count_below(c, text, 1);
    return 0;
}

int coxi_registry_add(struct cox_coordinator *c, struct coxi_entry *entry)
{
    struct coxi_variable *v = entry->description;
    int r = c->registry->n_entries == COXI_VARIABLES_MAX
                ? coxi_error(COX_ELIMIT, "more than %d variables", COXI_VARIABLES_MAX)
                : grow(c);
    if (r == 0 && *v->name != '\0') {
        r = take_name(c, entry);
    }
    if (r != 0) {
        return r;
    }
    v->id = c->registry->n_entries;
    c->registry->entries[c->registry->n_entries++] = entry;
    for (size_t i = 0; i < v->n_shards; i++) {
        c->registry->ps_load[v->shards[i].ps] += coxi_partition_load(v, i);
    }
    return 0;
}

void coxi_registry_announce(struct cox_coordinator *c, struct coxi_entry *entry)
{
    entry->made = true;
    coxi_announced_add(&c->announced, entry->description);
}

void coxi_registry_forget(struct cox_coordinator *c, struct coxi_entry *entry)
{
    struct coxi_variable *v = entry->description;
    for (size_t i = 0; i < v->n_shards; i++) {
        c->registry->ps_load[v->shards[i].ps] -= coxi_partition_load(v, i);
    }
    name_get(c, v->name, strlen(v->name))->entry = NULL;
    count_below(c, v->name, -1);
    v->name = "";
}

void coxi_entry_free(struct coxi_entry *entry)
{
    coxi_variable_free(entry->description);
    free(entry);
}

int coxi_registry_new(struct cox_coordinator *c)
{
    c->registry = calloc(1, sizeof(*c->registry));
    return c->registry != NULL ? 0 : coxi_error_memory("variables");
}

void coxi_registry_free(struct cox_coordinator *c)
{
    struct coxi_registry *registry = c->registry;
    if (registry == NULL) {
        return;
    }
    for (uint32_t i = 0; i < registry->n_entries; i++) {
        coxi_entry_free(registry->entries[i]);
    }
    while (registry->first != NULL) {
        struct coxi_registry_name *name = registry->first;
        registry->first = name->next;
        free(name);
    }
    coxi_names_fini(&registry->names);
    coxi_announced_fini(&c->announced);
    free(registry->entries);
    free(registry->ps_load);
    free(registry);
    c->registry = NULL;
}

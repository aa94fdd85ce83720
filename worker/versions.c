/* See versions.h. A place that another step has noted counts as empty, so that nothing
 * is cleared between steps. */
#include "worker/versions.h"

#include <stdbool.h>

struct place {
    uint64_t step; /* which noted it */
    uint64_t version;
    uint64_t oldest;
};

/* What this step has noted at a place; NULL: nothing. */
static struct place *find(const struct coxi_versions *versions, size_t place)
{
    struct place *places = (struct place *)(void *)versions->places.data;
    bool is_noted = place < versions->places.len / sizeof(*places) &&
                    places[place].step == versions->step;
    return is_noted ? &places[place] : NULL;
}

void coxi_versions_begin(struct coxi_versions *versions)
{
    versions->step++;
}

void coxi_versions_fini(struct coxi_versions *versions)
{
    coxi_buffer_fini(&versions->places);
}

size_t coxi_versions_places(const struct coxi_variable *variable, uint32_t n_ps)
{
    if (!coxi_variable_is_trained(variable)) {
        return 0;
    }
    return variable->kind == COXI_KIND_TABLE ? n_ps : variable->n_shards;
}

int coxi_versions_reserve(struct coxi_versions *versions, size_t place)
{
    size_t bytes = (place + 1) * sizeof(struct place);
    return bytes <= versions->places.len
               ? 0
               : coxi_buffer_append(&versions->places, NULL,
                                    bytes - versions->places.len);
}

void coxi_versions_note(struct coxi_versions *versions, size_t place, uint64_t version)
{
    struct place *noted = find(versions, place);
    struct place *places = (struct place *)(void *)versions->places.data;
    places[place] = (struct place){versions->step, version,
                                   noted != NULL ? noted->oldest : version};
}

uint64_t coxi_versions_get(const struct coxi_versions *versions, size_t place)
{
    const struct place *noted = find(versions, place);
    return noted != NULL ? noted->version : 0;
}

void coxi_versions_renew(struct coxi_versions *versions, size_t place)
{
    struct place *noted = find(versions, place);
    if (noted != NULL) {
        noted->oldest = noted->version;
    }
}

uint64_t coxi_versions_oldest(const struct coxi_versions *versions, size_t place)
{
    const struct place *noted = find(versions, place);
    return noted != NULL ? noted->oldest : 0;
}

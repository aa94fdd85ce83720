/* See chain.h. Cost: every manifest of the chain is read. */
#include "checkpoint/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"

/* The directory that contains the checkpoint at `path`. */
static int directory_of(const char *path, char ret[PATH_MAX])
{
    int r = coxi_place_real(path, ret);
    if (r == 0) {
        *strrchr(ret, '/') = '\0';
    }
    return r;
}

static int add_link(struct coxi_chain *chain, const char *path)
{
    if (chain->n == COXI_CHAIN_MAX) {
        return coxi_error(COX_EFORMAT, "more than %d checkpoints build on each other",
                          COXI_CHAIN_MAX);
    }
    struct coxi_link_of_chain *links =
        realloc(chain->links, (chain->n + 1) * sizeof(*links));
    if (links == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    chain->links = links;
    struct coxi_link_of_chain *link = &links[chain->n];
    int r = coxi_path(link->path, "%s", path);
    if (r == 0) {
        r = coxi_manifest_read(path, &link->manifest);
    }
    chain->n += r == 0 ? 1 : 0;
    return r;
}

/* Adds the checkpoint on which the last link builds. */
static int add_base(struct coxi_chain *chain, const char *dir)
{
    char path[PATH_MAX];
    const struct coxi_manifest *newer = chain->links[chain->n - 1].manifest;
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, newer->base);
    if (r == 0) {
        r = add_link(chain, path);
    }
    if (r != 0) {
        return coxi_error(r, "ckpt-%" PRIu64 " builds on ckpt-%" PRIu64 ": %.900s",
                          newer->number, newer->base, coxi_error_text());
    }
    const struct coxi_manifest *m = chain->links[chain->n - 1].manifest;
    newer = chain->links[chain->n - 2].manifest;
    if (m->session.run != newer->session.run || m->number != newer->base ||
        m->n_shards != newer->n_shards) {
        return coxi_error(COX_EFORMAT,
                          "%s/manifest.json is of another run, number or number of ps "
                          "than the checkpoint that builds on it",
                          path);
    }
    return 0;
}

int coxi_chain_read(const char *path, struct coxi_chain *ret)
{
    char dir[PATH_MAX];
    struct coxi_chain chain = {0};
    int r = add_link(&chain, path);
    if (r == 0 && chain.links[0].manifest->base != 0) {
        r = directory_of(path, dir);
    }
    while (r == 0 && chain.links[chain.n - 1].manifest->base != 0) {
        r = add_base(&chain, dir);
    }
    if (r != 0) {
        coxi_chain_fini(&chain);
        return r;
    }
    *ret = chain;
    return 0;
}

void coxi_chain_fini(struct coxi_chain *chain)
{
    for (size_t i = 0; i < chain->n; i++) {
        coxi_manifest_free(chain->links[i].manifest);
    }
    free(chain->links);
    *chain = (struct coxi_chain){0};
}

size_t coxi_chain_length(const struct coxi_chain *chain, uint32_t ps)
{
    size_t n = 1;
    while (n < chain->n && chain->links[n - 1].manifest->shards[ps].base != 0) {
        n++;
    }
    return n;
}

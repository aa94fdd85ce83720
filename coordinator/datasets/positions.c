/* See positions.h. A hand-out's `prev` and `next` are its left and right subtree. The
 * functions that change the tree go down one path, and set the earliest times on their
 * way back. */
#include "coordinator/datasets/positions.h"

#include "common/hash.h"

static uint64_t earliest_of(const struct coxi_handout *tree)
{
    return tree != NULL ? tree->waiting.earliest_ms : COXI_NEVER_DUE;
}

/* Sets the earliest time of a subtree, if its tasks wait. */
static struct coxi_handout *refresh(struct coxi_handout *tree)
{
    if (tree->waits) {
        uint64_t earliest = tree->waiting.due_ms;
        uint64_t left = earliest_of(tree->prev);
        uint64_t right = earliest_of(tree->next);
        earliest = left < earliest ? left : earliest;
        tree->waiting.earliest_ms = right < earliest ? right : earliest;
    }
    return tree;
}

/* The hash is a bijection, so no two priorities are equal. */
static bool is_above(const struct coxi_handout *a, const struct coxi_handout *b)
{
    return coxi_hash_key(a->position) > coxi_hash_key(b->position);
}

static void split(struct coxi_handout *tree, uint64_t position,
                  struct coxi_handout **ret_below, struct coxi_handout **ret_above)
{
    if (tree == NULL) {
        *ret_below = *ret_above = NULL;
    } else if (tree->position < position) {
        split(tree->next, position, &tree->next, ret_above);
        *ret_below = refresh(tree);
    } else {
        split(tree->prev, position, ret_below, &tree->prev);
        *ret_above = refresh(tree);
    }
}

/* All positions of `below` are lower than those of `above`. */
static struct coxi_handout *join(struct coxi_handout *below, struct coxi_handout *above)
{
    if (below == NULL || above == NULL) {
        return below != NULL ? below : above;
    }
    if (is_above(below, above)) {
        below->next = join(below->next, above);
        return refresh(below);
    }
    above->prev = join(below, above->prev);
    return refresh(above);
}

static struct coxi_handout *put(struct coxi_handout *tree, struct coxi_handout *handout)
{
    if (tree == NULL || is_above(handout, tree)) {
        split(tree, handout->position, &handout->prev, &handout->next);
        return refresh(handout);
    }
    if (handout->position < tree->position) {
        tree->prev = put(tree->prev, handout);
    } else {
        tree->next = put(tree->next, handout);
    }
    return refresh(tree);
}

static struct coxi_handout *drop(struct coxi_handout *tree, uint64_t position)
{
    if (tree->position == position) {
        return join(tree->prev, tree->next);
    }
    if (position < tree->position) {
        tree->prev = drop(tree->prev, position);
    } else {
        tree->next = drop(tree->next, position);
    }
    return refresh(tree);
}

void coxi_positions_put(struct coxi_positions *positions, struct coxi_handout *handout)
{
    positions->root = put(positions->root, handout);
    positions->n++;
}

void coxi_positions_drop(struct coxi_positions *positions, struct coxi_handout *handout)
{
    positions->root = drop(positions->root, handout->position);
    handout->prev = handout->next = NULL;
    positions->n--;
}

struct coxi_handout *coxi_positions_from(const struct coxi_positions *positions,
                                         uint64_t position)
{
    struct coxi_handout *found = NULL;
    for (struct coxi_handout *at = positions->root; at != NULL;) {
        if (at->position < position) {
            at = at->next;
        } else {
            found = at;
            at = at->prev;
        }
    }
    return found;
}

struct coxi_handout *coxi_positions_first_due(const struct coxi_positions *positions,
                                              uint64_t now_ms)
{
    struct coxi_handout *at =
        earliest_of(positions->root) <= now_ms ? positions->root : NULL;
    while (at != NULL) {
        if (earliest_of(at->prev) <= now_ms) {
            at = at->prev;
        } else if (at->waiting.due_ms <= now_ms) {
            return at;
        } else {
            at = at->next;
        }
    }
    return NULL;
}

uint64_t coxi_positions_next_due(const struct coxi_positions *positions, uint64_t limit)
{
    uint64_t next = COXI_NEVER_DUE;
    for (const struct coxi_handout *at = positions->root; at != NULL;) {
        if (at->position >= limit) {
            at = at->prev;
            continue;
        }
        uint64_t below = earliest_of(at->prev);
        next = below < next ? below : next;
        next = at->waiting.due_ms < next ? at->waiting.due_ms : next;
        at = at->next;
    }
    return next;
}

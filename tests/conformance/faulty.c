/* See faulty.h. */
#include "tests/conformance/faulty.h"

#include <stdio.h>
#include <unistd.h>

#include "cluster/local.h"
#include "tests/test.h"

enum { PEER_TIMEOUT_MS = 2000, EARLIEST = 100, SPREAD = 1500 };

static const struct kind {
    const char *name;
    enum relay_fault fault;
    int n_faults; /* of each relay */
    bool ps_only;
} kinds[] = {
    {"late", RELAY_DELAY, 3, false},          {"bytewise", RELAY_BYTEWISE, 100, false},
    {"cut_ps", RELAY_CUT, 3, true},           {"cut", RELAY_CUT, 2, false},
    {"half_open", RELAY_HALF_OPEN, 1, false},
};

static struct faulty *opening; /* by the scene whose local cluster is started */

/* NULL: no faults. */
static const struct kind *kind_wanted(void)
{
    const char *name = getenv("COX_TEST_FAULTS");
    if (name == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    fail_msg("COX_TEST_FAULTS: there are no faults '%s'", name);
    return NULL;
}

void faulty_begin(struct faulty *faulty, struct cox_options *options)
{
    const struct kind *kind = kind_wanted();
    opening = faulty;
    if (kind == NULL) {
        return;
    }
    assert_int_equal(0, setenv("COX_PS_LOCAL_PATH", "off", 1));
    assert_int_equal(0, setenv("COX_WORKER_LOCAL_PATH", "off", 1));
    if (kind->fault == RELAY_HALF_OPEN) {
        options->peer_timeout_ms = PEER_TIMEOUT_MS;
        assert_int_equal(0, setenv("COX_PS_PEER_TIMEOUT_MS", "2000", 1));
        assert_int_equal(0, setenv("COX_WORKER_PEER_TIMEOUT_MS", "2000", 1));
    }
}

const char *faulty_link(struct faulty *faulty, enum faulty_end end, const char *url)
{
    const struct kind *kind = kind_wanted();
    if (kind == NULL || (kind->ps_only && end != FAULTY_PS)) {
        return url;
    }
    const struct relay_plan plan = {.fault = kind->fault,
                                    .seed = 1 + (uint64_t)faulty->n,
                                    .n_faults = kind->n_faults,
                                    .earliest = EARLIEST,
                                    .spread = SPREAD};
    assert_true(faulty->n < FAULTY_LINKS_MAX);
    struct relay *relay = relay_open(url, &plan);
    faulty->relays[faulty->n++] = relay;
    return relay_url(relay);
}

bool faulty_rest(struct faulty *faulty, bool rest)
{
    for (int i = 0; i < faulty->n; i++) {
        relay_rest(faulty->relays[i], rest);
    }
    return faulty->n > 0;
}

void faulty_end(struct faulty *faulty)
{
    int n_happened = 0;
    for (int i = 0; i < faulty->n; i++) {
        n_happened += relay_n_happened(faulty->relays[i]);
        relay_close(faulty->relays[i]);
    }
    print_message("%d faults\n", n_happened);
    assert_int_equal(kind_wanted() != NULL, n_happened > 0);
}

/* ---- the relays of a local cluster */

static bool is_there(void *path)
{
    return access(path, F_OK) == 0;
}

/* Puts a relay before each of the addresses. */
static void link_all(char **urls, uint32_t n, enum faulty_end end)
{
    for (uint32_t i = 0; i < n; i++) {
        coxi_test_until(is_there, urls[i] + strlen("ipc://"), "a daemon's socket");
        char *dialled = strdup(faulty_link(opening, end, urls[i]));
        assert_non_null(dialled);
        free(urls[i]);
        urls[i] = dialled;
    }
}

/* The linker calls these two for coxi_local_start. */
int __real_coxi_local_start(const struct cox_cluster *cluster,
                            const struct cox_options *options, struct coxi_key *key,
                            struct coxi_local **ret, struct cox_cluster **ret_cluster);
int __wrap_coxi_local_start(const struct cox_cluster *cluster,
                            const struct cox_options *options, struct coxi_key *key,
                            struct coxi_local **ret, struct cox_cluster **ret_cluster);

int __wrap_coxi_local_start(const struct cox_cluster *cluster,
                            const struct cox_options *options, struct coxi_key *key,
                            struct coxi_local **ret, struct cox_cluster **ret_cluster)
{
    int r = __real_coxi_local_start(cluster, options, key, ret, ret_cluster);
    if (r == 0 && opening != NULL && kind_wanted() != NULL) {
        link_all((*ret_cluster)->ps, cluster->n_ps, FAULTY_PS);
        link_all((*ret_cluster)->workers, cluster->n_workers, FAULTY_WORKER);
        opening = NULL;
    }
    return r;
}

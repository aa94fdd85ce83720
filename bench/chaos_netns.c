/*
 * Daemons in network namespaces: see chaos_net.h. Each daemon, and the client, has a
 * namespace with a cable to one more, which routes between them. A rule there drops the
 * packets from one party to another. Nobody is told: connections stay, and addresses do
 * not answer.
 *
 * A daemon that ends is started again. ip(8) makes the namespaces; they are removed at
 * the end.
 *
 * Threads: one that starts daemons again and heals; the storm's cuts.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/chaos_net.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "net/daemon.h"

enum {
    NODES_MAX = 1 + CHAOS_PS_MAX + 64,
    TURN_MS = 20, /* how late a daemon is restarted, or a cut healed */
    END_MS = 2000,
    PORT = 7000,
    JSON_MAX = 8192,
};

/* A party that has a namespace. The client is the first. */
struct node {
    char name[64]; /* of the namespace */
    char address[32];
    const char *role; /* "ps", "worker"; NULL: the client */
    uint32_t index;
    pid_t pid; /* 0: it is not running */
    int fd;    /* pidfd of the process */
};

struct cut {
    uint64_t until_ms; /* 0: there is no cut */
    enum chaos_cut kind;
    uint32_t index;
    uint32_t only; /* only this worker, 1 + its index; 0: all */
};

struct netns {
    struct chaos_net net; /* must be the first member */
    struct chaos_netns_options options;
    char router[32];
    struct node nodes[NODES_MAX];
    size_t n_nodes;
    pthread_t thread;
    bool runs;

    struct coxi_mutex lock; /* guards the rest; leaf */
    struct cut cuts[CHAOS_CUT_KINDS];
    bool end;
};

/* ---- ip(8) */

static int run(char *const argv[])
{
    pid_t pid;
    int status = 0;
    errno = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (errno != 0) {
        return coxi_error_errno(COX_EIO, "cannot start %s", argv[0]);
    }
    return waitpid(pid, &status, 0) == pid && status == 0
               ? 0
               : coxi_error(COX_EIO,
                            "%s %s %s ... failed: network namespaces need root",
                            argv[0], argv[1], argv[2]);
}

/* Runs a line in the shell; all names and addresses in it are our own. */
__attribute__((format(printf, 1, 2))) static int shell(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    return run((char *[]){(char[]){"sh"}, (char[]){"-c"}, line, NULL});
}

static int add_node(struct netns *ns, const char *role, uint32_t index)
{
    size_t k = ns->n_nodes++;
    struct node *node = &ns->nodes[k];
    *node = (struct node){.role = role, .index = index};
    (void)snprintf(node->name, sizeof(node->name), "%s-%zu", ns->router, k);
    (void)snprintf(node->address, sizeof(node->address), "10.77.%zu.2", k);
    return shell(
        "set -e; ip netns add %s; ip link add n%zu netns %s type veth peer name "
        "eth0 netns %s; ip -n %s addr add 10.77.%zu.2/30 dev eth0; ip -n %s link "
        "set eth0 up; ip -n %s link set lo up; ip -n %s addr add 10.77.%zu.1/30 "
        "dev n%zu; ip -n %s link set n%zu up; ip -n %s route add default via "
        "10.77.%zu.1",
        node->name, k, ns->router, node->name, node->name, k, node->name, node->name,
        ns->router, k, k, ns->router, k, node->name, k);
}

static int add_all(struct netns *ns)
{
    int r = shell("set -e; ip netns add %s; ip netns exec %s sh -c 'echo 1 "
                  ">/proc/sys/net/ipv4/ip_forward'",
                  ns->router, ns->router);
    r = r != 0 ? r : add_node(ns, NULL, 0);
    for (uint32_t i = 0; r == 0 && i < ns->options.n_ps; i++) {
        r = add_node(ns, "ps", i);
    }
    for (uint32_t i = 0; r == 0 && i < ns->options.n_workers; i++) {
        r = add_node(ns, "worker", i);
    }
    return r;
}

static struct node *find(struct netns *ns, const char *role, uint32_t index)
{
    size_t at = 1 + index;
    return &ns->nodes[strcmp(role, "ps") == 0 ? at : at + ns->options.n_ps];
}

/* ---- daemons */

static void start(struct netns *ns, struct node *node)
{
    char text[8][PATH_MAX];
    char log[PATH_MAX];
    char *argv[16] = {(char[]){"ip"}, (char[]){"netns"}, (char[]){"exec"}, node->name};
    posix_spawn_file_actions_t files;
    int n = 0;
    (void)coxi_path(text[n++], "%s/coxswain-%s", ns->options.bin_dir, node->role);
    (void)coxi_path(text[n++], "--listen=tcp://%s:%d", node->address, (int)PORT);
    (void)coxi_path(text[n++], "--index=%u", node->index);
    (void)coxi_path(text[n++], "--parent=%d", (int)getpid());
    (void)coxi_path(text[n++], "--peer-timeout-ms=%d", ns->options.peer_timeout_ms);
    if (strcmp(node->role, "worker") == 0) {
        (void)coxi_path(text[n++], "--slots=%u", ns->options.slots);
        (void)coxi_path(text[n++], "--dir=%s/modules-%u", ns->options.log_dir,
                        node->index);
    }
    (void)coxi_path(text[n++], "--insecure");
    for (int i = 0; i < n; i++) {
        argv[4 + i] = text[i];
    }
    (void)coxi_path(log, "%s/%s-%u.log", ns->options.log_dir, node->role, node->index);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log,
                                           O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    if (posix_spawnp(&node->pid, argv[0], &files, NULL, argv, environ) != 0) {
        node->pid = 0; /* the next turn tries again */
    }
    (void)posix_spawn_file_actions_destroy(&files);
    node->fd = node->pid != 0 ? pidfd_open(node->pid, 0) : -1;
}

/* True once the daemon has ended, and was waited for; waits for that at most
 * `within_ms`. */
static bool has_ended(struct node *node, int within_ms)
{
    struct pollfd ended = {.fd = node->fd, .events = POLLIN};
    if (node->pid != 0 && poll(&ended, 1, within_ms) > 0) {
        (void)waitpid(node->pid, NULL, 0);
        (void)close(node->fd);
        node->pid = 0;
    }
    return node->pid == 0;
}

static void start_again(struct netns *ns)
{
    for (size_t i = 1; i < ns->n_nodes; i++) {
        if (has_ended(&ns->nodes[i], 0)) {
            start(ns, &ns->nodes[i]);
        }
    }
}

static void end_all(struct netns *ns)
{
    uint64_t end_ms = coxi_now_ms() + END_MS;
    for (size_t i = 1; i < ns->n_nodes; i++) {
        if (ns->nodes[i].pid != 0) {
            (void)kill(ns->nodes[i].pid, SIGTERM);
        }
    }
    for (size_t i = 1; i < ns->n_nodes; i++) {
        uint64_t now_ms = coxi_now_ms();
        if (!has_ended(&ns->nodes[i], now_ms < end_ms ? (int)(end_ms - now_ms) : 0)) {
            (void)kill(ns->nodes[i].pid, SIGKILL);
            (void)has_ended(&ns->nodes[i], END_MS);
        }
    }
}

/* ---- cuts */

static void rule(const struct netns *ns, const char *what, const struct node *a,
                 const struct node *b)
{
    (void)shell(
        "ip -n %s rule %s from %s to %s blackhole; ip -n %s rule %s from %s to %s "
        "blackhole",
        ns->router, what, a->address, b->address, ns->router, what, b->address,
        a->address);
}

/* `what`: "add" or "del". */
static void rules(struct netns *ns, const char *what, const struct cut *cut)
{
    switch (cut->kind) {
    case CHAOS_CUT_CLIENT_PS:
        rule(ns, what, &ns->nodes[0], find(ns, "ps", cut->index));
        return;
    case CHAOS_CUT_WORKER:
        rule(ns, what, &ns->nodes[0], find(ns, "worker", cut->index));
        return;
    case CHAOS_CUT_WORKER_PS:
    case CHAOS_CUT_KINDS:
        break;
    }
    for (uint32_t i = 0; i < ns->options.n_workers; i++) {
        if (cut->only == 0 || cut->only == 1 + i) {
            rule(ns, what, find(ns, "worker", i), find(ns, "ps", cut->index));
        }
    }
}

/* Heals the cuts whose time is over. Locked. */
static void heal(struct netns *ns, uint64_t now_ms)
{
    for (int i = 0; i < CHAOS_CUT_KINDS; i++) {
        struct cut *cut = &ns->cuts[i];
        if (cut->until_ms != 0 && now_ms >= cut->until_ms) {
            rules(ns, "del", cut);
            cut->until_ms = 0;
        }
    }
}

static void netns_heal(struct chaos_net *net)
{
    struct netns *ns = (struct netns *)net;
    coxi_lock(&ns->lock);
    heal(ns, UINT64_MAX);
    coxi_unlock(&ns->lock);
}

static bool netns_cut(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                      uint64_t draw, uint64_t while_ms)
{
    struct netns *ns = (struct netns *)net;
    bool one = kind == CHAOS_CUT_WORKER_PS && draw % 2 == 0;
    coxi_lock(&ns->lock);
    struct cut *cut = &ns->cuts[kind];
    if (cut->until_ms != 0) {
        rules(ns, "del", cut);
    }
    *cut = (struct cut){.until_ms = coxi_now_ms() + while_ms,
                        .kind = kind,
                        .index = index,
                        .only =
                            one ? 1 + (uint32_t)(draw / 2 % ns->options.n_workers) : 0};
    rules(ns, "add", cut);
    coxi_unlock(&ns->lock);
    return true;
}

/* ---- life */

static void *look_after(void *arg)
{
    struct netns *ns = arg;
    bool end = false;
    while (!end) {
        start_again(ns);
        (void)poll(NULL, 0, TURN_MS);
        coxi_lock(&ns->lock);
        heal(ns, coxi_now_ms());
        end = ns->end;
        coxi_unlock(&ns->lock);
    }
    return NULL;
}

static size_t list(const struct netns *ns, const char *role, char *at, size_t room)
{
    size_t len = 0;
    for (size_t i = 1; i < ns->n_nodes; i++) {
        const struct node *node = &ns->nodes[i];
        if (strcmp(node->role, role) == 0) {
            len += (size_t)snprintf(at + len, room - len, "%s\"%s:%d\"",
                                    len > 0 ? ", " : "", node->address, (int)PORT);
        }
    }
    return len;
}

static int describe(const struct netns *ns, struct cox_cluster **ret)
{
    char json[JSON_MAX];
    size_t len = (size_t)snprintf(json, sizeof(json), "{\"ps\": [");
    len += list(ns, "ps", json + len, sizeof(json) - len);
    len += (size_t)snprintf(json + len, sizeof(json) - len, "], \"worker\": [");
    len += list(ns, "worker", json + len, sizeof(json) - len);
    (void)snprintf(json + len, sizeof(json) - len, "]}");
    return cox_cluster_parse(json, ret);
}

static void netns_stop(struct chaos_net *net)
{
    struct netns *ns = (struct netns *)net;
    coxi_lock(&ns->lock);
    ns->end = true;
    coxi_unlock(&ns->lock);
    if (ns->runs) {
        (void)pthread_join(ns->thread, NULL);
    }
    end_all(ns);
    for (size_t i = 0; i < ns->n_nodes; i++) {
        (void)shell("ip netns del %s", ns->nodes[i].name);
    }
    (void)shell("ip netns del %s", ns->router);
    coxi_mutex_fini(&ns->lock);
    free(ns);
}

int chaos_netns_start(const struct chaos_netns_options *options,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster)
{
    static const struct chaos_net_way way = {netns_cut, netns_heal, netns_stop};
    struct netns *ns = calloc(1, sizeof(*ns));
    if (ns == NULL) {
        return coxi_error_memory("network namespaces");
    }
    coxi_mutex_init(&ns->lock);
    ns->net = (struct chaos_net){&way, journal};
    ns->options = *options;
    (void)snprintf(ns->router, sizeof(ns->router), "cox-%d", (int)getpid());
    int r = coxi_directory_make(options->log_dir);
    r = r != 0 ? r : add_all(ns);
    r = r != 0 ? r : describe(ns, ret_cluster);
    r = r != 0 ? r : coxi_thread_start(&ns->thread, "chaos:netns", look_after, ns);
    ns->runs = r == 0;
    if (r != 0) {
        netns_stop(&ns->net);
        return r;
    }
    *ret = &ns->net;
    return 0;
}

const char *chaos_netns_client(const struct chaos_net *net)
{
    return ((const struct netns *)net)->nodes[0].name;
}

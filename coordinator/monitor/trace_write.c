/* See trace_write.h. Viewers join the entries of an arrow by `id`, and tie each end to the
 * span of that thread that is open at its time. */
#include "coordinator/monitor/trace_write.h"

#include <stdio.h>

#include "common/json_text.h"
#include "common/sync.h"
#include "coordinator/workers/module.h"

struct named {
    uint32_t process;
    uint64_t thread; /* 0: the process itself */
};

/* True if it had no name before; notes that it has one now. COX_ENOMEM. */
static int is_new(struct coxi_trace_writer *writer, uint32_t process, uint64_t thread,
                  bool *ret)
{
    const struct named new = {process, thread};
    const struct named *all = (const struct named *)(void *)writer->named.data;
    *ret = false;
    for (size_t i = 0; i < writer->named.len / sizeof(*all); i++) {
        if (all[i].process == process && all[i].thread == thread) {
            return 0;
        }
    }
    *ret = true;
    return coxi_buffer_append_raw(&writer->named, &new, sizeof(new));
}

/* Begins an entry. */
static int begin(struct coxi_trace_writer *writer)
{
    return coxi_buffer_printf(&writer->out, "%s",
                              writer->n_entries++ == 0 ? "[\n" : ",\n");
}

static int write_name(struct coxi_trace_writer *writer, const char *what,
                      uint32_t process, uint64_t thread, const char *name)
{
    int r = begin(writer);
    r = r == 0 ? coxi_buffer_printf(
                     &writer->out,
                     "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%llu,"
                     "\"args\":{\"name\":",
                     what, process, (unsigned long long)thread)
               : r;
    r = r == 0 ? coxi_json_text(&writer->out, name) : r;
    return r == 0 ? coxi_buffer_append_raw(&writer->out, "}}", 2) : r;
}

int coxi_trace_write_process(struct coxi_trace_writer *writer, uint32_t process)
{
    char name[32] = "client";
    bool new;
    int r = is_new(writer, process, 0, &new);
    if (process >= COXI_TRACE_WORKER) {
        (void)snprintf(name, sizeof(name), "worker %u", process - COXI_TRACE_WORKER);
    } else if (process >= COXI_TRACE_PS) {
        (void)snprintf(name, sizeof(name), "ps %u", process - COXI_TRACE_PS);
    }
    return r == 0 && new ? write_name(writer, "process_name", process, 0, name) : r;
}

int coxi_trace_write_thread(struct coxi_trace_writer *writer, uint32_t process,
                            const struct coxi_trace_thread *thread)
{
    char name[sizeof(thread->name) + 1];
    bool new;
    int r = is_new(writer, process, thread->id, &new);
    (void)snprintf(name, sizeof(name), "%.*s", (int)sizeof(thread->name), thread->name);
    return r == 0 && new ? write_name(writer, "thread_name", process, thread->id, name)
                         : r;
}

/* Appends the name of a step's function as a JSON string. */
static int write_function(struct coxi_trace_writer *writer, uint32_t arg)
{
    const char *name = "step";
    coxi_lock(&writer->c->lock);
    const struct coxi_modules *modules = writer->c->modules;
    if (arg >> 16 < modules->n) {
        const struct cox_module *module = modules->all[arg >> 16];
        uint32_t function = arg & UINT16_MAX;
        name =
            function < module->info.n_steps ? module->functions[function].name : name;
    }
    coxi_unlock(&writer->c->lock);
    return coxi_json_text(&writer->out, name);
}

/* The names of spans, and what their `arg` is called; NULL: nothing. */
static const struct {
    const char *name;
    const char *arg;
    char arrow; /* 's': an arrow begins there; 'f': one ends; 0: none */
} kinds[COXI_TRACE_KINDS] = {
    [COXI_TRACE_TURN] = {"turn", NULL, 0},
    [COXI_TRACE_DISPATCH] = {"dispatch", "closures", 0},
    [COXI_TRACE_REPORTS] = {"reports", "closures", 0},
    [COXI_TRACE_STEP] = {"step", NULL, 0},
    [COXI_TRACE_DATA] = {"read records", NULL, 0},
    [COXI_TRACE_PULL_ASK] = {"ask for values", "ps", 's'},
    [COXI_TRACE_PULL_WAIT] = {"wait for values", NULL, 0},
    [COXI_TRACE_COMMIT_ASK] = {"send commit", "ps", 's'},
    [COXI_TRACE_FLUSH] = {"wait for flush", NULL, 0},
    [COXI_TRACE_PLACE] = {"wait for commits", NULL, 0},
    [COXI_TRACE_PULL] = {"pull", NULL, 'f'},
    [COXI_TRACE_COMMIT] = {"commit", NULL, 'f'},
    [COXI_TRACE_REQUEST] = {"request", "kind", 0},
};

/* Writes "key":microseconds with three decimals. */
static int write_us(struct coxi_trace_writer *writer, const char *key, uint64_t ns)
{
    return coxi_buffer_printf(&writer->out, ",\"%s\":%llu.%03llu", key,
                              (unsigned long long)(ns / 1000),
                              (unsigned long long)(ns % 1000));
}

static int write_args(struct coxi_trace_writer *writer,
                      const struct coxi_trace_span *span)
{
    const char *arg = kinds[span->kind].arg;
    int r = coxi_buffer_printf(&writer->out, ",\"args\":{");
    if (r == 0 && span->closure != 0) {
        r = coxi_buffer_printf(&writer->out, "\"closure\":%llu%s",
                               (unsigned long long)span->closure,
                               arg != NULL ? "," : "");
    }
    if (r == 0 && arg != NULL) {
        r = coxi_buffer_printf(&writer->out, "\"%s\":%u", arg, span->arg);
    }
    return r == 0 ? coxi_buffer_append_raw(&writer->out, "}}", 2) : r;
}

static int write_arrow(struct coxi_trace_writer *writer, uint32_t process,
                       uint64_t begin_ns, const struct coxi_trace_span *span)
{
    char arrow = kinds[span->kind].arrow;
    int r = begin(writer);
    r = r == 0
            ? coxi_buffer_printf(
                  &writer->out,
                  "{\"ph\":\"%c\",%s\"id\":\"%llx\",\"name\":\"%s\",\"cat\":\"arrow\","
                  "\"pid\":%u,\"tid\":%llu",
                  arrow, arrow == 'f' ? "\"bp\":\"e\"," : "",
                  (unsigned long long)span->flow,
                  span->kind == COXI_TRACE_PULL_ASK || span->kind == COXI_TRACE_PULL
                      ? "pull"
                      : "commit",
                  process, (unsigned long long)span->thread)
            : r;
    r = r == 0 ? write_us(writer, "ts", begin_ns) : r;
    return r == 0 ? coxi_buffer_append_raw(&writer->out, "}", 1) : r;
}

int coxi_trace_write_span(struct coxi_trace_writer *writer, uint32_t process,
                          int64_t ahead_us, const struct coxi_trace_span *span)
{
    uint64_t before = writer->base_ns + (uint64_t)(ahead_us * 1000);
    uint64_t begin_ns = span->begin_ns > before ? span->begin_ns - before : 0;
    if (span->kind == 0 || span->kind >= COXI_TRACE_KINDS) {
        return 0; /* of a daemon with another build */
    }
    int r = begin(writer);
    r = r == 0 ? coxi_buffer_printf(&writer->out,
                                    "{\"ph\":\"X\",\"pid\":%u,\"tid\":%llu,\"name\":",
                                    process, (unsigned long long)span->thread)
               : r;
    if (r == 0 && span->kind == COXI_TRACE_STEP) {
        r = write_function(writer, span->arg);
    } else if (r == 0) {
        r = coxi_json_text(&writer->out, kinds[span->kind].name);
    }
    r = r == 0 ? write_us(writer, "ts", begin_ns) : r;
    r = r == 0 ? write_us(writer, "dur", span->ns) : r;
    r = r == 0 ? write_args(writer, span) : r;
    return r == 0 && span->flow != 0 && kinds[span->kind].arrow != 0
               ? write_arrow(writer, process, begin_ns, span)
               : r;
}

int coxi_trace_write_end(struct coxi_trace_writer *writer, uint64_t dropped)
{
    unsigned long long n = writer->n_entries;
    int r = begin(writer);
    return r == 0 ? coxi_buffer_printf(
                        &writer->out,
                        "{\"ph\":\"M\",\"name\":\"coxswain\",\"pid\":%d,"
                        "\"tid\":0,\"args\":{\"written\":%llu,\"lost\":%llu}}"
                        "\n]\n",
                        COXI_TRACE_CLIENT, n, (unsigned long long)dropped)
                  : r;
}

void coxi_trace_writer_fini(struct coxi_trace_writer *writer)
{
    coxi_buffer_fini(&writer->out);
    coxi_buffer_fini(&writer->named);
}

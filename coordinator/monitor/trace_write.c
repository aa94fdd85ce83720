/* See trace_write.h. Viewers join the entries of an arrow by `id`, and tie each end to the
 * span of that thread that is open at its time. */
#include "coordinator/monitor/trace_write.h"

#include <stdio.h>
#include <string.h>

#include "common/json_text.h"
#include "common/sync.h"
#include "coordinator/workers/module.h"
#include "schema/wire.h"

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
    return coxi_buffer_append_raw(&writer->out,
                                  writer->n_entries++ == 0 ? "[\n" : ",\n", 2);
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
    [COXI_TRACE_LONG] = {"request", "kind", 0},
    [COXI_TRACE_ROUND] = {"apply round", "closures", 0},
    [COXI_TRACE_ROUND_WAIT] = {"wait for round", NULL, 0},
    [COXI_TRACE_EVICT] = {"evict rows", "rows", 0},
    [COXI_TRACE_LOADER] = {"load rows", NULL, 0},
};

/* What a request is called in place of "request", by its kind; NULL: so. */
static const char *request_name(const struct coxi_trace_span *span)
{
    static const char *const names[] = {
        [COXI_CLAIM] = "claim",
        [COXI_RELEASE] = "release",
        [COXI_CREATE] = "create",
        [COXI_WATERMARK] = "watermark",
        [COXI_SNAPSHOT] = "snapshot",
        [COXI_COUNT] = "count",
        [COXI_VOID] = "void",
        [COXI_RESTORE] = "restore",
        [COXI_LOAD] = "load values",
        [COXI_DESCRIBE] = "describe",
        [COXI_PROBE] = "probe",
        [COXI_TRACE_ASK] = "trace",
        [COXI_EXCHANGE] = "carry shard",
    };
    bool is_request = span->kind == COXI_TRACE_REQUEST || span->kind == COXI_TRACE_LONG;
    return is_request && span->arg < sizeof(names) / sizeof(*names) ? names[span->arg]
                                                                    : NULL;
}

/* ---- spans: made by hand, because printf would take most of a trace's time */

enum { ENTRY_MAX = 512 }; /* bytes of a span or of an arrow's end, without a function */

static char *put(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len); /* NOLINT(bugprone-not-null-terminated-result) */
    return at + len;
}

static char *put_number(char *at, uint64_t number)
{
    return at + coxi_json_digits(number, at);
}

static char *put_hex(char *at, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[number >> shift & 15];
    }
    return at;
}

/* Puts microseconds with three decimals. */
static char *put_us(char *at, const char *key, uint64_t ns)
{
    unsigned rest = (unsigned)(ns % 1000);
    at = put_number(put(at, key), ns / 1000);
    *at++ = '.';
    *at++ = (char)('0' + rest / 100);
    *at++ = (char)('0' + rest / 10 % 10);
    *at++ = (char)('0' + rest % 10);
    return at;
}

static char *put_thread(char *at, uint32_t process, const struct coxi_trace_span *span)
{
    at = put_number(put(at, "\"pid\":"), process);
    return put_number(put(at, ",\"tid\":"), span->thread);
}

static char *put_args(char *at, const struct coxi_trace_span *span)
{
    const char *arg = kinds[span->kind].arg;
    at = put(at, ",\"args\":{");
    if (span->closure != 0) {
        at = put_number(put(at, "\"closure\":"), span->closure);
        at = put(at, arg != NULL ? "," : "");
    }
    if (arg != NULL) {
        at = put(put(put(at, "\""), arg), "\":");
        at = put_number(at, span->arg);
    }
    return put(at, "}}");
}

static char *put_arrow(char *at, uint32_t process, uint64_t begin_ns,
                       const struct coxi_trace_span *span)
{
    bool begins = kinds[span->kind].arrow == 's';
    bool pulls = span->kind == COXI_TRACE_PULL_ASK || span->kind == COXI_TRACE_PULL;
    at = put(at, begins ? ",\n{\"ph\":\"s\",\"id\":\"0x"
                        : ",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":\"0x");
    at = put_hex(at, span->flow); /* Perfetto takes texts for hexadecimal */
    at = put(at, pulls ? "\",\"name\":\"pull\",\"cat\":\"arrow\","
                       : "\",\"name\":\"commit\",\"cat\":\"arrow\",");
    at = put_us(put_thread(at, process, span), ",\"ts\":", begin_ns);
    return put(at, "}");
}

int coxi_trace_write_span(struct coxi_trace_writer *writer, uint32_t process,
                          int64_t ahead_us, const struct coxi_trace_span *span)
{
    char text[ENTRY_MAX];
    char *at = text;
    uint64_t before = writer->base_ns + (uint64_t)(ahead_us * 1000);
    uint64_t early_ns = span->begin_ns < before ? before - span->begin_ns : 0;
    uint64_t begin_ns = early_ns > 0 ? 0 : span->begin_ns - before;
    if (span->kind == 0 || span->kind >= COXI_TRACE_KINDS) {
        return 0; /* of a daemon with another build */
    }
    int r = begin(writer);
    at = put_thread(put(at, "{\"ph\":\"X\","), process, span);
    at = put(at, ",\"name\":");
    if (span->kind == COXI_TRACE_STEP) {
        r = r == 0 ? coxi_buffer_append_raw(&writer->out, text, (size_t)(at - text))
                   : r;
        r = r == 0 ? write_function(writer, span->arg) : r;
        at = text;
    } else {
        const char *name = request_name(span);
        at = put(put(at, "\""), name != NULL ? name : kinds[span->kind].name);
        at = put(at, "\"");
    }
    at = put_us(at, ",\"ts\":", begin_ns);
    at = put_us(at, ",\"dur\":", span->ns > early_ns ? span->ns - early_ns : 0);
    at = put_args(at, span);
    if (span->flow != 0 && kinds[span->kind].arrow != 0) {
        at = put_arrow(at, process, begin_ns, span);
        writer->n_entries++;
    }
    return r == 0 ? coxi_buffer_append_raw(&writer->out, text, (size_t)(at - text)) : r;
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

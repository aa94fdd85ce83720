/* See samples.h. Values are all different, so that no two fields can change places. */
#include "tests/schema/samples.h"

#include <string.h>

#include "tests/test.h"

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

#define SESSION {0x1111, 0x2222, 0x3333}

static const struct coxi_shard shards[] = {{0, 0, 500}, {1, 500, 500}};
static const struct coxi_interval applied[] = {{5, 9, 0, 1, 0, 3},
                                               {11, 11, 1, 0, 1, 2}};
static const struct coxi_pull_item items[] = {{1, 2, 3, 7}, {4, 5, 6, 8}};
static const uint64_t versions[] = {9, 0};
static const uint32_t touched[] = {0, 2, 7};
static const struct coxi_update updates[] = {{3, COXI_OP_GRADIENT, 16, 32},
                                             {4, COXI_OP_ADD, 0, 9},
                                             {5, COXI_OP_ASSIGN, 1, 1},
                                             {6, COXI_OP_MIN, 2, 3},
                                             {7, COXI_OP_MAX, COXI_ROWS_LISTED, 4},
                                             {8, COXI_OP_COMPENSATED, 3, 4}};
static const struct coxi_ps_address servers[] = {{"tcp://10.0.0.1:7000", 0xaaaa, false},
                                                 {"ipc:///run/cox/ps-1", 0xbbbb, true}};
static const struct coxi_closure_head heads[] = {{101, 1, 2, 3, 40, 5},
                                                 {102, 6, 7, 8, 90, 10}};
static const uint32_t numbers[] = {0, 1};
static const struct coxi_round_head rounds[] = {{0}, {103, 95, 7, 4, 1}};
static const float weights[] = {1, 0.25F};
static const uint32_t scalars[] = {0, 20};
static const struct coxi_kept_input kept_inputs[] = {{0, 2, 61, "x", "gradient"},
                                                     {1, 0, 62, "", ""}};
static const struct coxi_done_head done_heads[] = {{201, 1, 0, 0, 3, 16, 1234},
                                                   {202, 2, -17, -5, 0, 21, 5678}};
static const struct coxi_trace_span trace_spans[] = {{82, 83, 84, 85, 86, 87, 88}, {0}};
static const struct coxi_trace_thread trace_threads[] = {{86, "cox:slot 3"}};
static const struct coxi_step_times step_times[] = {
    {0x7777777777777777, 1, 2, 3, 4, 5, 6, 7, 8}, {0}};

#define SCHEDULE {4, 19.0f, 20.0f, 21.0f, 0x5555555555555555, 0x6666666666666666}

#define DENSE_VARIABLE                                                                 \
    {                                                                                  \
        .id = 8,                                                                       \
        .name = "dense/kernel",                                                        \
        .kind = COXI_KIND_DENSE,                                                       \
        .dtype = 2,                                                                    \
        .rank = 3,                                                                     \
        .shape = {1000, 20, 3},                                                        \
        .shards = shards,                                                              \
        .n_shards = LEN(shards),                                                       \
        .optimizer = {1, 2.0f, 4.0f, 8.0f, 9.0f, 10.0f, 11.0f, 12.0f, 13.0f, 14.0f,    \
                      15.0f, 16.0f, 17.0f, 18.0f, 22.0f, 23.0f, SCHEDULE},             \
        .initializer = {4, 16.0f, 32.0f, 0x4444444444444444},                          \
        .wire_dtype = 6,                                                               \
        .wire_rounding = 7,                                                            \
        .nonfinite = 1,                                                                \
        .staleness = {1, 25.0f, 24},                                                   \
        .metric = 2,                                                                   \
    }

static const struct coxi_variable variables[] = {
    {
        .id = 7,
        .name = "embedding",
        .kind = COXI_KIND_TABLE,
        .dtype = 1,
        .rank = 1,
        .shape = {64},
        .optimizer = {.kind = 2,
                      .learning_rate = 0.5f,
                      .epsilon = 0.25f,
                      .initial_accumulator = 0.125f},
        .initializer = {3, -1.5f, 1.5f, 99},
        .lifecycle = {5, 0.75f, 6, 7, 8, 9},
    },
    DENSE_VARIABLE,
};

static const struct coxi_voided_segment voided[] = {{0, 0, LEN(touched)}, {1, 1, 0}};
static const struct coxi_recall_head recalled[] = {{52, 1, 0}, {53, 2, 0}};
static const struct coxi_crashed_head crashed[] = {{50, 1, 11}, {51, 2, 0}};

static const struct coxi_message samples[] = {
    [COXI_HELLO] = {.hello = {COXI_WIRE_VERSION, COXI_ROLE_WORKER, COXI_CHANNEL_DATA, 3,
                              4, SESSION, 5, "", "1/2/3/4"}},
    [COXI_REFUSE] = {.refuse = {9, -14, "busy with another run"}},
    [COXI_STATUS] = {.status = {.code = -11,
                                .message = "exists already",
                                .incarnation = 0x8888888888888888}},
    [COXI_CLAIM] = {.claim = {SESSION, 57}},
    [COXI_RELEASE] = {.release = SESSION},
    [COXI_CREATE] = {.create = {SESSION, 41, DENSE_VARIABLE, 58}},
    [COXI_WATERMARK] = {.watermark = {SESSION, 42, 59}},
    [COXI_SNAPSHOT] = {.snapshot = {SESSION, 43, "/ckpt/ps-0", 42, true, 60, 111}},
    [COXI_SNAPSHOT_DONE] = {.snapshot_done = {-3, "disk full", 1 << 20, 0xdeadbeef, 4,
                                              applied, LEN(applied), touched,
                                              LEN(touched), 91, 92, 93}},
    [COXI_COUNT] = {.count = {{6}, COXI_STALE_WORKER, 14}},
    [COXI_COUNTS] = {.counts = {{1, 2, 3, 4, 5},
                                {6, 7, 8, 9, 10, 11, 12},
                                13,
                                {{14, 15, [COXI_STALE_BUCKETS - 1] = 16}, 17, 18, 19}}},
    [COXI_PULL] = {.pull = {SESSION, 44, items, LEN(items), true, 102, 103}},
    [COXI_PULLED] = {.status = {.code = -12,
                                .message = "no such thing",
                                .versions = versions,
                                .n_versions = LEN(versions)}},
    [COXI_COMMIT] = {.commit = {SESSION,
                                45,
                                46,
                                47,
                                48,
                                true,
                                touched,
                                LEN(touched),
                                updates,
                                LEN(updates),
                                77,
                                1024.5F,
                                49,
                                versions,
                                LEN(versions),
                                50,
                                {2, true, 1.5F, 44},
                                {0},
                                104}},
    [COXI_COMMITTED] = {.status = {.code = -21,
                                   .message = "another client",
                                   .duplicate = true,
                                   .ended = true}},
    [COXI_LAYOUT] = {.layout = {.session = SESSION,
                                .servers = servers,
                                .n_servers = LEN(servers),
                                .variables = variables,
                                .n_variables = LEN(variables),
                                .worker = {12}}},
    [COXI_MODULE] = {.module = {6,
                                "steps.so",
                                {{0x5555, 0x6666, 0x7777, 0x8888}},
                                {{1, [63] = 9}}}},
    [COXI_MODULE_LOADED] = {.status = {.code = -16, .message = "no steps", .id = 6}},
    [COXI_DISPATCH] = {.dispatch = {heads, LEN(heads), 5, numbers, LEN(numbers),
                                    kept_inputs, LEN(kept_inputs), NULL, 71, numbers, 1,
                                    78, rounds}},
    [COXI_RECALL] = {.recall = {recalled, LEN(recalled), true, true, 1000}},
    [COXI_DONE] = {.done = {done_heads, LEN(done_heads), numbers + 1, 1, 72, 73, 74,
                            weights, numbers, 1, step_times, 79, scalars}},
    [COXI_VOID] = {.void_ = {SESSION, 49, 3, 61}},
    [COXI_VOIDED] = {.voided = {-21, "fenced", voided, LEN(voided), touched,
                                LEN(touched)}},
    [COXI_CRASHED] = {.crashed = {crashed, LEN(crashed)}},
    [COXI_LEAVING] = {.request = 0},
    [COXI_WANT_DATA] = {.request = 0},
    [COXI_RESOURCE] = {.resource = {7, "lines", 1, 2, -3, "no such file", 9, 10, 68,
                                    0}},
    [COXI_RESOURCE_MADE] = {.status = {.code = -17, .message = "no file", .id = 7}},
    [COXI_REACH] = {.status = {.code = -19, .message = "no route", .id = 7}},
    [COXI_RESOURCE_DROP] = {.resource = {7, "", 0, 0, 0, "", 0, 0, 0, 69}},
    [COXI_RESTORE] = {.restore = {SESSION, 53, "/ckpt/ps-1", 54, 55, 56, applied,
                                  LEN(applied), touched, LEN(touched), 57, 62, true,
                                  112}},
    [COXI_RESULT_DROP] = {.recall = {.closures = recalled,
                                     .n_closures = LEN(recalled)}},
    [COXI_RESULT_WANT] = {.result = {63, 2, 0, ""}},
    [COXI_RESULT] = {.result = {64, 3, -12, "not kept"}},
    [COXI_LOAD] = {.load = {SESSION, 57, 58, 59, 60, 61, true, false, 62, true}},
    [COXI_DESCRIBE] = {.request = 0},
    [COXI_FILE_READ] = {.file_read = {"clicks", "/data/part-3", 65, 66, 67}},
    [COXI_TRACE_ASK] = {.trace_ask = {true}},
    [COXI_TRACE_TOLD] = {.trace_told = {-1, 80, 81, trace_spans, LEN(trace_spans),
                                        trace_threads, LEN(trace_threads)}},
    [COXI_FILE_BYTES] = {.file_bytes = {-3, "cannot read", 68, 69}},
    [COXI_MEMORY] = {.memory = {90}},
    [COXI_EXCHANGE] = {.exchange = {SESSION, 105, 106, true, 3, 108, -3, "disk full"}},
    [COXI_EXCHANGED] = {.exchanged = {-3, "too late", 109, 110, true}},
    [COXI_PROBE] = {.probe = {SESSION, "/data/ckpt/.probe-7", true}},
};

struct coxi_message sample(enum coxi_message_kind kind)
{
    struct coxi_message m = samples[kind];
    m.request = 0x0102030405060708;
    m.kind = kind;
    return m;
}

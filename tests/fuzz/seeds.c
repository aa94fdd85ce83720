/* Writes seeds for the fuzzers into $COX_FUZZ_SEEDS/<fuzzer>: messages of every kind,
 * files as ps and clients write them, texts as users do. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/backlog.h"
#include "checkpoint/manifest.h"
#include "common/file.h"
#include "coordinator/datasets/spec.h"
#include "data/index.h"
#include "data/task.h"
#include "net/key.h"
#include "schema/wire.h"
#include "tests/checkpoint/sample.h"
#include "tests/schema/samples.h"
#include "tests/test.h"

static void put(const char *fuzzer, const char *name, const void *bytes, size_t len)
{
    char path[PATH_MAX];
    const char *to = getenv("COX_FUZZ_SEEDS");
    if (to == NULL) {
        skip();
    }
    assert_code(0, coxi_path(path, "%s/%s", to, fuzzer));
    assert_code(0, coxi_directory_make(path));
    assert_code(0, coxi_path(path, "%s/%s/seed-%s", to, fuzzer, name));
    coxi_test_write(path, bytes, len);
}

TEST(seeds_of_messages)
{
    for (int kind = 1; kind <= SAMPLE_KINDS; kind++) {
        struct coxi_message message = sample((enum coxi_message_kind)kind);
        const void *bytes;
        size_t len;
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", kind);
        assert_true(coxi_message_encode(&message, &bytes, &len));
        put("wire", name, bytes, len);
    }
}

/* One file of a chain, as the fuzzer takes it: the length, if another file follows. */
static size_t add_file(uint8_t *to, const char *path, bool last)
{
    size_t len;
    char *bytes = coxi_test_read(path, &len);
    uint16_t short_len = (uint16_t)len;
    size_t head = last ? 0 : sizeof(short_len);
    assert_true(len <= UINT16_MAX);
    memcpy(to, &short_len, head);
    memcpy(to + head, bytes, len);
    free(bytes);
    return head + len;
}

TEST(seeds_of_checkpoints)
{
    static uint8_t chain[4 * 65536];
    const struct sample first = {.run = 0xfeed, .number = 1, .n_ps = 1, .n_rows = 12};
    const struct sample second = {.run = 0xfeed,
                                  .number = 2,
                                  .n_ps = 1,
                                  .n_rows = 9,
                                  .base = 1,
                                  .rows_from = 4,
                                  .n_removed = 3,
                                  .plus = 5};
    sample_write(coxi_test_dir(), &first);
    sample_write(coxi_test_dir(), &second);
    for (uint8_t rows = 0; rows < 3; rows++) {
        char name[16];
        size_t len = 2;
        chain[0] = 0;
        chain[1] = rows;
        len +=
            add_file(chain + len, coxi_test_path("ckpt-1/ps-0-of-1.safetensors"), true);
        (void)snprintf(name, sizeof(name), "one-%d", rows);
        put("safetensors", name, chain, len);
        chain[0] = 1;
        len = 2;
        len += add_file(chain + len, coxi_test_path("ckpt-1/ps-0-of-1.safetensors"),
                        false);
        len +=
            add_file(chain + len, coxi_test_path("ckpt-2/ps-0-of-1.safetensors"), true);
        (void)snprintf(name, sizeof(name), "chain-%d", rows);
        put("safetensors", name, chain, len);
    }
    size_t len = add_file(chain, coxi_test_path("ckpt-1/manifest.json"), true);
    put("manifest", "1", chain, len);
    len = add_file(chain, coxi_test_path("ckpt-2/manifest.json"), true);
    put("manifest", "2", chain, len);
}

static struct coxi_backlog_function functions[] = {{"m.so", "f"}, {"m.so", "g"}};

static void put_backlog(const char *name, const struct coxi_backlog *backlog)
{
    char *path = coxi_test_path(name);
    uint64_t bytes;
    uint32_t crc;
    size_t len;
    struct coxi_backlog_file *file;
    assert_code(0, coxi_backlog_write(path, backlog, &bytes, &crc));
    assert_code(0, coxi_backlog_open(path, bytes, crc, &file));
    coxi_backlog_close(file);
    char *text = coxi_test_read(path, &len);
    put("backlog", name, text, len);
    free(text);
}

TEST(seeds_of_backlogs)
{
    static const struct coxi_backlog_head heads[] = {
        {.closure = 3, .function = 0, .args_len = 8, .n_inputs = 0},
        {.closure = 5, .function = 1, .args_at = 8, .args_len = 4, .n_inputs = 1},
    };
    static struct coxi_backlog_input input = {.closure = 3, .name = "x", .result = "y"};
    static const uint8_t args[16] = {1, 2, 3};
    put_backlog("1",
                &(struct coxi_backlog){heads, 2, &input, 1, functions, 2, args, 16});
}

/* A closure whose results were kept, a round of two closures, of which one is not there
 * any more, and a write. */
TEST(seeds_of_backlogs_with_rounds)
{
    static const struct {
        struct coxi_backlog_round round;
        struct coxi_backlog_part parts[2];
        struct coxi_backlog_update update;
    } args = {{.first = 4,
               .n = 2,
               .needed = 1,
               .sequence = UINT64_C(1) << 32,
               .number = 7,
               .flags = COXI_BACKLOG_DECIDED},
              {{1, 0.5F}, {0, 0}},
              {.variable = 1, .count = 0}};
    const size_t round_len = sizeof(args.round) + sizeof(args.parts);
    const struct coxi_backlog_head heads[] = {
        {.closure = 3, .done = 3},
        {.closure = 5, .function = 1},
        {.closure = 6, .function = COXI_BACKLOG_ROUND, .args_len = round_len},
        {.closure = 7,
         .function = COXI_BACKLOG_UPDATE,
         .args_at = round_len,
         .args_len = sizeof(args.update)},
    };
    put_backlog("round", &(struct coxi_backlog){heads, 4, NULL, 0, functions, 2,
                                                (const uint8_t *)&args, sizeof(args)});
}

/* Files of records, as tests/fuzz/data.h takes them. */
TEST(seeds_of_records)
{
    static const char *const lines[] = {
        "1 7:0.5 3:-2.0 18446744073709551615:1e3 # a comment\n-1\n\n0.25\t0:1 \r\n",
        "1 0:7:0.5 4294967295:3:-2\n0 1:2:3\n",
    };
    static const uint8_t chunk[] = "\4\3\2\1\x83\x7e\x47\x59\0\0\0\0\x13\0\0\0\2\0\0\0"
                                   "\5\0\0\0Hello\6\0\0\0World!";
    uint8_t input[256] = {0};
    for (uint8_t i = 0; i < 2; i++) {
        input[0] = i;
        memcpy(input + 4, lines[i], strlen(lines[i]));
        put("data_libsvm", i == 0 ? "libsvm" : "libffm", input, 4 + strlen(lines[i]));
    }
    static const char csv[] = "0,1,2,3\n1,2,3,\"x\"\"\n,y\"\r\n,,a,\n";
    static const char click[] =
        "1\t5\t\t-3\t1\t\t\t\t\t\t\t\t\t\t62770d79\te21f5d58\t\t"
        "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\r\n";
    input[0] = 1;
    memcpy(input + 4, csv, sizeof(csv) - 1);
    put("data_csv", "header", input, 4 + sizeof(csv) - 1);
    put("data_text", "csv", input, 4 + sizeof(csv) - 1);
    input[0] = 0;
    memcpy(input + 4, click, sizeof(click) - 1);
    put("data_criteo", "click", input, 4 + sizeof(click) - 1);
    input[0] = 0;
    memcpy(input + 4, chunk, sizeof(chunk) - 1);
    memcpy(input + 4 + sizeof(chunk) - 1, chunk, sizeof(chunk) - 1);
    put("data_recordio", "two", input, 4 + 2 * (sizeof(chunk) - 1));
}

static void put_packed(const char *name, uint8_t kind, const struct coxi_buffer *packed)
{
    uint8_t input[512] = {kind};
    assert_true(packed->len < sizeof(input));
    memcpy(input + 1, packed->data, packed->len);
    put("datasets", name, input, 1 + packed->len);
}

TEST(seeds_of_data_sets)
{
    static const struct cox_column columns[] = {
        {.name = "click", .kind = COX_COLUMN_LABEL, .missing = 0.5F},
        {.name = "age", .kind = COX_COLUMN_DENSE, .log = 1, .missing = -1},
        {.name = "ad", .kind = COX_COLUMN_KEY, .integers = 1, .buckets = 1000000},
    };
    const struct coxi_decoding csv = {.format = COX_CSV,
                                      .columns = columns,
                                      .n_columns = 3,
                                      .header = 1,
                                      .separator = ';'};
    const struct coxi_task task = {.dataset = "clicks",
                                   .file = "/data/part-00017.csv",
                                   .end = UINT64_MAX,
                                   .batch_size = 256,
                                   .decoding = csv};
    const struct coxi_reader_counts counts = {
        .records = 7, .bytes = 4096, .bad = 1, .first_reason = "a field too many"};
    const struct coxi_spec spec = {
        .decoding = csv, .batch_size = 256, .task_bytes = 1 << 20, .shuffle = 1};
    struct coxi_buffer packed = {0};
    assert_code(0, coxi_task_pack(&task, &packed));
    put_packed("task", 0, &packed);
    packed.len = 0;
    assert_code(0, coxi_counts_pack(&counts, &packed));
    put_packed("counts", 1, &packed);
    packed.len = 0;
    assert_code(0, coxi_spec_pack(&spec, &packed));
    put_packed("spec", 2, &packed);
    coxi_buffer_fini(&packed);
}

TEST(seeds_of_manifests_with_data_sets)
{
    const struct sample checkpoint = {
        .run = 0xfeed, .number = 7, .n_ps = 1, .n_rows = 2};
    uint8_t spec[] = {1, 2, 3};
    struct coxi_manifest_mark mark = {1, 2000, 3, 4};
    struct coxi_manifest_dataset dataset = {.name = "clicks",
                                            .epochs = 3,
                                            .n_tasks = 20,
                                            .n_files = 1,
                                            .spec = spec,
                                            .spec_len = sizeof(spec),
                                            .marks = &mark,
                                            .n_marks = 1,
                                            .next = 9,
                                            .done = 7,
                                            .failed = 1,
                                            .code = COX_EIO,
                                            .failure = "part-1:0: a bad disk"};
    struct coxi_manifest *manifest;
    size_t len;
    sample_write(coxi_test_dir(), &checkpoint);
    assert_code(0, coxi_manifest_read(coxi_test_path("ckpt-7"), &manifest));
    const struct coxi_manifest_datasets none = manifest->datasets;
    assert_code(0, coxi_manifest_ranges_add(&dataset.again, 3, 1));
    assert_code(0, coxi_manifest_ranges_add(&dataset.again, 5, 0));
    manifest->datasets = (struct coxi_manifest_datasets){&dataset, 1};
    assert_code(0, coxi_manifest_write(manifest, coxi_test_path("ckpt-7")));
    char *text = coxi_test_read(coxi_test_path("ckpt-7/manifest.json"), &len);
    put("manifest", "data-sets", text, len);
    free(text);
    manifest->datasets = none;
    coxi_manifest_free(manifest);
    coxi_manifest_ranges_fini(&dataset.again);
}

TEST(seeds_of_indexes)
{
    struct coxi_file_index_head head = {.magic = COXI_INDEX_MAGIC_BYTES,
                                        .format = COX_LIBSVM,
                                        .every = 10,
                                        .bytes = 200,
                                        .records = 30,
                                        .entries = 3};
    struct coxi_file_index_entry entries[] = {
        {.offset = 0}, {.offset = 70, .record = 10}, {.offset = 140, .record = 20}};
    struct coxi_buffer packed = {0};
    static const uint8_t first[] = {7, 200};
    assert_code(0, coxi_buffer_append_raw(&packed, first, sizeof(first)));
    assert_code(0, coxi_file_index_pack(&head, entries, &packed));
    put("data_index", "three", packed.data, packed.len);
    coxi_buffer_fini(&packed);
}

TEST(seeds_of_lists)
{
    static const char *const pages[] = {
        "\0<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a/"
        "b&amp;c&#x41;"
        "</Key><Size>3</Size></Contents><Contents><Key>d</Key></Contents>"
        "<NextContinuationToken>x&lt;y</NextContinuationToken></ListBucketResult>",
        "\1<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a/part-1"
        "</Key></Contents></ListBucketResult>"};
    for (size_t i = 0; i < 2; i++) {
        put("data_list", i == 0 ? "two" : "last", pages[i], 1 + strlen(pages[i] + 1));
    }
}

TEST(seeds_of_objects)
{
    static const char *const answers[] = {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url"
        "</EncodingType><IsTruncated>true</IsTruncated><Contents><Key>a%2Fb+c</Key>"
        "<ETag>&quot;1&quot;</ETag><Size>3</Size><Owner><ID>1</ID></Owner></Contents>"
        "<NextContinuationToken>x</NextContinuationToken></ListBucketResult>",
        "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>a"
        "</NextKeyMarker><NextUploadIdMarker>b</NextUploadIdMarker><Upload><Key>a</Key>"
        "<UploadId>b</UploadId></Upload></ListMultipartUploadsResult>",
        "<Error><Code>SlowDown</Code><Message>m</Message></Error>",
        "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>a</Key>"
        "<UploadId>b</UploadId>"
        "</InitiateMultipartUploadResult>"};
    static const char *const names[] = {"list", "uploads", "error", "begun"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        put("objects", names[i], answers[i], strlen(answers[i]));
    }
}

TEST(seeds_of_texts)
{
    static const char *const texts[] = {
        "\0tcp://127.0.0.1:4000",
        "\0ipc:///tmp/x/y",
        "\1host:4000",
        "\1[::1]:80",
        "\2{\"cluster\":{\"ps\":[\"a:1\",\"b:2\"],\"worker\":[\"c:3\"]},"
        "\"task\":{\"type\":\"chief\",\"index\":0}}",
        "\3"
        "coxswain-key-1 run "
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
        "\4--number=7\n--bytes=512M\n--real=0.5\n--choice=bc\n--flag\n--text\nx",
        "\5worker-7",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%zu", i);
        put("texts", name, texts[i], 1 + strlen(texts[i] + 1));
    }
    char *path = coxi_test_path("key");
    char text[256] = "\3";
    size_t len;
    assert_code(0, coxi_key_new(path));
    char *key = coxi_test_read(path, &len);
    assert_true(len < sizeof(text));
    memcpy(text + 1, key, len);
    put("texts", "key", text, len + 1);
    free(key);
}

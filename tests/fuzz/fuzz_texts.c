/* Short texts from users and files: addresses, clusters, keys, options, names. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "common/option.h"
#include "coxswain/coxswain.h"
#include "net/key.h"
#include "net/link.h"
#include "net/message.h"
#include "tests/fuzz/fuzz.h"

struct config {
    bool flag;
    const char *text;
    int64_t number;
    int64_t bytes;
    double real;
    const char *choice;
};

static const struct coxi_option options[] = {
    {.name = "flag",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, flag),
     .help = "a"},
    {.name = "text",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, text),
     .help = "b"},
    {.name = "number",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, number),
     .min = -5,
     .max = 100,
     .help = "c"},
    {.name = "bytes",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct config, bytes),
     .max = COXI_BYTES_MAX,
     .help = "d"},
    {.name = "real",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, real),
     .max = 1,
     .help = "e"},
    {.name = "choice",
     .type = COXI_OPTION_CHOICE,
     .offset = offsetof(struct config, choice),
     .choices = "a|bc",
     .help = "f"},
};

static const struct coxi_program program = {.name = "fuzz",
                                            .usage = "[options]",
                                            .summary = "Fuzz.",
                                            .prefix = "COX_FUZZ",
                                            .options = options,
                                            .n_options =
                                                sizeof(options) / sizeof(*options)};

static void try_options(char *text)
{
    char *argv[16] = {"fuzz"};
    int argc = 1;
    int rest = 0;
    struct config config = {0};
    for (char *word = strtok(text, "\n"); word != NULL && argc < 15;
         word = strtok(NULL, "\n")) {
        if (strncmp(word, "--config", 8) != 0 && strncmp(word, "--help", 6) != 0 &&
            strncmp(word, "--man", 5) != 0 && strncmp(word, "--version", 9) != 0) {
            argv[argc++] = word;
        }
    }
    (void)coxi_options_parse(&program, argc, argv, &config, &rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char url[COXI_URL_MAX + 1];
    struct coxi_key key;
    struct cox_cluster *cluster = NULL;
    if (size == 0) {
        return 0;
    }
    char *text = malloc(size);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0:
        (void)coxi_url_check(text);
        (void)coxi_url_is_local(text);
        break;
    case 1:
        if (coxi_url_from(text, url) == 0 && coxi_url_check(url) != 0) {
            fuzz_fail("an address makes a malformed URL");
        }
        break;
    case 2:
        if (cox_cluster_parse(text, &cluster) == 0) {
            cox_cluster_free(cluster);
        }
        break;
    case 3:
        (void)coxi_key_read(fuzz_file("key", text, size - 1), &key);
        break;
    case 4:
        try_options(text);
        break;
    default:
        (void)coxi_hello_name_check(text);
        break;
    }
    free(text);
    return 0;
}

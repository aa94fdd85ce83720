/* What an environment says of a cluster: lines NAME=value. What is found is told as a
 * table and as JSON; what is not found leaves nothing behind. */
#include <stdlib.h>
#include <string.h>

#include "cluster/view.h"
#include "common/buffer.h"
#include "tests/fuzz/fuzz.h"

/* Lines, each with a NUL at its end. */
struct lines {
    char *text;
    size_t len;
};

static const char *get_line(void *arg, const char *name)
{
    const struct lines *lines = arg;
    size_t len = strlen(name);
    for (const char *at = lines->text; at < lines->text + lines->len;
         at += strlen(at) + 1) {
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            return at + len + 1;
        }
    }
    return NULL;
}

static void tell(struct coxi_view *view)
{
    struct coxi_buffer table = {0};
    char *json = coxi_view_json(view);
    /* a ps whose address etcd is to be told chooses one itself */
    if (view->cluster != NULL && view->cluster->etcd == NULL &&
        view->role == COXI_CLUSTER_PS && view->listen[0] == '\0') {
        fuzz_fail("a ps has no address");
    }
    if (coxi_view_table(view, &table) != 0) {
        fuzz_fail("a view has no table");
    }
    coxi_buffer_fini(&table);
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines lines = {malloc(size + 1), size};
    const struct coxi_environment environment = {.get = get_line, .arg = &lines};
    struct coxi_view view;
    if (lines.text == NULL) {
        return 0;
    }
    memcpy(lines.text, data, size);
    lines.text[size] = '\0';
    for (char *at = lines.text;
         (at = memchr(at, '\n', (size_t)(lines.text + size - at))); at++) {
        *at = '\0';
    }
    int r = coxi_view_find(&environment, &view);
    if (r == 0 && view.source != NULL) {
        tell(&view);
    }
    if (r != 0 && view.cluster != NULL) {
        fuzz_fail("an error leaves a cluster");
    }
    coxi_view_fini(&view);
    free(lines.text);
    return 0;
}

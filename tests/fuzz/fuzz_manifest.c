/* Manifests: what is read is written, and read again. A right checksum is put at the
 * end, or nearly no input would get past it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/manifest.h"
#include "common/crc.h"
#include "tests/fuzz/fuzz.h"

static const char seal_before[] = ",\n \"crc32\": \"";

/* Replaces the seal, or adds one; `text` has room for it. Returns the new length. */
static size_t seal(char *text, size_t len)
{
    char *at = NULL;
    for (char *next = strstr(text, seal_before); next != NULL;
         next = strstr(next + 1, seal_before)) {
        at = next;
    }
    size_t before = at != NULL ? (size_t)(at - text) : strnlen(text, len);
    return before + (size_t)sprintf(text + before, "%s%08x\"\n}\n", seal_before,
                                    coxi_crc32(0, text, before));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coxi_manifest *manifest = NULL;
    struct coxi_manifest *again = NULL;
    char *text = malloc(size + 64);
    char copy[128];
    if (text == NULL || size == 0) {
        free(text);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    size_t len = seal(text, size);
    (void)snprintf(copy, sizeof(copy), "%s/copy", fuzz_dir());
    (void)mkdir(copy, 0700);
    (void)fuzz_file("manifest.json", text, len);
    if (coxi_manifest_read(fuzz_dir(), &manifest) == 0 &&
        coxi_manifest_write(manifest, copy) == 0 &&
        coxi_manifest_read(copy, &again) != 0) {
        fuzz_fail("a manifest that was written cannot be read");
    }
    coxi_manifest_free(manifest);
    coxi_manifest_free(again);
    free(text);
    return 0;
}

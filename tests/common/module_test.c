#include "common/module.h"

#include <elf.h>
#include <string.h>

#include "common/error.h"
#include "common/rand.h"
#include "coxswain/step.h"
#include "tests/test.h"

static struct coxi_module_info info;

/* Loads a module file into memory of exactly its length, so that ASan sees a read past
 * its end. */
static uint8_t *load(const char *path, size_t *ret_len)
{
    char *text = coxi_test_read(path, ret_len);
    uint8_t *bytes = malloc(*ret_len);
    assert_non_null(bytes);
    memcpy(bytes, text, *ret_len);
    free(text);
    return bytes;
}

static int inspect_file(const char *path)
{
    size_t len = 0;
    uint8_t *bytes = load(path, &len);
    int r = coxi_module_inspect(bytes, len, path, &info);
    free(bytes);
    return r;
}

static void assert_refused(int r, const char *why)
{
    assert_code(COX_EMODULE, r);
    assert_error_names(why);
}

TEST(the_steps_of_a_module_are_listed)
{
    static const char *const names[] = {"count", "nothing", "echo", "count_and_fail"};
    assert_code(0, inspect_file(coxi_test_module("counter")));
    assert_int_equal(4, info.n_steps);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(names[i], info.names[i]);
    }
}

TEST(a_module_has_at_most_256_steps)
{
    assert_code(0, inspect_file(coxi_test_module("steps_256")));
    assert_int_equal(COXI_MODULE_STEPS_MAX, info.n_steps);
    assert_string_equal("s00", info.names[0]);
    assert_string_equal("sff", info.names[255]);
    assert_refused(inspect_file(coxi_test_module("steps_257")), "damaged");
    assert_error_names("steps_257.so");
}

/* ---- files that are no modules */

TEST(a_file_that_is_no_elf_is_refused_with_how_to_build_one)
{
    char *path = coxi_test_path("text.so");
    coxi_test_write(path, "int main(void) { return 0; }\n", 29);
    assert_refused(inspect_file(path), "-shared");
    assert_error_names(path);
    coxi_test_write(path, "", 0);
    assert_refused(coxi_module_inspect("", 0, path, &info), "-shared");
    assert_error_names(path);
    assert_refused(inspect_file(path), "ELF");
}

TEST(a_shared_object_without_steps_is_refused_with_what_to_add)
{
    assert_refused(inspect_file(coxi_test_module("no_steps")), "COX_STEPS");
    assert_error_names("no_steps.so");
}

TEST(a_program_is_refused)
{
    assert_refused(inspect_file("/proc/self/exe"), "/proc/self/exe");
}

/* ---- a real module with some bytes changed */

struct module {
    uint8_t *bytes;
    size_t len;
    struct cox_steps_header *table;
    struct cox_step_entry *entries;
};

/* Finds the `len` bytes `what`, which occur once. */
static void *find(const struct module *module, const void *what, size_t len)
{
    uint8_t *found = memmem(module->bytes, module->len, what, len);
    assert_non_null(found);
    size_t behind = (size_t)(module->bytes + module->len - (found + 1));
    assert_null(memmem(found + 1, behind, what, len));
    return found;
}

static void open_module(struct module *module)
{
    const struct cox_steps_header table = {COX_STEP_MAGIC, COX_STEP_ABI, 4,
                                           sizeof(struct cox_step_entry)};
    char first[COX_STEP_NAME_MAX + 1] = "count";
    module->bytes = load(coxi_test_module("counter"), &module->len);
    module->table = find(module, &table, sizeof(table));
    module->entries = find(module, first, sizeof(first));
}

static int inspect(const struct module *module)
{
    return coxi_module_inspect(module->bytes, module->len, "patched.so", &info);
}

TEST(another_abi_is_refused_with_both_numbers)
{
    struct module m;
    open_module(&m);
    m.table->abi = 77;
    assert_refused(inspect(&m), "ABI 77");
    assert_error_names("ABI 1");
    assert_error_names("patched.so");
    free(m.bytes);
}

TEST(a_damaged_step_table_is_refused)
{
    struct module m;
    open_module(&m);
    const struct cox_steps_header good = *m.table;
    const struct cox_steps_header bad[] = {
        {0, good.abi, good.n_steps, good.entry_size},
        {good.magic, good.abi, 0, good.entry_size},
        {good.magic, good.abi, 3, good.entry_size},
        {good.magic, good.abi, 5, good.entry_size},
        {good.magic, good.abi, UINT32_MAX, good.entry_size},
        {good.magic, good.abi, good.n_steps, 0},
        {good.magic, good.abi, good.n_steps, good.entry_size + 8},
        {good.magic, good.abi, good.n_steps * 2, good.entry_size / 2},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        *m.table = bad[i];
        assert_refused(inspect(&m), "damaged step table");
    }
    *m.table = good;
    assert_code(0, inspect(&m));
    free(m.bytes);
}

TEST(bad_step_names_are_refused)
{
    static const char bad[][COX_STEP_NAME_MAX + 1] = {
        "", "a b", "line\n", "bell\a", "gr\xc3\xb6\xc3\x9f", " ", "tab\t",
    };
    struct module m;
    open_module(&m);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        memcpy(m.entries[2].name, bad[i], sizeof(bad[i]));
        assert_refused(inspect(&m), "step 2 has a bad name");
    }
    /* One character more than fits, so that no NUL ends it. */
    memset(m.entries[2].name, 'x', sizeof(m.entries[2].name));
    assert_refused(inspect(&m), "step 2 has a bad name");
    m.entries[2].name[COX_STEP_NAME_MAX] = '\0';
    assert_code(0, inspect(&m));
    assert_int_equal(COXI_STEP_NAME_MAX, strlen(info.names[2]));
    free(m.bytes);
}

TEST(a_step_that_is_listed_twice_is_refused_by_name)
{
    struct module m;
    open_module(&m);
    memcpy(&m.entries[3].name, &m.entries[1].name, sizeof(m.entries[1].name));
    assert_refused(inspect(&m), "'nothing'");
    free(m.bytes);
}

TEST(an_object_of_another_kind_is_refused)
{
    struct module m;
    open_module(&m);
    Elf64_Ehdr *header = (Elf64_Ehdr *)m.bytes;
    const Elf64_Ehdr good = *header;
    header->e_machine = EM_S390;
    assert_refused(inspect(&m), "another machine");
    *header = good;
    header->e_ident[EI_CLASS] = ELFCLASS32;
    assert_refused(inspect(&m), "another machine");
    *header = good;
    header->e_ident[EI_DATA] = ELFDATA2MSB;
    assert_refused(inspect(&m), "another machine");
    *header = good;
    header->e_type = ET_REL;
    assert_refused(inspect(&m), "-shared");
    free(m.bytes);
}

TEST(a_refused_module_leaves_the_result_as_it_was)
{
    struct module m;
    open_module(&m);
    struct coxi_module_info *before = malloc(sizeof(*before));
    assert_non_null(before);
    memset(&info, 0x55, sizeof(info));
    *before = info;
    m.entries[3].name[0] = '\0';
    assert_refused(inspect(&m), "bad name");
    assert_memory_equal(before, &info, sizeof(info));
    free(before);
    free(m.bytes);
}

/* ---- bytes from a peer */

TEST(a_module_cut_short_is_never_read_past_its_end)
{
    struct module m;
    open_module(&m);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)m.bytes;
    for (size_t len = 0; len < m.len; len += 64) {
        uint8_t *part = malloc(len);
        assert_true(part != NULL || len == 0);
        memcpy(part, m.bytes, len);
        int r = coxi_module_inspect(part, len, "cut.so", &info);
        /* The section headers come last, and coxi_module_inspect needs only some of
         * them. */
        assert_true(r == COX_EMODULE || (r == 0 && len > header->e_shoff));
        free(part);
    }
    free(m.bytes);
}

/* In each round changes one byte, at the place that where() chooses, and inspects the
 * module, which must not read past its end. Returns how often it was refused. */
static int mutate(size_t rounds, size_t (*where)(const struct module *m, uint64_t n))
{
    struct module m;
    uint64_t rng = 17;
    int refused = 0;
    open_module(&m);
    for (size_t i = 0; i < rounds; i++) {
        uint8_t *byte = &m.bytes[where(&m, coxi_rand(&rng))];
        uint8_t was = *byte;
        uint64_t n = coxi_rand(&rng);
        *byte = n % 4 == 0 ? 0xff : (uint8_t)(n >> 8);
        int r = inspect(&m);
        assert_true(r == 0 || r == COX_EMODULE);
        refused += r != 0;
        *byte = was;
    }
    assert_code(0, inspect(&m));
    free(m.bytes);
    return refused;
}

static size_t anywhere(const struct module *m, uint64_t n)
{
    return n % m->len;
}

/* Places in the headers of the file, the segments and the sections, which hold the
 * offsets. */
static size_t in_headers(const struct module *m, uint64_t n)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)m->bytes;
    uint64_t pick = n >> 32;
    switch (n % 3) {
    case 0:
        return pick % sizeof(*header);
    case 1:
        return header->e_phoff + pick % (header->e_phnum * sizeof(Elf64_Phdr));
    default:
        return header->e_shoff + pick % (header->e_shnum * sizeof(Elf64_Shdr));
    }
}

/* In the dynamic symbols and their names, which follow one another. */
static size_t in_symbols(const struct module *m, uint64_t n)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)m->bytes;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(m->bytes + header->e_shoff);
    while (section->sh_type != SHT_DYNSYM) {
        section++;
    }
    return section->sh_offset + (n >> 8) % (section->sh_size + 64);
}

TEST(a_module_with_a_changed_byte_is_never_read_past_its_end)
{
    assert_true(mutate(4000, anywhere) < 1000);
    assert_true(mutate(8000, in_headers) > 50);
    assert_true(mutate(4000, in_symbols) > 50);
}

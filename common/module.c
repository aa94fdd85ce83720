/*
 * Reads the step table of an ELF file without loading it (module.h). Finds two exported
 * symbols, cox_steps_header_ and cox_steps (coxswain/step.h), through the dynamic
 * symbol table in the section headers. The function pointers in the table are
 * relocations and not read; only the names are in the file.
 *
 * Every offset and count from the file is checked against its length before use.
 */
#include "common/module.h"

#include <ctype.h>
#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/step.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
#error "tell which ELF machine this is"
#endif

_Static_assert((int)COXI_STEP_NAME_MAX == (int)COX_STEP_NAME_MAX, "one limit");

struct image {
    const uint8_t *bytes;
    size_t len;
    const char *path;
    Elf64_Ehdr header;
};

/* The `len` bytes at `offset`; NULL: they are not all in the file. */
static const void *at(const struct image *image, uint64_t offset, uint64_t len)
{
    if (offset > image->len || len > image->len - offset) {
        return NULL;
    }
    return image->bytes + offset;
}

/* Entry `i` of a table of entries of `size` bytes at `table`. */
static const void *entry(const struct image *image, uint64_t table, unsigned i,
                         size_t size)
{
    return table <= image->len ? at(image, table + (uint64_t)i * size, size) : NULL;
}

static int check_header(struct image *image)
{
    const void *header = at(image, 0, sizeof(image->header));
    if (header == NULL || memcmp(header, ELFMAG, SELFMAG) != 0) {
        return coxi_error(COX_EMODULE,
                          "%s is no ELF file: build it with cc -shared -fPIC",
                          image->path);
    }
    memcpy(&image->header, header, sizeof(image->header));
    if (image->header.e_ident[EI_CLASS] != ELFCLASS64 ||
        image->header.e_ident[EI_DATA] != ELFDATA2LSB ||
        image->header.e_machine != MACHINE) {
        return coxi_error(COX_EMODULE, "%s is built for another machine", image->path);
    }
    if (image->header.e_type != ET_DYN) {
        return coxi_error(COX_EMODULE, "%s is no shared object: build it with -shared",
                          image->path);
    }
    return 0;
}

static bool section(const struct image *image, unsigned i, Elf64_Shdr *ret)
{
    if (i >= image->header.e_shnum || image->header.e_shentsize != sizeof(*ret)) {
        return false;
    }
    const void *bytes = entry(image, image->header.e_shoff, i, sizeof(*ret));
    if (bytes == NULL) {
        return false;
    }
    memcpy(ret, bytes, sizeof(*ret));
    return true;
}

/* Finds the `len` bytes at address `address` of the loaded object in the file. */
static const void *at_address(const struct image *image, uint64_t address, uint64_t len)
{
    for (unsigned i = 0; i < image->header.e_phnum; i++) {
        Elf64_Phdr p;
        const void *bytes = entry(image, image->header.e_phoff, i, sizeof(p));
        if (bytes == NULL || image->header.e_phentsize != sizeof(p)) {
            return NULL;
        }
        memcpy(&p, bytes, sizeof(p));
        if (p.p_type == PT_LOAD && address >= p.p_vaddr &&
            address - p.p_vaddr <= p.p_filesz &&
            len <= p.p_filesz - (address - p.p_vaddr) && p.p_offset <= image->len) {
            return at(image, p.p_offset + (address - p.p_vaddr), len);
        }
    }
    return NULL;
}

/* The data of the exported symbol `name`, and their length; NULL: there is no such
 * symbol. */
static const void *find_symbol(const struct image *image, const char *name,
                               size_t *ret_len)
{
    Elf64_Shdr symbols;
    Elf64_Shdr strings;
    unsigned i = 0;
    while (section(image, i, &symbols) && symbols.sh_type != SHT_DYNSYM) {
        i++;
    }
    if (!section(image, i, &symbols) || !section(image, symbols.sh_link, &strings) ||
        at(image, strings.sh_offset, strings.sh_size) == NULL) {
        return NULL;
    }
    const char *names = at(image, strings.sh_offset, strings.sh_size);
    uint64_t n = symbols.sh_size / sizeof(Elf64_Sym);
    const uint8_t *table = at(image, symbols.sh_offset, n * sizeof(Elf64_Sym));
    for (uint64_t s = 0; table != NULL && s < n; s++) {
        Elf64_Sym symbol;
        memcpy(&symbol, table + s * sizeof(symbol), sizeof(symbol));
        size_t max =
            symbol.st_name < strings.sh_size ? strings.sh_size - symbol.st_name : 0;
        if (symbol.st_shndx != SHN_UNDEF && strlen(name) < max &&
            strncmp(names + symbol.st_name, name, max) == 0) {
            *ret_len = symbol.st_size;
            return at_address(image, symbol.st_value, symbol.st_size);
        }
    }
    return NULL;
}

static bool name_is_good(const char *name)
{
    size_t len = strnlen(name, COX_STEP_NAME_MAX + 1);
    for (size_t i = 0; i < len && i < COX_STEP_NAME_MAX; i++) {
        if (!isgraph((unsigned char)name[i])) {
            return false;
        }
    }
    return len > 0 && len <= COX_STEP_NAME_MAX;
}

static int read_names(const struct image *image, const struct cox_steps_header *module,
                      struct coxi_module_info *ret)
{
    size_t len = 0;
    const char *entries = find_symbol(image, "cox_steps", &len);
    if (module->n_steps == 0 || module->n_steps > COXI_MODULE_STEPS_MAX ||
        module->entry_size != sizeof(struct cox_step_entry) || entries == NULL ||
        len != (size_t)module->n_steps * module->entry_size) {
        return coxi_error(COX_EMODULE, "%s has a damaged step table", image->path);
    }
    for (uint32_t i = 0; i < module->n_steps; i++) {
        const char *name = entries + i * sizeof(struct cox_step_entry);
        if (!name_is_good(name)) {
            return coxi_error(COX_EMODULE,
                              "%s: step %u has a bad name: 1 to %d visible characters",
                              image->path, i, COX_STEP_NAME_MAX);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(name, entries + j * sizeof(struct cox_step_entry)) == 0) {
                return coxi_error(COX_EMODULE, "%s lists step '%s' twice", image->path,
                                  name);
            }
        }
    }
    for (uint32_t i = 0; i < module->n_steps; i++) {
        memcpy(ret->names[i], entries + i * sizeof(struct cox_step_entry),
               sizeof(ret->names[i]));
    }
    ret->n_steps = module->n_steps;
    return 0;
}

int coxi_module_inspect(const void *bytes, size_t len, const char *path,
                        struct coxi_module_info *ret)
{
    struct image image = {.bytes = bytes, .len = len, .path = path};
    struct cox_steps_header module;
    int r = check_header(&image);
    if (r != 0) {
        return r;
    }
    size_t symbol_len = 0;
    const void *symbol = find_symbol(&image, "cox_steps_header_", &symbol_len);
    if (symbol == NULL || symbol_len < sizeof(module)) {
        return coxi_error(COX_EMODULE,
                          "%s has no step table of this release: list its steps with "
                          "COX_STEPS, and build it with this step.h",
                          path);
    }
    memcpy(&module, symbol, sizeof(module));
    if (module.magic != COX_STEP_MAGIC) {
        return coxi_error(COX_EMODULE, "%s has a damaged step table", path);
    }
    if (module.abi != COX_STEP_ABI) {
        return coxi_error(COX_EMODULE,
                          "%s was built for step ABI %u, this is ABI %d: rebuild it",
                          path, module.abi, COX_STEP_ABI);
    }
    return read_names(&image, &module, ret);
}

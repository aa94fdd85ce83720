/*
 * See fiber.h. A switch saves the registers that a function call preserves, and
 * exchanges the thread-local variables of this program (not those of libc: errno
 * belongs to the running fiber, like system calls). Costs some 30 ns.
 */
#include "tests/sim/fiber.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/sim/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the simulator switches stacks on x86-64 only"
#endif

enum { STACK_BYTES = 512 * 1024, SPARES_MAX = 4096 };

/* What a new stack begins with, in the order in which sim_switch_stack takes it off. */
struct first_frame {
    uint64_t r15, r14, r13, r12, rbx, rbp;
    void (*entry)(void);
    uint64_t unused;
};

void *__real_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from);
void sim_switch_stack(void **save, void *next);
void sim_entry(void);

__asm__(".text\n"
        ".globl sim_switch_stack\n"
        ".type sim_switch_stack, @function\n"
        "sim_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_switch_stack, .-sim_switch_stack\n"
        ".globl sim_entry\n"
        ".type sim_entry, @function\n"
        "sim_entry:\n" /* rbx: sim_begin, r12: its argument */
        "    movq %r12, %rdi\n"
        "    callq *%rbx\n"
        "    ud2\n"
        ".size sim_entry, .-sim_entry\n");

/* ---- thread-local variables */

static struct {
    uint8_t *at; /* of the one OS thread */
    size_t len;
    const uint8_t *initial; /* followed by zeros */
    size_t initial_len;
    void *owner; /* the context to which the current content belongs */
} locals;

/* The program itself comes first. */
static int find_locals(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            locals.at = info->dlpi_tls_data;
            locals.len = info->dlpi_phdr[i].p_memsz;
            locals.initial =
                (const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
            locals.initial_len = info->dlpi_phdr[i].p_filesz;
        }
    }
    return 1;
}

void sim_context_load(const struct sim_context *context)
{
    if (locals.owner != context->locals) {
        if (locals.owner != NULL) {
            memcpy(locals.owner, locals.at, locals.len);
        }
        memcpy(locals.at, context->locals, locals.len);
        locals.owner = context->locals;
    }
}

/* ---- stacks, with their thread-local variables at the lower end */

static char *spares[SPARES_MAX];
static size_t n_spares;

static size_t locals_room(void)
{
    return (locals.len + 4095) / 4096 * 4096;
}

static char *take_stack(void)
{
    if (n_spares > 0) {
        return spares[--n_spares];
    }
    size_t guard = 4096;
    char *at =
        __real_mmap(NULL, locals_room() + guard + STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at + locals_room(), guard, PROT_NONE) != 0) {
        perror("a stack");
        abort();
    }
    return at;
}

static char *stack_bottom(const struct sim_context *context)
{
    return context->stack + locals_room() + 4096;
}

/* ---- what a fiber begins with */

struct beginning {
    void (*run)(void *arg);
    void *arg;
};

#if defined(__SANITIZE_ADDRESS__)
static const void *scheduler_bottom; /* of its stack; known once a fiber has begun */
static size_t scheduler_len;
#endif

static void finish_switch(struct sim_context *context)
{
#if defined(__SANITIZE_ADDRESS__)
    bool first = scheduler_bottom == NULL;
    __sanitizer_finish_switch_fiber(context != NULL ? context->fake_stack : NULL,
                                    first ? &scheduler_bottom : NULL,
                                    first ? &scheduler_len : NULL);
#else
    (void)context;
#endif
}

static void begin(struct beginning *beginning)
{
    finish_switch(NULL);
    beginning->run(beginning->arg);
    abort();
}

void sim_context_init(struct sim_context *context, void (*run)(void *arg), void *arg)
{
    *context = (struct sim_context){.stack = take_stack()};
    char *top = stack_bottom(context) + STACK_BYTES;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack_bottom(context), STACK_BYTES);
#endif
    struct beginning *beginning = (struct beginning *)(top - 64);
    struct first_frame *frame =
        (struct first_frame *)(top - 72 -
                               sizeof(*frame)); /* a call finds the stack 16-aligned */
    *beginning = (struct beginning){run, arg};
    *frame = (struct first_frame){.rbx = (uint64_t)(uintptr_t)begin,
                                  .r12 = (uint64_t)(uintptr_t)beginning,
                                  .entry = sim_entry};
    context->sp = frame;
    context->locals = context->stack;
    memcpy(context->locals, locals.initial, locals.initial_len);
    memset(context->stack + locals.initial_len, 0, locals.len - locals.initial_len);
}

void sim_context_fini(struct sim_context *context)
{
    if (locals.owner == context->locals) {
        locals.owner = NULL;
    }
    if (n_spares < SPARES_MAX) {
        spares[n_spares++] = context->stack;
    }
    context->stack = NULL;
}

void sim_context_start(struct sim_context *scheduler)
{
    (void)dl_iterate_phdr(find_locals, NULL);
    *scheduler = (struct sim_context){.locals = sim_real_realloc(NULL, locals.len + 1)};
    memcpy(scheduler->locals, locals.at, locals.len);
    locals.owner = scheduler->locals;
}

void sim_context_switch(struct sim_context *from, struct sim_context *to, int ends)
{
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom = to->stack != NULL ? stack_bottom(to) : scheduler_bottom;
    size_t len = to->stack != NULL ? STACK_BYTES : scheduler_len;
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, bottom, len);
#else
    (void)ends;
#endif
    sim_switch_stack(&from->sp, to->sp);
    finish_switch(from);
}

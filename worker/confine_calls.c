/*
 * See confine.h: a seccomp filter. It denies what it lists and allows all else, so that
 * steps' libraries go on working; what it lists is what a container's default profile
 * denies.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/error.h"
#include "worker/confine.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Calls whose numbers are the same on every architecture, and that the headers of an
 * older system do not name. */
enum {
    OPEN_TREE = 428,
    MOVE_MOUNT = 429,
    FSOPEN = 430,
    FSCONFIG = 431,
    FSMOUNT = 432,
    FSPICK = 433,
    CLONE3 = 435,
    PIDFD_GETFD = 438,
    MOUNT_SETATTR = 442,
    X32_BIT = 0x40000000,
};

static const int denied[] = {
    /* other processes */
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    PIDFD_GETFD,
    SYS_kcmp,
    /* mounts and namespaces */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    OPEN_TREE,
    MOVE_MOUNT,
    FSOPEN,
    FSCONFIG,
    FSMOUNT,
    FSPICK,
    MOUNT_SETATTR,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
    SYS_quotactl,
    /* the kernel and the host */
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_vhangup,
    /* keys of the kernel; calls that pass by this filter */
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

enum { N_DENIED = sizeof(denied) / sizeof(*denied) };

#define NAMESPACES                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |     \
     CLONE_NEWPID | CLONE_NEWNET)

/* The lower half of a call's argument; both architectures are little-endian. */
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + (i) * sizeof(uint64_t))
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))

#define LOAD(at)                                                                       \
    ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at)))
#define RETURN(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (action)))
/* Skips the next `n` instructions unless the value is, or has a bit of, `k`. */
#define UNLESS_IS(k, n)                                                                \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), 0, (n)))
#define UNLESS_HAS(k, n)                                                               \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(k), 0, (n)))

#ifdef ARCHITECTURE
struct filter {
    struct sock_filter code[2 * N_DENIED + 32];
    unsigned short n;
};

static void add(struct filter *filter, struct sock_filter instruction)
{
    filter->code[filter->n++] = instruction;
}

static void add_denial(struct filter *filter, int call, int error)
{
    add(filter, UNLESS_IS(call, 1));
    add(filter, RETURN(FAIL((unsigned)error)));
}

static void make(struct filter *filter)
{
    add(filter, LOAD(offsetof(struct seccomp_data, arch)));
    add(filter, UNLESS_IS(ARCHITECTURE, 1));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    add(filter, RETURN(FAIL(ENOSYS))); /* 32-bit calls have other numbers */
    add(filter, LOAD(offsetof(struct seccomp_data, nr)));
    add(filter, UNLESS_HAS(X32_BIT, 1));
    add(filter, RETURN(FAIL(ENOSYS)));
    for (size_t i = 0; i < N_DENIED; i++) {
        add_denial(filter, denied[i], EPERM);
    }
    /* Its flags are in memory, which a filter cannot read; libraries use clone then. */
    add_denial(filter, CLONE3, ENOSYS);
    add(filter, UNLESS_IS(SYS_clone, 3));
    add(filter, LOAD(ARGUMENT(0)));
    add(filter, UNLESS_HAS(NAMESPACES, 1));
    add(filter, RETURN(FAIL(EPERM)));
    add(filter, LOAD(offsetof(struct seccomp_data, nr)));
    add(filter, UNLESS_IS(SYS_ioctl, 3));
    add(filter, LOAD(ARGUMENT(1)));
    add(filter, UNLESS_IS(TIOCSTI, 1)); /* types into a terminal */
    add(filter, RETURN(FAIL(EPERM)));
    add(filter, RETURN(SECCOMP_RET_ALLOW));
}

int coxi_confine_calls(void)
{
    struct filter filter = {.n = 0};
    make(&filter);
    const struct sock_fprog program = {filter.n, filter.code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
               ? 0
               : coxi_error_errno(COX_EINVAL, "--confine: this kernel has no seccomp "
                                              "filters: use --confine=landlock or off");
}
#else
int coxi_confine_calls(void)
{
    return coxi_error(COX_EINVAL, "--confine: there is no seccomp profile for this "
                                  "processor: use --confine=landlock or off");
}
#endif

/*
 * Macros that say which lock guards a field and which locks a function needs.
 * `scripts/gates threads` has clang check them; for other compilers they are empty.
 *
 *     struct coxi_mutex lock; // leaf
 *     int n COXI_GUARDED_BY(lock);
 *
 *     static int count(struct counter *c) COXI_REQUIRES(c->lock);
 *
 * COXI_GUARDED_BY names a lock of the same struct, declared above the field;
 * COXI_GUARDED_BY_OF one of another struct. A field counts as guarded while that lock
 * of any object of the struct is held: the check does not tell objects apart.
 *
 * If the compiler cannot see that a lock is held, or not needed, use coxi_unshared or
 * coxi_held (common/sync.h), or COXI_UNCHECKED for a whole function, and say why.
 */
#ifndef COXI_COMMON_GUARDED_H
#define COXI_COMMON_GUARDED_H

/* Older compilers do not find the fields of a C struct. */
#if defined(__clang__) && __clang_major__ >= 19
#define COXI_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define COXI_ATTRIBUTE(...)
#endif

/* ---- types */

/* A struct that is a lock: struct COXI_LOCK_TYPE coxi_mutex { ... }. */
#define COXI_LOCK_TYPE COXI_ATTRIBUTE(capability("lock"))

/* ---- fields */

/* clang takes no parentheses here. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define COXI_GUARDED_BY(field) COXI_ATTRIBUTE(guarded_by(&field))
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a type */
#define COXI_GUARDED_BY_OF(struct_, path)                                              \
    COXI_ATTRIBUTE(guarded_by(((struct_ *)0)->path))

/* ---- functions: the locks of their parameters */

/* Call it with the lock held; it is held when the function returns, too. Waiting
 * functions release it meanwhile. */
#define COXI_REQUIRES(...) COXI_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define COXI_REQUIRES_SHARED(...)                                                      \
    COXI_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
/* Call it without the lock: it takes and releases it. */
#define COXI_EXCLUDES(...) COXI_ATTRIBUTE(locks_excluded(__VA_ARGS__))
/* The function returns with the lock held. */
#define COXI_ACQUIRES(...)        COXI_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define COXI_ACQUIRES_SHARED(...) COXI_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
/* If the function returns true, the lock is held. */
#define COXI_ACQUIRES_IF_TRUE(...)                                                     \
    COXI_ATTRIBUTE(try_acquire_capability(1, __VA_ARGS__))
/* If the function returns 0, the lock is held. */
#define COXI_ACQUIRES_SHARED_IF_0(...)                                                 \
    COXI_ATTRIBUTE(try_acquire_shared_capability(0, __VA_ARGS__))
/* Call it with the lock held; it is released when the function returns. */
#define COXI_RELEASES(...)     COXI_ATTRIBUTE(release_capability(__VA_ARGS__))
#define COXI_RELEASES_ANY(...) COXI_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
/* The lock counts as held from here on. */
#define COXI_ASSERTS(...) COXI_ATTRIBUTE(assert_capability(__VA_ARGS__))
/* The function is not checked; a comment says why. */
#define COXI_UNCHECKED COXI_ATTRIBUTE(no_thread_safety_analysis)

#endif

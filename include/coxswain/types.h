/*
 * Types shared by client programs and step modules: error codes, element types, values.
 * Include <coxswain/coxswain.h> or <coxswain/step.h> instead of this file.
 */
#ifndef COXSWAIN_TYPES_H
#define COXSWAIN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COX_API __attribute__((visibility("default")))

#define COX_VERSION_MAJOR 0
#define COX_VERSION_MINOR 1
#define COX_VERSION_PATCH 0

/*
 * Error codes: number, name, text. Functions return 0 or one of them. The numbers are
 * fixed; new codes are added at the end.
 */
#define COX_ERRORS(X)                                                                  \
    X(-1, EINVAL, "invalid argument")                                                  \
    X(-2, ENOMEM, "out of memory")                                                     \
    X(-3, EIO, "input/output error")                                                   \
    X(-4, EAGAIN, "no room now, try again")                                            \
    X(-5, ETIMEDOUT, "deadline passed")                                                \
    X(-6, ECANCELLED, "cancelled")                                                     \
    X(-7, ECLOSED, "closed")                                                           \
    X(-8, EREFUSED, "refused by the peer")                                             \
    X(-9, EPROTO, "malformed or unexpected message")                                   \
    X(-10, EVERSION, "the peer speaks another protocol version")                       \
    X(-11, EEXIST, "exists already")                                                   \
    X(-12, ENOENT, "no such thing")                                                    \
    X(-13, ECONFLICT, "exists with another specification")                             \
    X(-14, EBUSY, "busy with another run")                                             \
    X(-15, ELIMIT, "larger than the limit")                                            \
    X(-16, EMODULE, "step module refused")                                             \
    X(-17, ESTEP, "the step returned an error")                                        \
    X(-18, ELOST, "worker lost")                                                       \
    X(-19, EPSLOST, "parameter server lost")                                           \
    X(-20, ENOWORKER, "no worker left")                                                \
    X(-21, EFENCED, "another client has taken over")                                   \
    X(-22, EFORMAT, "malformed file")                                                  \
    X(-23, ECHECKSUM, "checksum mismatch")                                             \
    X(-24, EEOF, "nothing more will come")                                             \
    X(-25, EADDRESS, "cannot use the address")                                         \
    X(-26, ENOTREADY, "not ready")                                                     \
    X(-27, EDEADLK, "would wait for itself")                                           \
    X(-28, ECRASHED, "the step crashed its process")                                   \
    X(-29, EPARTIAL, "applied on a part of the parameter servers")                     \
    X(-30, EDIVERGED, "attempts of a closure are not alike")                           \
    X(-31, EOVERRUN, "the step ran for too long")                                      \
    X(-32, ERESOURCE, "a resource of the worker could not be made")                    \
    X(-33, ENONFINITE, "a gradient or a pulled number is not finite")                  \
    X(-34, EREPLAY, "what was done could not be done again")                           \
    X(-35, EDENIED, "denied: not of this run, or not allowed there")                   \
    X(-36, ELATE, "its round was complete without it")

enum cox_error_code {
#define COX_ERROR_ENUM(number, name, text) COX_##name = (number),
    COX_ERRORS(COX_ERROR_ENUM)
#undef COX_ERROR_ENUM
};

/*
 * Element types. Messages and checkpoints have these numbers, so they never change.
 * There is no unsigned 64-bit type; keys of tables travel in arguments as COX_I64
 * (struct cox_rows).
 */
enum cox_dtype {
    COX_F32 = 1,
    COX_F64 = 2,
    COX_I32 = 3,
    COX_I64 = 4,
    COX_U8 = 5,
    COX_BF16 = 6,
    COX_F16 = 7,
};

enum { COX_RANK_MAX = 8, COX_NAME_MAX = 127 };

/*
 * Initializers of the public structs: their size, where they have one, and 0 in every
 * other field, which means the default. COX_OPTIONS_INIT and the like are made of
 * these.
 */
#ifdef __cplusplus
extern "C++" {
template <class T> constexpr T cox_init_of()
{
    T init{};
    init.size = sizeof(T);
    return init;
}
}
#define COX_INIT(type) cox_init_of<struct type>()
/* clang-format off */
#define COX_INIT_PLAIN {}
/* clang-format on */
#else
#define COX_INIT(type) {.size = sizeof(struct type)}
#define COX_INIT_PLAIN {0}
#endif

/*
 * A named tensor (rank 0: a scalar), used for arguments and results. `data` holds
 * shape[0] * ... * shape[rank - 1] elements of `dtype`, row-major, host byte order.
 */
struct cox_value {
    const char *name; /* at most COX_NAME_MAX bytes; NULL means "" */
    uint32_t dtype;   /* enum cox_dtype */
    uint32_t rank;    /* 0 to COX_RANK_MAX */
    uint64_t shape[COX_RANK_MAX];
    const void *data;
};

/* Initializers of a cox_value: COX_SCALAR("epoch", COX_I64, &epoch),
 * COX_VECTOR("ids", COX_I64, n, p) */
#define COX_SCALAR(name, dtype, pointer)                                               \
    {(name), (dtype), 0, {0, 0, 0, 0, 0, 0, 0, 0}, (pointer)}
#define COX_VECTOR(name, dtype, n, pointer)                                            \
    {(name), (dtype), 1, {(n), 0, 0, 0, 0, 0, 0, 0}, (pointer)}

#ifdef __cplusplus
}
#endif
#endif

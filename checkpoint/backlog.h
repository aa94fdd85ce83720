/*
 * The backlog of a checkpoint: closures, and the client's own writes, that some of the
 * checkpoint's ps lack. A restarted client must run or write them again. It is a file
 * of the checkpoint in the safetensors format:
 *
 *   heads        U64 [n, 10]   struct coxi_backlog_head, by rising closure; if only
 *                              some rows of a write are missing, one head for each
 *                              stretch
 *   inputs       U64 [m]       closures whose results others take
 *   args         U8 [bytes]    the packed arguments of each closure, padded to 8
 *   input_names  U8 [m, 256]   the names of an input and of its result, 128 bytes each
 *
 * and in __metadata__ `functions`, a JSON list of [module, function].
 *
 * Any thread. A file is not trusted.
 */
#ifndef COXI_CHECKPOINT_BACKLOG_H
#define COXI_CHECKPOINT_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "coxswain/types.h"

/* In place of a function: a write of the client. Its arguments are a struct
 * coxi_backlog_update and the data. */
#define COXI_BACKLOG_UPDATE UINT64_MAX

/* The same: the end of a round (coxswain/round.h). Its arguments are a struct
 * coxi_backlog_round, and a struct coxi_backlog_part for each closure of the round. */
#define COXI_BACKLOG_ROUND (UINT64_MAX - 1)

struct coxi_backlog_head {
    uint64_t closure;
    uint64_t function; /* its index in `functions` */
    uint64_t cursor;
    int64_t priority;
    uint64_t only_worker; /* 1 + index; 0: any */
    uint64_t timeout_ms;
    uint64_t args_at; /* where its arguments begin in `args`, in bytes */
    uint64_t args_len;
    /* `inputs` lists the inputs in the order of the heads that take them */
    uint64_t n_inputs;
    /* other than 0: it is done, but its results were kept on a worker. 1, or 1 + how far
     * the id of its round is above its own */
    uint64_t done;
};

struct coxi_backlog_update {
    uint64_t variable; /* id */
    uint64_t op;
    uint64_t begin; /* first row; begin and count are 0 for a rate (COXI_OP_RATE) */
    uint64_t count;
};

struct coxi_backlog_round {
    uint64_t first; /* id of its first closure; the end has first + n */
    uint64_t n;
    uint64_t needed;   /* closures with which it is complete */
    uint64_t sequence; /* the generation of the client that has made it, times 2^32, and
                        * its number; its rounds are numbered */
    uint64_t number;
    uint64_t staleness; /* of the sequence */
    uint64_t reduce;    /* enum cox_reduce */
    uint64_t flags;     /* enum coxi_backlog_round_flags */
};

enum coxi_backlog_round_flags {
    /* which closures count, and by which factor, does not change */
    COXI_BACKLOG_DECIDED = 1,
    COXI_BACKLOG_DETERMINISTIC = 2, /* its sequence is */
    COXI_BACKLOG_ROUND_FLAGS = 3,   /* all of them */
};

struct coxi_backlog_part {
    uint32_t counts; /* 1: the closure counts; not decided: it may count */
    float factor;    /* decided: of its gradients */
};

struct coxi_backlog_input {
    uint64_t closure; /* a closure of the backlog with a lower id */
    char name[COX_NAME_MAX + 1];
    char result[COX_NAME_MAX + 1];
};

struct coxi_backlog_function {
    const char *module;
    const char *name;
};

struct coxi_backlog {
    const struct coxi_backlog_head *heads;
    size_t n;
    struct coxi_backlog_input *inputs;
    size_t n_inputs;
    struct coxi_backlog_function *functions;
    size_t n_functions;
    const uint8_t *args;
    size_t args_len;
};

/* Writes the file and syncs it to disk. COX_EIO. */
int coxi_backlog_write(const char *path, const struct coxi_backlog *backlog,
                       uint64_t *ret_bytes, uint32_t *ret_crc32);

/* An opened file; its backlog lives until it is closed. */
struct coxi_backlog_file;

/* Opens and checks a file. COX_EIO, COX_ECHECKSUM, COX_EFORMAT: the text names the
 * file. */
int coxi_backlog_open(const char *path, uint64_t bytes, uint32_t crc32,
                      struct coxi_backlog_file **ret);
const struct coxi_backlog *coxi_backlog_of(const struct coxi_backlog_file *file);
void coxi_backlog_close(struct coxi_backlog_file *file); /* takes NULL */

#endif

/* What the files of the fake store share. */
#ifndef COXI_TESTS_OBJECTS_FAKE_S3_INTERNAL_H
#define COXI_TESTS_OBJECTS_FAKE_S3_INTERNAL_H

#include <microhttpd.h>

#include "common/buffer.h"
#include "common/sync.h"
#include "tests/objects/fake_s3.h"

enum { FAULTS_MAX = 16, ETAG_MAX = 64, META_MAX = 128, PARAMETERS_MAX = 16 };

struct object {
    struct object *next; /* sorted by key */
    char *key;
    struct coxi_buffer data;
    char etag[ETAG_MAX];
    time_t modified_s;
    char meta[META_MAX]; /* of the one header x-amz-meta-coxswain-writer */
};

struct part {
    struct part *next; /* sorted by number */
    long number;
    struct coxi_buffer data;
    char etag[ETAG_MAX];
};

struct upload {
    struct upload *next;
    int id;
    char *key;
    char meta[META_MAX];
    struct part *parts;
};

struct fault {
    enum fake_op op;
    enum fake_fault kind;
    int left; /* -1: for ever */
};

struct fake_s3 {
    struct coxi_mutex lock; /* guards everything else */
    pthread_cond_t changed;
    struct MHD_Daemon *daemon;
    struct object *objects;
    struct upload *uploads;
    int last_upload;
    struct fault faults[FAULTS_MAX];
    size_t n_faults;
    int counts[FAKE_OPS];
    int refused;
    int held; /* requests that wait */
    int releases;
    bool closing;
    size_t page;
    bool ignores_conditions;
    bool repeats_pages;
    char id[64];
    char secret[64];
    char token[64]; /* "": none */
};

struct parameter {
    char *name; /* decoded */
    char *value;
};

/* A request that has come whole. */
struct request {
    char *uri;  /* as it came */
    char *path; /* decoded, without the first slash */
    struct parameter parameters[PARAMETERS_MAX];
    size_t n_parameters;
    struct coxi_buffer body;
    const char *method;
    struct MHD_Connection *connection;
    enum fake_op op;
    bool begun;
};

/* An answer. */
struct answer {
    unsigned status;
    struct coxi_buffer body;
    char etag[ETAG_MAX];
    char meta[META_MAX];
    char range[96];
};

const char *fake_header(const struct request *request, const char *name);
const char *fake_parameter(const struct request *request, const char *name);

/* Appends text escaped as the signature wants it. */
void fake_escape(struct coxi_buffer *to, const char *text, const char *also);

/* NULL: the signature and the digests are right. Otherwise S3's code of the error. */
const char *fake_check_signature(const struct fake_s3 *f,
                                 const struct request *request);

/* Makes a key and its certificate for 127.0.0.1, both as PEM for free(). */
void fake_certificate(char **ret_key, char **ret_certificate);

void fake_md5(const void *data, size_t len, unsigned char ret[16]);

/* Carries a request out; with the lock. */
void fake_do(struct fake_s3 *f, struct request *request, struct answer *answer);
void fake_error(struct answer *answer, unsigned status, const char *code);

/* With the lock. */
struct object *fake_find(struct fake_s3 *f, const char *key);
struct object *fake_make(struct fake_s3 *f, const char *key);
void fake_drop(struct fake_s3 *f, const char *key);
void fake_upload_free(struct upload *upload);

#endif

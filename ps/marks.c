/*
 * See marks.h. A mark is an array of words, {segment, last, n, touched ...} for each
 * segment in rising order. A hash table finds equal marks; each mark counts the
 * closures that use it.
 *
 * Invariant: two marks in use never have equal words.
 *
 * Cost: coxi_marks_with O(words), without allocation if the mark exists.
 */
#include "ps/marks.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/hash.h"
#include "schema/check.h"

enum { BUCKETS_FIRST = 64 };

struct mark {
    struct mark *next; /* in its bucket */
    uint64_t hash;
    uint64_t n_uses;
    uint32_t number;
    uint32_t n_words;
    uint32_t words[];
};

struct coxi_marks {
    struct mark **marks; /* by number; NULL: free */
    uint32_t *free_numbers;
    uint32_t n_free;
    uint32_t n_numbers; /* numbers given out so far, also those that are free again */
    uint32_t capacity;
    struct mark **buckets;
    size_t n_buckets; /* a power of two */
    size_t n_marks;
    size_t bytes; /* of all marks */
    size_t bytes_max;
    struct coxi_buffer scratch;
};

int coxi_marks_new(size_t bytes_max, struct coxi_marks **ret)
{
    struct coxi_marks *marks = calloc(1, sizeof(*marks));
    struct mark **buckets = calloc(BUCKETS_FIRST, sizeof(struct mark *));
    if (marks == NULL || buckets == NULL) {
        free(marks);
        free(buckets);
        return coxi_error_memory("the applied set");
    }
    marks->bytes_max = bytes_max;
    marks->buckets = buckets;
    marks->n_buckets = BUCKETS_FIRST;
    marks->n_numbers = 1; /* 0 is no mark */
    *ret = marks;
    return 0;
}

void coxi_marks_free(struct coxi_marks *marks)
{
    if (marks == NULL) {
        return;
    }
    for (uint32_t i = 1; i < marks->n_numbers; i++) {
        free(marks->marks[i]);
    }
    coxi_buffer_fini(&marks->scratch);
    free(marks->marks);
    free(marks->free_numbers);
    free(marks->buckets);
    free(marks);
}

static const struct mark *mark_of(const struct coxi_marks *marks, uint32_t number)
{
    return number != COXI_MARK_NONE ? marks->marks[number] : NULL;
}

/* ---- reading */

/* Reads the segment whose words begin at `at`; returns where the next segment's words
 * begin. */
static uint32_t read_segment(const struct mark *mark, uint32_t at,
                             struct coxi_segment *ret)
{
    COXI_CHECK(mark != NULL);
    const uint32_t *words = mark->words + at;
    *ret = (struct coxi_segment){words[0], words[1] != 0, words + 3, words[2]};
    return at + 3 + words[2];
}

bool coxi_marks_next(const struct coxi_marks *marks, uint32_t number, uint32_t *at,
                     struct coxi_segment *ret)
{
    const struct mark *mark = mark_of(marks, number);
    if (mark == NULL || *at >= mark->n_words) {
        return false;
    }
    *at = read_segment(mark, *at, ret);
    return true;
}

bool coxi_marks_find(const struct coxi_marks *marks, uint32_t number, uint32_t segment,
                     struct coxi_segment *ret)
{
    uint32_t at = 0;
    while (coxi_marks_next(marks, number, &at, ret)) {
        if (ret->segment == segment) {
            return true;
        }
    }
    return false;
}

/* ---- making */

static int append(struct coxi_buffer *words, const struct coxi_segment *segment)
{
    uint32_t head[3] = {segment->segment, segment->last, (uint32_t)segment->n_touched};
    int r = coxi_buffer_append_raw(words, head, sizeof(head));
    return r == 0 && segment->n_touched > 0
               ? coxi_buffer_append_raw(words, segment->touched,
                                        segment->n_touched * sizeof(uint32_t))
               : r;
}

/* Puts the words of `mark`, with `segment` among them, into scratch. */
static int merge(struct coxi_marks *marks, const struct mark *mark,
                 const struct coxi_segment *segment)
{
    int r = 0;
    bool added = false;
    marks->scratch.len = 0;
    for (uint32_t at = 0; r == 0 && mark != NULL && at < mark->n_words;) {
        struct coxi_segment old;
        at = read_segment(mark, at, &old);
        if (!added && segment->segment < old.segment) {
            r = append(&marks->scratch, segment);
            added = true;
        }
        if (r == 0) {
            r = append(&marks->scratch, &old);
        }
    }
    return r == 0 && !added ? append(&marks->scratch, segment) : r;
}

static struct mark **bucket_of(const struct coxi_marks *marks, uint64_t hash)
{
    return &marks->buckets[hash & (marks->n_buckets - 1)];
}

/* Doubles the buckets, if there is memory; fewer buckets work, too. */
static void spread(struct coxi_marks *marks)
{
    struct mark **old = marks->buckets;
    size_t n_old = marks->n_buckets;
    struct mark **buckets = calloc(n_old * 2, sizeof(struct mark *));
    if (buckets == NULL) {
        return;
    }
    marks->buckets = buckets;
    marks->n_buckets = n_old * 2;
    for (size_t i = 0; i < n_old; i++) {
        for (struct mark *mark = old[i], *next; mark != NULL; mark = next) {
            struct mark **bucket = bucket_of(marks, mark->hash);
            next = mark->next;
            mark->next = *bucket;
            *bucket = mark;
        }
    }
    free(old);
}

/* Takes a free number, with an entry in `marks`. */
static int take_number(struct coxi_marks *marks, uint32_t *ret)
{
    if (marks->n_free > 0) {
        *ret = marks->free_numbers[--marks->n_free];
        return 0;
    }
    if (marks->n_numbers >= marks->capacity) {
        uint32_t capacity = marks->capacity == 0 ? 64 : marks->capacity * 2;
        struct mark **longer = realloc(marks->marks, capacity * sizeof(struct mark *));
        marks->marks = longer != NULL ? longer : marks->marks;
        uint32_t *numbers = realloc(marks->free_numbers, capacity * sizeof(*numbers));
        marks->free_numbers = numbers != NULL ? numbers : marks->free_numbers;
        if (longer == NULL || numbers == NULL) {
            return coxi_error_memory("the applied set");
        }
        marks->capacity = capacity;
    }
    *ret = marks->n_numbers++;
    return 0;
}

/* Makes the mark whose words are in scratch. */
static int make(struct coxi_marks *marks, uint64_t hash, uint32_t *ret)
{
    size_t bytes = sizeof(struct mark) + marks->scratch.len;
    if (bytes > marks->bytes_max - marks->bytes) {
        return coxi_error(COX_ELIMIT,
                          "the closures above the watermark touch ps in too many "
                          "different ways: %zu bytes list them",
                          marks->bytes);
    }
    struct mark *mark = malloc(bytes);
    if (mark == NULL) {
        return coxi_error_memory("the applied set");
    }
    int r = take_number(marks, ret);
    if (r != 0) {
        free(mark);
        return r;
    }
    if (marks->n_marks >= marks->n_buckets) {
        spread(marks);
    }
    struct mark **bucket = bucket_of(marks, hash);
    *mark = (struct mark){
        .next = *bucket,
        .hash = hash,
        .n_uses = 1,
        .number = *ret,
        .n_words = (uint32_t)(marks->scratch.len / sizeof(uint32_t)),
    };
    memcpy(mark->words, marks->scratch.data, marks->scratch.len);
    *bucket = mark;
    marks->marks[*ret] = mark;
    marks->n_marks++;
    marks->bytes += bytes;
    return 0;
}

int coxi_marks_with(struct coxi_marks *marks, uint32_t number,
                    const struct coxi_segment *segment, uint32_t *ret)
{
    int r = merge(marks, mark_of(marks, number), segment);
    if (r != 0) {
        return r;
    }
    size_t len = marks->scratch.len;
    uint64_t hash = coxi_hash_bytes(marks->scratch.data, len).low;
    for (struct mark *mark = *bucket_of(marks, hash); mark != NULL; mark = mark->next) {
        if (mark->hash == hash && mark->n_words == len / sizeof(uint32_t) &&
            memcmp(mark->words, marks->scratch.data, len) == 0) {
            mark->n_uses++;
            *ret = mark->number;
            return 0;
        }
    }
    return make(marks, hash, ret);
}

void coxi_marks_use(struct coxi_marks *marks, uint32_t number, int64_t n)
{
    marks->marks[number]->n_uses += (uint64_t)n;
}

void coxi_marks_drop(struct coxi_marks *marks, uint32_t number)
{
    struct mark *mark = number != COXI_MARK_NONE ? marks->marks[number] : NULL;
    if (mark == NULL || --mark->n_uses > 0) {
        return;
    }
    struct mark **at = bucket_of(marks, mark->hash);
    while (*at != mark) {
        at = &(*at)->next;
    }
    *at = mark->next;
    marks->marks[number] = NULL;
    marks->free_numbers[marks->n_free++] = number;
    marks->n_marks--;
    marks->bytes -= sizeof(*mark) + mark->n_words * sizeof(*mark->words);
    free(mark);
}

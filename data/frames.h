/*
 * Frames: what RecordIO's chunks and TFRecord's records share. A frame is a head, a
 * payload whose length the head tells, and a tail; its checksum is in the head or tail.
 * Nothing marks where a frame begins.
 *
 * Each frame belongs to the task in whose [begin, end) it begins. A task that begins
 * inside a file looks for the first place at which a head is plausible and the checksum
 * holds. Because a payload may contain such a file itself, that place may be wrong. So
 * the task before, which walks from frame to frame, verifies its end: the first frame at
 * or behind `end` must be the one that the next task finds. By induction from the file's
 * beginning, tasks either agree on all boundaries, or one of them is an error.
 *
 * If the file has an index (data/index.h), boundaries are those that it leads to, and
 * payloads may contain such files. The task before looks for the first frame behind its
 * end by the index, too, so that an index with false offsets is an error.
 *
 * A damaged frame is reported by the task that walks to it; so are all that follow it
 * behind the task's end, because the tasks there begin at a frame that is whole.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_FRAMES_H
#define COXI_DATA_FRAMES_H

#include "data/format.h"
#include "data/index.h"

/* A kind of frames. */
struct coxi_frame_kind {
    size_t head; /* bytes; not 0 */
    size_t tail; /* bytes */
    /* The length of the payload. False: no frame has this head. */
    bool (*payload)(const uint8_t *head, uint64_t *ret);
    /* The first place in `n` bytes at which a head may begin, with all its bytes; NULL:
     * there is none. */
    const uint8_t *(*candidate)(const uint8_t *at, size_t n);
    /* Continues a checksum. */
    uint32_t (*sum)(uint32_t sum, const void *data, size_t len);
    /* The checksum that the payload must have. */
    uint32_t (*expected)(const uint8_t *head, const uint8_t *tail);
    const char *name; /* "chunk" */
};

/* A parser's way from frame to frame. */
struct coxi_frames {
    const struct coxi_frame_kind *kind;
    struct coxi_parser *parser;
    uint64_t checked; /* bytes of payloads that were read to find boundaries */
    bool looked;      /* for an index */
    struct coxi_file_index *index; /* NULL: there is none */
    bool ended; /* no frame of the task follows, and its end needs no check */
};

/* A frame in memory, which stays there until the next call. */
struct coxi_frame {
    uint64_t offset;
    const uint8_t *head;
    const uint8_t *payload;
    size_t len;               /* of the payload */
    struct coxi_block *block; /* has them; hold it to keep them */
};

/* Closes the index; takes zeros. */
void coxi_frames_fini(struct coxi_frames *frames);

/* coxi_format.sync. */
int coxi_frames_sync(struct coxi_frames *frames);

/* The task's next frame, whose checksum holds; damaged ones are bad records. COX_EEOF:
 * there is none, and the task's end was verified. COX_EFORMAT also: the file has frames
 * within frames at the task's end. */
int coxi_frames_next(struct coxi_frames *frames, struct coxi_frame *ret);

#endif

/* The script of step `follow` (module probe): numbers that it handles in order. 0 or
 * more: add 1 to the counter of that number, c0, c1 ... */
#ifndef COXI_TESTS_STEPS_FOLLOW_H
#define COXI_TESTS_STEPS_FOLLOW_H

enum follow {
    FOLLOW_FLUSH = -1,
    FOLLOW_FLUSH_BLINDLY = -2, /* and go on whether or not it fails */
    FOLLOW_PULL = -3,          /* c0, and return it as "seen" */
    FOLLOW_FAIL = -4,
    FOLLOW_WAIT = -5,  /* at the FIFO `path`, like step wait_at */
    FOLLOW_SPOIL = -6, /* an update of c0 that is refused */
    FOLLOW_RUN = -7,   /* until it is cancelled, like step wait_cancelled */
};

#endif

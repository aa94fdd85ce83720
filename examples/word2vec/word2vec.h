/* What the client and the steps of the example agree on. */
#ifndef WORD2VEC_H
#define WORD2VEC_H

enum {
    BUCKETS = 1 << 18, /* words are hashed to these many keys */
    DIM = 16,
    WINDOW = 5,    /* neighbours on each side */
    NEGATIVES = 5, /* drawn words for each word */
};

#define FREQUENT                                                                       \
    0.003 /* words with a larger share of the text are dropped now and then */

#endif

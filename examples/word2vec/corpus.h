/* A text with a planted model, so that it is known which words are alike. Plain C, no
 * Coxswain in here. */
#ifndef WORD2VEC_CORPUS_H
#define WORD2VEC_CORPUS_H

enum { CORPUS_WORDS = 500, CORPUS_FACTORS = 4 };

/*
 * Writes n_lines lines of 20 words w0 ... w499. Each word has CORPUS_FACTORS latent
 * numbers, and each line a point among them: the nearer a word is to the point, the
 * likelier it is in the line; besides, words follow a power law. 0, or -1 with errno set.
 */
int corpus_write(const char *path, long n_lines);

/* How alike two words are: the cosine of their latent numbers. */
double corpus_similarity(int a, int b);

#endif

/*
 * Decides which keys of a table get rows (coxswain.h, struct cox_lifecycle): keys that
 * have come often enough, or that are drawn by chance.
 *
 * A sketch counts how often each key has come. It has eight MiB of counters. Hashing
 * assigns four of them to each key, and other keys share them; the lowest of the four
 * is the key's count (Cormode, Muthukrishnan: An improved data stream summary, 2005;
 * with the update of Estan, Varghese, 2002, which raises no counter further than it
 * must). So a count is never too low. The more keys without rows have come, the more of
 * them get rows too early: with admit_count 2, about one in thirty if a million such
 * keys have come, and a third if three million have.
 */
#ifndef COXI_PS_ADMISSION_H
#define COXI_PS_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

struct coxi_admission;

/* Counts stop here: a higher admit_count means the same as this one. */
enum { COXI_ADMIT_COUNT_MAX = 65535 };

/* *ret is NULL if every key is admitted with its first update. */
int coxi_admission_new(const struct coxi_lifecycle *lifecycle,
                       struct coxi_admission **ret);
void coxi_admission_free(struct coxi_admission *admission); /* takes NULL */

/* The bytes of memory that `admission` takes; 0 for NULL. */
size_t coxi_admission_bytes(const struct coxi_admission *admission);

/*
 * Counts an update of a key that has no row, and tells whether the key gets one. `draw`
 * is a number of the commit: the same number gives the same answer. One thread at a
 * time for a key, any number for other keys.
 */
bool coxi_admission_ask(struct coxi_admission *admission, uint64_t key, uint64_t draw);

#endif

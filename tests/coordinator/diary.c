/* See diary.h. */
#include "tests/coordinator/diary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

void diary_note(void *arg, const struct cox_event *event)
{
    struct diary *diary = arg;
    struct cox_coordinator *c = atomic_load(&diary->c);
    if (c != NULL) {
        struct cox_stats stats = COX_STATS_INIT;
        atomic_store(&diary->stats_code, cox_stats(c, &stats));
        atomic_store(&diary->close_code, cox_close(c, 0));
    }
    (void)pthread_mutex_lock(&diary->lock);
    if (diary->n < DIARY_MAX) {
        diary->events[diary->n] = *event;
        (void)snprintf(diary->texts[diary->n], sizeof(diary->texts[0]), "%s",
                       event->text);
        diary->n++;
    }
    (void)pthread_mutex_unlock(&diary->lock);
}

bool diary_find(void *arg)
{
    struct diary *diary = arg;
    (void)pthread_mutex_lock(&diary->lock);
    size_t i = diary->from;
    while (i < diary->n && diary->events[i].code != diary->code) {
        i++;
    }
    bool found = i < diary->n;
    diary->found = i;
    (void)pthread_mutex_unlock(&diary->lock);
    return found;
}

const struct cox_event *diary_await(struct diary *diary, enum cox_event_code code,
                                    const char *text)
{
    char what[64];
    (void)snprintf(what, sizeof(what), "event %d", code);
    diary->code = code;
    coxi_test_until(diary_find, diary, what);
    diary->from = diary->found + 1;
    if (strstr(diary->texts[diary->found], text) == NULL) {
        fail_msg("event %d says '%s', not '%s'", code, diary->texts[diary->found],
                 text);
    }
    return &diary->events[diary->found];
}

struct diary *diary_new(void)
{
    struct diary *diary = calloc(1, sizeof(*diary));
    assert_non_null(diary);
    (void)pthread_mutex_init(&diary->lock, NULL);
    return diary;
}

struct diary *diary_open(struct crew *crew, const char *module,
                         struct cox_options *options)
{
    struct diary *diary = diary_new();
    options->on_event = diary_note;
    options->event_arg = diary;
    crew_open(crew, 2, 2, module, options);
    return diary;
}

void diary_close(struct crew *crew, struct diary *diary)
{
    crew_close(crew);
    (void)pthread_mutex_destroy(&diary->lock);
    free(diary);
}

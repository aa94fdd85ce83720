/* A client that is started again with its checkpoint directory goes on from there. */
#include <stdio.h>

#include "tests/coordinator/checkpoints/resuming.h"
#include "tests/coordinator/yard.h"
#include "tests/test.h"

/* ---- a local cluster, which ends with its client */

static void open_counting(struct crew *crew, struct cox_variable *counters[RESUMING_PS])
{
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(crew, RESUMING_PS, 2, "counter", &options);
    counters[0] = crew_counter(crew, "c0");
    counters[1] = crew_counter(crew, "c1");
}

static void assert_counters(struct crew *crew,
                            struct cox_variable *const counters[RESUMING_PS], int64_t a,
                            int64_t b)
{
    assert_int_equal(a, crew_read(crew, counters[0]));
    assert_int_equal(b, crew_read(crew, counters[1]));
}

TEST(a_client_goes_on_from_its_newest_checkpoint)
{
    struct crew crew;
    struct cox_variable *counters[RESUMING_PS];
    const int64_t seven = 7;
    uint64_t number = 0;
    open_counting(&crew, counters);
    uint64_t run = cox_run_id(crew.c);
    struct cox_progress progress = resuming_progress(&crew);
    assert_int_equal(1, progress.generation);
    assert_int_equal(0, progress.checkpoint);
    assert_int_equal(0, progress.cursor);
    resuming_schedule(&crew, "count", RESUMING_PS, 1, 100);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_variable_add(crew.c, counters[1], &seven, sizeof(seven)));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    resuming_schedule(&crew, "count", RESUMING_PS, 101,
                      /* after the checkpoint, so the next client does not know them */
                      50);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);

    open_counting(&crew, counters);
    progress = resuming_progress(&crew);
    assert_true(run == cox_run_id(crew.c));
    assert_int_equal(2, progress.generation);
    assert_int_equal(1, progress.checkpoint);
    assert_int_equal(100, progress.cursor);
    assert_int_equal(0, progress.rerun);
    assert_counters(&crew, counters, 100, 107);
    resuming_schedule(&crew, "count", RESUMING_PS, 101, 50);
    assert_code(0, cox_join(crew.c, -1));
    assert_counters(&crew, counters, 150, 157);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, &number));
    assert_int_equal(2, number);
    crew_close(&crew);

    open_counting(&crew, counters);
    progress = resuming_progress(&crew);
    assert_int_equal(3, progress.generation);
    assert_int_equal(150, progress.cursor);
    assert_counters(&crew, counters, 150, 157);
    crew_close(&crew);
}

TEST(calls_without_a_cursor_do_not_hide_those_before_them)
{
    struct crew crew;
    struct cox_variable *counters[RESUMING_PS];
    /* the second client schedules no calls with a cursor */
    for (uint64_t i = 0; i < 2; i++) {
        open_counting(&crew, counters);
        assert_int_equal(i * 100, resuming_progress(&crew).cursor);
        resuming_schedule(&crew, "count", RESUMING_PS, 1 + i * 100, (1 - i) * 100);
        assert_code(0, cox_join(crew.c, -1));
        for (int k = 0; k < 10; k++) {
            assert_code(
                0, cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL));
        }
        assert_code(0, cox_join(crew.c, -1));
        assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
        crew_close(&crew);
    }
    open_counting(&crew, counters);
    assert_int_equal(100, resuming_progress(&crew).cursor);
    assert_counters(&crew, counters, 100, 100);
    crew_close(&crew);
}

TEST(a_client_that_had_no_checkpoint_yet_begins_anew)
{
    struct crew crew;
    struct cox_variable *counters[RESUMING_PS];
    open_counting(&crew, counters);
    uint64_t run = cox_run_id(crew.c);
    resuming_schedule(&crew, "count", RESUMING_PS, 1, 10);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    open_counting(&crew, counters);
    assert_true(run == cox_run_id(crew.c));
    assert_int_equal(2, resuming_progress(&crew).generation);
    assert_int_equal(0, resuming_progress(&crew).checkpoint);
    assert_counters(&crew, counters, 0, 0);
    crew_close(&crew);
}

TEST(a_client_may_go_on_from_an_older_checkpoint)
{
    struct crew crew;
    struct cox_variable *counters[RESUMING_PS];
    uint64_t number = 0;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    open_counting(&crew, counters);
    for (uint64_t i = 0; i < 3; i++) {
        resuming_schedule(&crew, "count", RESUMING_PS, 1 + i * 10, 10);
        assert_code(0, cox_join(crew.c, -1));
        assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    }
    crew_close(&crew);
    options.resume_from = 2;
    crew_open(&crew, RESUMING_PS, 2, "counter", &options);
    counters[0] = crew_counter(&crew, "c0");
    counters[1] = crew_counter(&crew, "c1");
    assert_int_equal(2, resuming_progress(&crew).checkpoint);
    assert_int_equal(20, resuming_progress(&crew).cursor);
    assert_counters(&crew, counters, 20, 20);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, &number));
    assert_int_equal(4, number);
    crew_close(&crew);
}

TEST(a_variable_attaches_if_it_is_the_same)
{
    struct crew crew;
    struct cox_variable *counters[RESUMING_PS];
    struct cox_variable *found;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    open_counting(&crew, counters);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(&crew, RESUMING_PS, 1, "counter", &options);
    spec.name = "c0";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 2;
    assert_code(COX_ECONFLICT, cox_variable_create(crew.c, &spec, &found));
    assert_error_names("'c0'");
    spec.shape[0] = 1;
    assert_code(0, cox_variable_get(crew.c, "c1", &found));
    assert_code(0, cox_variable_create(crew.c, &spec, &counters[0]));
    assert_code(COX_EEXIST, cox_variable_create(crew.c, &spec, &found));
    spec.name = "new";
    assert_code(0, cox_variable_create(crew.c, &spec, &found));
    crew_close(&crew);
}

TEST(a_directory_of_another_number_of_ps_is_refused)
{
    struct crew crew;
    struct cox_variable *counters[RESUMING_PS];
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    open_counting(&crew, counters);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    assert_code(0, cox_cluster_local(RESUMING_PS + 1, 1, &cluster));
    assert_code(COX_ECONFLICT, cox_open(cluster, &options, &c));
    assert_error_names("is of 2 ps");
    options.resume = -1;
    assert_code(COX_EEXIST, cox_open(cluster, &options, &c));
    cox_cluster_free(cluster);
}

/* ---- a ps that stays while another client takes over */

TEST(a_ps_is_set_back_in_place_and_the_client_before_is_fenced_off)
{
    struct yard yard;
    const int64_t seven = 7;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    options.min_workers = 0;
    yard_open(&yard, &options);
    assert_code(0, cox_variable_add(yard.crew.c, yard.counter, &seven, sizeof(seven)));
    assert_code(0, cox_checkpoint_save(yard.crew.c, NULL, NULL));
    assert_code(0, cox_variable_add(yard.crew.c, yard.counter, &seven, sizeof(seven)));
    struct crew old = yard.crew;
    struct cox_variable *old_counter = yard.counter;
    char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("second"));
    options.listen = listen;
    yard_open_client(&yard, &options);
    assert_int_equal(7, crew_read(&yard.crew, yard.counter));
    assert_code(COX_EFENCED,
                cox_variable_add(old.c, old_counter, &seven, sizeof(seven)));
    assert_code(COX_EFENCED, cox_checkpoint_save(old.c, NULL, NULL));
    (void)cox_close(old.c, 1000);
    assert_int_equal(7, crew_read(&yard.crew, yard.counter));
    assert_code(0, cox_checkpoint_save(yard.crew.c, NULL, NULL));
    yard_close(&yard);
}

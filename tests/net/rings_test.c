/* Rings of bytes in shared memory. Both sides are in this process, each with its mapping. */
#include "net/rings.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"
#include "tests/test.h"

struct both {
    struct coxi_rings *maker;
    struct coxi_rings *opener;
};

static void both_open(struct both *both)
{
    assert_code(0, coxi_rings_new(COXI_RING_MIN, NULL, &both->maker));
    assert_code(0, coxi_rings_open(coxi_rings_name(both->maker), &both->opener));
}

static void both_close(struct both *both)
{
    coxi_rings_free(both->maker);
    coxi_rings_free(both->opener);
}

static uint8_t byte_at(uint64_t at)
{
    return (uint8_t)(at * 2654435761u >> 13);
}

/* Writes or reads up to n bytes of an endless pattern, in one piece; returns how
 * many. */
static size_t write_some(struct coxi_rings *rings, uint64_t at, size_t n)
{
    size_t room;
    uint8_t *to = coxi_rings_room(rings, &room);
    n = n < room ? n : room;
    for (size_t i = 0; i < n; i++) {
        to[i] = byte_at(at + i);
    }
    coxi_rings_wrote(rings, n);
    return n;
}

static size_t read_some(struct coxi_rings *rings, uint64_t at, size_t n)
{
    size_t len;
    const uint8_t *from = coxi_rings_data(rings, &len);
    n = n < len ? n : len;
    for (size_t i = 0; i < n; i++) {
        if (from[i] != byte_at(at + i)) {
            fail_msg("byte %llu is wrong", (unsigned long long)(at + i));
        }
    }
    coxi_rings_took(rings, n);
    return n;
}

static void check_bytes(struct coxi_rings *from, struct coxi_rings *to)
{
    uint64_t random = 5;
    uint64_t written = 0;
    uint64_t taken = 0;
    while (written < 20 * COXI_RING_MIN) {
        written += write_some(from, written, coxi_rand(&random) % COXI_RING_MIN);
        taken += read_some(to, taken, coxi_rand(&random) % COXI_RING_MIN);
    }
    while (taken < written) {
        taken += read_some(to, taken, COXI_RING_MIN);
    }
}

TEST(rings_carry_bytes_in_order_both_ways)
{
    struct both both;
    both_open(&both);
    check_bytes(both.maker, both.opener);
    check_bytes(both.opener, both.maker);
    both_close(&both);
}

TEST(rings_have_room_for_their_size_and_again_for_what_was_taken)
{
    struct both both;
    size_t room;
    both_open(&both);
    assert_int_equal(COXI_RING_MIN, write_some(both.maker, 0, SIZE_MAX));
    assert_int_equal(0, write_some(both.maker, COXI_RING_MIN, 1));
    assert_false(coxi_rings_ask_room(both.maker, 1));
    assert_int_equal(1000, read_some(both.opener, 0, 1000));
    assert_true(coxi_rings_ask_room(both.maker, 1000));
    assert_false(coxi_rings_ask_room(both.maker, 1001));
    (void)coxi_rings_room(both.maker, &room);
    assert_int_equal(1000, room);
    both_close(&both);
}

/* ---- waiting */

struct waiter {
    struct coxi_rings *rings;
    size_t room; /* 0: waits for data */
    uint32_t heard;
    pthread_t thread;
};

static void waiter_start(struct waiter *waiter, void *(*run)(void *))
{
    waiter->heard = coxi_rings_listen(waiter->rings);
    assert_false(waiter->room > 0 ? coxi_rings_ask_room(waiter->rings, waiter->room)
                                  : coxi_rings_ask_data(waiter->rings));
    assert_code(0, coxi_thread_start(&waiter->thread, "test:waiter", run, waiter));
}

static void *wait_once(void *arg)
{
    struct waiter *waiter = arg;
    coxi_rings_wait(waiter->rings, waiter->heard);
    return NULL;
}

TEST(rings_wake_who_waits_for_data_and_for_room)
{
    struct both both;
    both_open(&both);
    struct waiter reader = {.rings = both.opener};
    waiter_start(&reader, wait_once);
    assert_int_equal(COXI_RING_MIN, write_some(both.maker, 0, SIZE_MAX));
    assert_int_equal(0, pthread_join(reader.thread, NULL));
    struct waiter writer = {.rings = both.maker, .room = 1};
    waiter_start(&writer, wait_once);
    assert_int_equal(1, read_some(both.opener, 0, 1));
    assert_int_equal(0, pthread_join(writer.thread, NULL));
    both_close(&both);
}

TEST(rings_wake_all_who_wait_on_their_own_side)
{
    struct both both;
    both_open(&both);
    struct waiter waiters[] = {{.rings = both.maker}, {.rings = both.maker}};
    waiter_start(&waiters[0], wait_once);
    waiter_start(&waiters[1], wait_once);
    coxi_rings_wake(both.maker);
    assert_int_equal(0, pthread_join(waiters[0].thread, NULL));
    assert_int_equal(0, pthread_join(waiters[1].thread, NULL));
    both_close(&both);
}

/* A side that reads like a link: everything that has come, and then it sleeps. */
static void *read_all(void *arg)
{
    struct waiter *waiter = arg;
    uint64_t taken = 0;
    while (taken < 50 * (uint64_t)COXI_RING_MIN) {
        uint32_t heard = coxi_rings_listen(waiter->rings);
        size_t n = read_some(waiter->rings, taken, 10000);
        taken += n;
        if (n == 0 && !coxi_rings_ask_data(waiter->rings)) {
            coxi_rings_wait(waiter->rings, heard);
        }
    }
    return NULL;
}

TEST(rings_lose_no_wake_up)
{
    struct both both;
    uint64_t written = 0;
    both_open(&both);
    struct waiter reader = {.rings = both.opener};
    waiter_start(&reader, read_all);
    while (written < 50 * (uint64_t)COXI_RING_MIN) {
        uint32_t heard = coxi_rings_listen(both.maker);
        size_t n = write_some(both.maker, written, 777);
        written += n;
        if (n == 0 && !coxi_rings_ask_room(both.maker, 1)) {
            coxi_rings_wait(both.maker, heard);
        }
    }
    assert_int_equal(0, pthread_join(reader.thread, NULL));
    both_close(&both);
}

/* ---- bells that rings share */

static void both_open_at(struct both *both, struct coxi_bell *bell)
{
    assert_code(0, coxi_rings_new(COXI_RING_MIN, bell, &both->maker));
    assert_code(0, coxi_rings_open(coxi_rings_name(both->maker), &both->opener));
}

/* Waits at a bell until data is in one of two rings; returns which. */
struct guest {
    struct coxi_bell *bell;
    struct both *both; /* an array of two */
    pthread_t thread;
    int found; /* -1: none */
};

static void *await_either(void *arg)
{
    struct guest *guest = arg;
    while (guest->found < 0) {
        uint32_t heard = coxi_bell_listen(guest->bell);
        coxi_bell_doze(guest->bell);
        guest->found = coxi_rings_have_data(guest->both[0].maker)   ? 0
                       : coxi_rings_have_data(guest->both[1].maker) ? 1
                                                                    : -1;
        if (guest->found < 0) {
            coxi_bell_wait(guest->bell, heard);
        }
        coxi_bell_rouse(guest->bell);
    }
    return NULL;
}

TEST(bell_wakes_who_waits_for_any_of_its_rings)
{
    struct coxi_bell *bell;
    struct both both[2];
    assert_code(0, coxi_bell_new(&bell));
    both_open_at(&both[0], bell);
    both_open_at(&both[1], bell);
    for (uint64_t i = 0; i < 200; i++) {
        struct guest guest = {.bell = bell, .both = both, .found = -1};
        assert_int_equal(0, pthread_create(&guest.thread, NULL, await_either, &guest));
        (void)write_some(both[i % 2].opener, i / 2 * 8, 8);
        assert_int_equal(0, pthread_join(guest.thread, NULL));
        assert_int_equal(i % 2, guest.found);
        assert_int_equal(8, read_some(both[i % 2].maker, i / 2 * 8, 8));
    }
    both_close(&both[0]);
    both_close(&both[1]);
    coxi_bell_free(bell);
}

TEST(bell_is_rung_for_data_only_while_one_dozes)
{
    struct coxi_bell *bell;
    struct both both;
    assert_code(0, coxi_bell_new(&bell));
    both_open_at(&both, bell);
    uint32_t heard = coxi_bell_listen(bell);
    (void)write_some(both.opener, 0, 8);
    assert_int_equal(heard, coxi_bell_listen(bell));
    coxi_bell_doze(bell);
    (void)write_some(both.opener, 8, 8);
    assert_int_not_equal(heard, coxi_bell_listen(bell));
    coxi_bell_rouse(bell);
    heard = coxi_bell_listen(bell);
    (void)write_some(both.opener, 16, 8);
    assert_int_equal(heard, coxi_bell_listen(bell));
    coxi_rings_wake(both.maker);
    assert_int_not_equal(heard, coxi_bell_listen(bell));
    both_close(&both);
    coxi_bell_free(bell);
}

TEST(bell_rings_for_room_that_was_asked_for)
{
    struct coxi_bell *bell;
    struct both both;
    assert_code(0, coxi_bell_new(&bell));
    both_open_at(&both, bell);
    assert_int_equal(COXI_RING_MIN, write_some(both.maker, 0, COXI_RING_MIN));
    uint32_t heard = coxi_bell_listen(bell);
    assert_false(coxi_rings_ask_room(both.maker, 1));
    (void)read_some(both.opener, 0, 8);
    assert_int_not_equal(heard, coxi_bell_listen(bell));
    both_close(&both);
    coxi_bell_free(bell);
}

/* ---- what is not to be opened, or not to be trusted */

TEST(rings_open_only_under_the_name_that_they_have)
{
    struct coxi_rings *rings;
    struct coxi_rings *none = NULL;
    char name[COXI_RINGS_NAME_MAX + 8];
    static const char *const wrong[] = {
        "",
        "1",
        "v1/0/0/-1/0/0",
        "v1/-1/3/-1/131072/0123",
        "x/y/z/w",
        "v1/1/2/-1/99999999999999999999/1",
        "v1/1/1/-1/131072/00000000000000000000000000000000"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_code(COX_EADDRESS, coxi_rings_open(wrong[i], &none));
    }
    assert_code(0, coxi_rings_new(COXI_RING_MIN, NULL, &rings));
    (void)snprintf(name, sizeof(name), "%s", coxi_rings_name(rings));
    char *last = &name[strlen(name) - 1];
    *last = *last == '0' ? '1' : '0';
    assert_code(COX_EADDRESS, coxi_rings_open(name, &none)); /* another secret */
    (void)snprintf(name, sizeof(name), "%s0", coxi_rings_name(rings));
    assert_code(COX_EADDRESS, coxi_rings_open(name, &none));
    (void)snprintf(name, sizeof(name), "%s", coxi_rings_name(rings));
    coxi_rings_hide(rings);
    assert_code(COX_EADDRESS, coxi_rings_open(name, &none));
    assert_null(none);
    coxi_rings_free(rings);
}

TEST(rings_do_not_open_in_a_build_with_another_layout)
{
    struct coxi_rings *rings;
    struct coxi_rings *none = NULL;
    char name[2 * COXI_RINGS_NAME_MAX];
    char rest[COXI_RINGS_NAME_MAX];
    int layout;
    assert_code(0, coxi_rings_new(COXI_RING_MIN, NULL, &rings));
    /* NOLINTNEXTLINE(cert-err34-c) */
    assert_int_equal(2, sscanf(coxi_rings_name(rings), "v%d/%95s", &layout, rest));
    assert_int_equal(COXI_RINGS_LAYOUT, layout);
    for (int other = layout - 1; other <= layout + 1; other += 2) {
        (void)snprintf(name, sizeof(name), "v%d/%s", other, rest);
        assert_code(COX_EADDRESS, coxi_rings_open(name, &none));
    }
    /* the name of a build without the layout number */
    (void)snprintf(name, sizeof(name), "%s", rest);
    assert_code(COX_EADDRESS, coxi_rings_open(name, &none));
    assert_null(none);
    coxi_rings_free(rings);
}

TEST(rings_do_not_open_with_another_bell)
{
    struct coxi_bell *bells[2];
    struct coxi_rings *rings;
    struct coxi_rings *none = NULL;
    char rest[COXI_RINGS_NAME_MAX];
    int pid, fd, bell_fd;
    assert_code(0, coxi_bell_new(&bells[0]));
    assert_code(0, coxi_bell_new(&bells[1]));
    assert_code(0, coxi_rings_new(COXI_RING_MIN, bells[0], &rings));
    /* NOLINTNEXTLINE(cert-err34-c) */
    assert_int_equal(4, sscanf(coxi_rings_name(rings), "v1/%d/%d/%d/%95s", &pid, &fd,
                               &bell_fd, rest));
    for (int other = 0; other < bell_fd + 8; other++) { /* the other one among them */
        char name[2 * COXI_RINGS_NAME_MAX];
        (void)snprintf(name, sizeof(name), "v1/%d/%d/%d/%s", pid, fd, other, rest);
        if (other != bell_fd) {
            assert_code(COX_EADDRESS, coxi_rings_open(name, &none));
        }
    }
    assert_null(none);
    coxi_rings_free(rings);
    coxi_bell_free(bells[0]);
    coxi_bell_free(bells[1]);
}

static void assert_not_opened(int fd)
{
    struct coxi_rings *none = NULL;
    char name[COXI_RINGS_NAME_MAX];
    (void)snprintf(name, sizeof(name), "v1/%d/%d/-1/%d/%032d", (int)getpid(), fd,
                   COXI_RING_MIN, 0);
    assert_code(COX_EADDRESS, coxi_rings_open(name, &none));
    (void)close(fd);
}

TEST(rings_do_not_open_what_is_no_such_memory)
{
    int pipe_fds[2];
    assert_int_equal(0, pipe(pipe_fds));
    assert_not_opened(pipe_fds[0]);
    assert_not_opened(pipe_fds[1]);
    assert_not_opened(open("/dev/null", O_RDWR | O_CLOEXEC));
    /* Of the right size, but its owner could make it shorter while we read. */
    int fd = memfd_create("coxswain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(0, ftruncate(fd, 4096 + 2 * COXI_RING_MIN));
    assert_not_opened(fd);
    /* Memory that is too short. */
    fd = memfd_create("coxswain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(0,
                     fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    assert_not_opened(fd);
}

TEST(rings_are_broken_by_counts_that_cannot_be)
{
    struct both both;
    char path[64];
    int pid, fd;
    size_t len;
    both_open(&both);
    assert_int_equal(2, sscanf(coxi_rings_name(both.maker), "v1/%d/%d", &pid, &fd));
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    int other = open(path, O_RDWR | O_CLOEXEC);
    uint8_t *head = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    assert_true(head != MAP_FAILED);
    memset(head + 64, 0x5a, 1024); /* the counts of both */
    (void)coxi_rings_data(both.opener, &len);
    assert_int_equal(0, len);
    assert_true(coxi_rings_broken(both.opener));
    assert_true(coxi_rings_ask_data(both.opener)); /* broken rings: nobody may wait */
    (void)coxi_rings_room(both.maker, &len);
    assert_int_equal(0, len);
    assert_true(coxi_rings_broken(both.maker));
    assert_int_equal(0, munmap(head, 4096));
    (void)close(other);
    both_close(&both);
}

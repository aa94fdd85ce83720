/* Lines of the log that members cause: however often, there are few. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

enum { TIMES = 3 * COXI_SELDOM_SOME };

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};

/* The most lines of a kind in a log that began at `from_ms`. */
static int bound(uint64_t from_ms)
{
    return (int)((coxi_now_ms() - from_ms) / COXI_SELDOM_MS + 1) * COXI_SELDOM_SOME;
}

static int count(const char *log, const char *what)
{
    int n = 0;
    for (const char *at = log; (at = strstr(at, what)) != NULL; at++) {
        n++;
    }
    return n;
}

/* Restores, and snapshots, that fail, and claims of ever newer generations. */
static void fill_log(struct harbour *h)
{
    struct coxi_psc *psc = harbour_dial(h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(psc, &run1));
    for (uint64_t i = 0; i < TIMES; i++) {
        struct coxi_message message = {.kind = COXI_RESTORE};
        message.restore =
            (struct coxi_restore){.session = run1,
                                  .incarnation = coxi_psc_incarnation(psc),
                                  .round = 1,
                                  .path = "nowhere"};
        assert_int_not_equal(0, harbour_ask(psc, &message, COXI_STATUS));
        message = (struct coxi_message){.kind = COXI_SNAPSHOT};
        message.snapshot =
            (struct coxi_snapshot){.session = run1,
                                   .incarnation = coxi_psc_incarnation(psc),
                                   .path = "nowhere"};
        assert_int_not_equal(0, harbour_ask(psc, &message, COXI_SNAPSHOT_DONE));
    }
    coxi_psc_close(psc);
    for (uint64_t i = 0; i < TIMES; i++) {
        const struct coxi_session next = {.run = 1, .generation = 2 + i, .token = 9};
        psc = harbour_dial(h, COXI_ROLE_CLIENT, &next);
        assert_code(0, harbour_claim(psc, &next));
        coxi_psc_close(psc);
    }
}

TEST(a_member_does_not_fill_the_log)
{
    const char *path = coxi_test_path("log");
    int fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    struct harbour h;
    uint64_t from_ms = coxi_now_ms();
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    coxi_log_to(fd);
    harbour_open(&h, harbour_ipc());
    fill_log(&h);
    harbour_close(&h);
    coxi_log_to(STDERR_FILENO);
    coxi_log_init("client", 0, COXI_LOG_WARN);
    assert_int_equal(0, close(fd));
    char *log = coxi_test_read(path, NULL);
    assert_in_range(count(log, "event=restore"), COXI_SELDOM_SOME, bound(from_ms));
    assert_in_range(count(log, "event=snapshot_failed"), COXI_SELDOM_SOME,
                    bound(from_ms));
    assert_in_range(count(log, "event=claim"), COXI_SELDOM_SOME, bound(from_ms));
    free(log);
}

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log_json.h"
#include "common/rand.h"
#include "tests/test.h"

/* Returns the lines that `speak` writes to standard error, for free(). */
static char *logged(void (*speak)(void))
{
    char *path = coxi_test_path("log");
    int saved = dup(STDERR_FILENO);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    (void)dup2(fd, STDERR_FILENO);
    speak();
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)close(fd);
    return coxi_test_read(path, NULL);
}

/* Matches a whole line without its newline. */
static void assert_line(const char *line, const char *behind_time)
{
    char pattern[512] = "^ts=[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:"
                        "[0-6][0-9]\\.[0-9]{3}Z ";
    regex_t regex;
    (void)strncat(pattern, behind_time, sizeof(pattern) - strlen(pattern) - 1);
    assert_int_equal(0, regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB));
    int r = regexec(&regex, line, 0, NULL, 0);
    regfree(&regex);
    if (r != 0) {
        fail_msg("'%s' does not match '%s'", line, pattern);
    }
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

static void speak_once(void)
{
    coxi_log_init("ps", 3, COXI_LOG_INFO);
    coxi_log(COXI_LOG_INFO, "listening", "address=%s backlog=%d", "tcp://h:1", 5);
}

TEST(an_event_is_one_line_of_key_and_value)
{
    char *text = logged(speak_once);
    assert_line(text, "level=info role=ps index=3 event=listening address=tcp://h:1 "
                      "backlog=5\n$");
    free(text);
}

static void speak_at_each_level(void)
{
    for (int least = COXI_LOG_DEBUG; least <= COXI_LOG_ERROR; least++) {
        coxi_log_init("worker", 0, (enum coxi_log_level)least);
        for (int level = COXI_LOG_DEBUG; level <= COXI_LOG_ERROR; level++) {
            coxi_log((enum coxi_log_level)level, "tried", "least=%d", least);
        }
    }
}

TEST(what_is_below_the_level_is_not_written)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char *text = logged(speak_at_each_level);
    assert_int_equal(4 + 3 + 2 + 1, count_lines(text));
    for (int least = 0; least < 4; least++) {
        for (int level = 0; level < 4; level++) {
            char part[128];
            (void)snprintf(part, sizeof(part),
                           "level=%s role=worker index=0 event=tried least=%d\n",
                           names[level], least);
            assert_int_equal(level >= least, strstr(text, part) != NULL);
        }
    }
    free(text);
}

TEST(levels_are_parsed_by_name_only)
{
    enum coxi_log_level level = COXI_LOG_WARN;
    assert_code(COX_EINVAL, coxi_log_level_parse("loud", &level));
    assert_error_names("'loud'");
    assert_error_names("debug, info, warn, error");
    assert_code(COX_EINVAL, coxi_log_level_parse("", &level));
    assert_code(COX_EINVAL, coxi_log_level_parse("INFO", &level));
    assert_int_equal(COXI_LOG_WARN, level);
    assert_code(0, coxi_log_level_parse("debug", &level));
    assert_int_equal(COXI_LOG_DEBUG, level);
    assert_code(0, coxi_log_level_parse("error", &level));
    assert_int_equal(COXI_LOG_ERROR, level);
}

static void speak_long(void)
{
    static char words[10000];
    memset(words, 'w', sizeof(words) - 1);
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    coxi_log(COXI_LOG_INFO, "long", "text=%s", words);
    coxi_log(COXI_LOG_INFO, "short", "n=%d", 1);
}

TEST(a_long_event_is_cut_and_still_one_line)
{
    char *text = logged(speak_long);
    assert_int_equal(2, count_lines(text));
    assert_in_range(strcspn(text, "\n"), 1000, 4096);
    assert_line(strchr(text, '\n') + 1,
                "level=info role=ps index=0 event=short n=1\n$");
    free(text);
}

static void speak_with_breaks(void)
{
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    coxi_log(COXI_LOG_INFO, "refused", "error=\"%s\"",
             "first\nts=2026-01-01T00:00:00.000Z level=info event=forged\r\x1b[2J");
}

TEST(a_line_break_in_a_value_starts_no_line)
{
    char *text = logged(speak_with_breaks);
    assert_int_equal(1, count_lines(text));
    for (const char *c = text; *c != '\n'; c++) {
        assert_true((unsigned char)*c >= ' ');
    }
    assert_line(text,
                "level=info role=ps index=0 event=refused error=\"first\\\\x0ats=2026");
    free(text);
}

static int errno_kept[2];

static void speak_with_errno(void)
{
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    errno = ENOSPC;
    coxi_log(COXI_LOG_INFO, "kept", "n=%d", 1);
    errno_kept[0] = errno;
    (void)close(STDERR_FILENO);
    errno = ENOSPC;
    coxi_log(COXI_LOG_INFO, "lost", "n=%d", 2);
    errno_kept[1] = errno;
}

TEST(logging_keeps_errno_even_where_it_cannot_write)
{
    char *text = logged(speak_with_errno);
    assert_int_equal(1, count_lines(text));
    free(text);
    assert_int_equal(ENOSPC, errno_kept[0]);
    assert_int_equal(ENOSPC, errno_kept[1]);
}

enum { N_THREADS = 4, N_LINES = 300 };

static void *speak_often(void *arg)
{
    for (int i = 0; i < N_LINES; i++) {
        coxi_log(COXI_LOG_INFO, "said", "by=%c%0200d", *(const char *)arg, i);
    }
    return NULL;
}

static void speak_from_threads(void)
{
    pthread_t threads[N_THREADS];
    static const char names[] = "abcd";
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    for (size_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(
            0, pthread_create(&threads[i], NULL, speak_often, (void *)&names[i]));
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
}

TEST(lines_of_many_threads_do_not_mix)
{
    char *text = logged(speak_from_threads);
    int next[N_THREADS] = {0};
    char *saved = NULL;
    size_t n = 0;
    for (char *line = strtok_r(text, "\n", &saved); line != NULL;
         line = strtok_r(NULL, "\n", &saved), n++) {
        char *by = strstr(line, " event=said by=");
        assert_non_null(by);
        assert_int_equal(1 + 200, strlen(by + 15));
        assert_in_range(by[15], 'a', 'd');
        assert_int_equal(next[by[15] - 'a']++, atoi(by + 16));
    }
    assert_int_equal(N_THREADS * N_LINES, n);
    free(text);
}

/* ---- the bound */

enum { BOUND = 4000 };

static void speak_lines(unsigned n)
{
    static unsigned number;
    for (unsigned i = 0; i < n; i++) {
        coxi_log(COXI_LOG_INFO, "spoken", "number=%u.", number++);
    }
}

/* Standard error as a file, opened as a shell does for `2> FILE`; and the original
 * standard error. */
static int take_log(const char *path)
{
    int saved = dup(STDERR_FILENO);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    return saved;
}

static void give_back(int saved)
{
    coxi_log_bound(0);
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
}

static void assert_has(const char *path, const char *part, bool has)
{
    char *text = coxi_test_read(path, NULL);
    if ((strstr(text, part) != NULL) != has) {
        fail_msg("%s: '%s' in '%s'", path, part, text);
    }
    free(text);
}

TEST(a_long_log_moves_and_begins_anew)
{
    char *path = coxi_test_path("log");
    char *older = coxi_test_path("log.1");
    size_t len = 0;
    int saved = take_log(path);
    coxi_log_bound(BOUND);
    speak_lines(10); /* 0 to 9 */
    coxi_log_trim();
    bool early = access(older, F_OK) == 0;
    speak_lines(BOUND / 50); /* 10 to 89 */
    coxi_log_trim();
    speak_lines(1); /* 90 */
    int moved = access(older, F_OK);
    free(coxi_test_read(path, &len));
    speak_lines(BOUND / 50); /* 91 to 170 */
    coxi_log_trim();
    give_back(saved);
    assert_false(early);
    assert_int_equal(0, moved);
    assert_true(len > 0 && len < BOUND); /* the file has no hole: all of it is text */
    assert_has(path, "event=log_rotated older=", true);
    assert_has(path, "number=170.", false);
    /* the first part is gone: the second one has replaced it */
    assert_has(older, "number=89.", false);
    assert_has(older, "number=90.", true);
    assert_has(older, "number=170.", true);
}

TEST(a_log_that_has_been_deleted_is_emptied_and_comes_back_nowhere)
{
    char *path = coxi_test_path("log");
    struct stat st;
    int saved = take_log(path);
    coxi_log_bound(BOUND);
    assert_int_equal(0, unlink(path));
    speak_lines(BOUND / 50);
    coxi_log_trim();
    int r = fstat(STDERR_FILENO, &st);
    give_back(saved);
    assert_int_equal(0, r);
    assert_int_equal(0, st.st_size);
    assert_int_not_equal(0, access(coxi_test_path("log.1"), F_OK));
    assert_int_not_equal(0, access(coxi_test_path("log (deleted).1"), F_OK));
}

TEST(a_log_without_a_bound_and_one_that_is_no_file_are_left_alone)
{
    char *path = coxi_test_path("log");
    int ends[2];
    int saved = take_log(path);
    coxi_log_bound(0);
    speak_lines(BOUND / 50);
    coxi_log_trim();
    assert_int_equal(0, pipe(ends));
    (void)dup2(ends[1], STDERR_FILENO);
    coxi_log_bound(1);
    speak_lines(2);
    coxi_log_trim();
    give_back(saved);
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_not_equal(0, access(coxi_test_path("log.1"), F_OK));
}

/* ---- texts of peers */

static const char *const forged =
    "a\" level=error event=forged\nts=2026 \\ \033[2J\xc3\xb6\x7f";

static void speak_forged(void)
{
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    coxi_log(COXI_LOG_INFO, "heard",
             "peer=%s text=\"%s\" n=%llu of=%zu part=%.3s x=%08x", forged, forged,
             1234567890123ULL, (size_t)7, "abcdef", 255U);
}

TEST(a_peer_cannot_forge_a_line_or_a_field_or_a_terminal_sequence)
{
    char *text = logged(speak_forged);
    assert_int_equal(1, count_lines(text));
    assert_non_null(strstr(
        text, "peer=a\\\"\\x20level=error\\x20event=forged\\x0ats=2026\\x20\\\\\\x20"
              "\\x1b[2J\\xc3\\xb6\\x7f text="));
    assert_non_null(strstr(text,
                           "text=\"a\\\" level=error event=forged\\x0ats=2026 \\\\ "
                           "\\x1b[2J\\xc3\\xb6\\x7f\" n=1234567890123 of=7 part=abc "
                           "x=000000ff\n"));
    for (const char *c = text; *c != '\0'; c++) {
        assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
    }
    free(text);
}

static void speak_at_length(void)
{
    char longest[4096];
    memset(longest, '\n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    coxi_log(COXI_LOG_INFO, "heard", "text=\"%s\"", longest);
}

TEST(an_escape_is_never_cut_in_two)
{
    char *text = logged(speak_at_length);
    size_t len = strlen(text);
    assert_int_equal(1, count_lines(text));
    assert_true(len < 2049 && len > 2000);
    assert_string_equal("\\x0a\n", text + len - 5);
    free(text);
}

TEST(events_that_members_cause_are_told_while_they_are_few)
{
    struct coxi_seldom seldom = {.n = 0};
    uint64_t n = 0;
    for (int i = 0; i < COXI_SELDOM_SOME; i++) {
        assert_true(coxi_seldom_some(&seldom, &n));
        assert_int_equal(1, n);
    }
    for (int i = 0; i < 1000; i++) {
        assert_false(coxi_seldom_some(&seldom, &n));
    }
    atomic_store(&seldom.told_ms, atomic_load(&seldom.told_ms) - COXI_SELDOM_MS);
    assert_true(coxi_seldom_some(&seldom, &n));
    assert_int_equal(1001, n);
    assert_true(coxi_seldom_some(&seldom, &n));
}

TEST(events_that_strangers_cause_are_told_seldom_and_counted)
{
    struct coxi_seldom seldom = {.n = 0};
    uint64_t n = 0;
    assert_true(coxi_seldom(&seldom, &n));
    assert_int_equal(1, n);
    for (int i = 0; i < 1000; i++) {
        assert_false(coxi_seldom(&seldom, &n));
    }
    atomic_store(&seldom.told_ms, atomic_load(&seldom.told_ms) - COXI_SELDOM_MS);
    assert_true(coxi_seldom(&seldom, &n));
    assert_int_equal(1001, n);
}

/* ---- JSON */

enum { N_RANDOM = 3000, LONGEST_TEXT = 300 };

/* Parses a line of the log; for json_decref. */
static json_t *parse(const char *line, size_t len)
{
    json_error_t error;
    json_t *json =
        json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (json == NULL) {
        fail_msg("%s in %.*s", error.text, (int)len, line);
    }
    return json;
}

static void assert_text(json_t *json, const char *key, const char *expected)
{
    const char *text = json_string_value(json_object_get(json, key));
    assert_non_null(text);
    assert_string_equal(expected, text);
}

static void assert_number(json_t *json, const char *key, long long expected)
{
    json_t *number = json_object_get(json, key);
    assert_true(json_is_integer(number));
    assert_int_equal(expected, json_integer_value(number));
}

static void speak_json(void)
{
    coxi_log_init("ps", 3, COXI_LOG_INFO);
    assert_code(0, coxi_log_format("json"));
    coxi_log(COXI_LOG_INFO, "claim",
             "run=%016llx n=%d low=%d text=\"%s\" bare=%s zeros=%s long=%llu",
             0x1234ULL, 5, -7, "\"a\" \\ b\n\xc3\xa4 \xff", "x y=\xe2\x82\xac", "007",
             12345678901234567890ULL);
    coxi_log(COXI_LOG_INFO, "bare", "%s", "word k=v k2=\"un");
    assert_code(0, coxi_log_format("text"));
}

TEST(a_line_of_json_has_the_fields_of_the_line)
{
    char *text = logged(speak_json);
    assert_int_equal(2, count_lines(text));
    size_t len = strcspn(text, "\n");
    json_t *json = parse(text, len);
    assert_int_equal(24, json_string_length(json_object_get(json, "ts")));
    assert_text(json, "level", "info");
    assert_text(json, "role", "ps");
    assert_number(json, "index", 3);
    assert_text(json, "event", "claim");
    assert_text(json, "run", "0000000000001234");
    assert_number(json, "n", 5);
    assert_number(json, "low", -7);
    assert_text(json, "text", "\"a\" \\ b\n\xc3\xa4 \xef\xbf\xbd");
    assert_text(json, "bare", "x y=\xe2\x82\xac");
    assert_text(json, "zeros", "007");
    assert_text(json, "long", "12345678901234567890");
    json_decref(json);
    json = parse(text + len + 1, strlen(text + len + 1));
    assert_true(json_is_true(json_object_get(json, "word")));
    assert_text(json, "k", "v");
    assert_text(json, "k2", "un");
    json_decref(json);
    free(text);
}

static void speak_random(void)
{
    uint64_t seed = 11;
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    assert_code(0, coxi_log_format("json"));
    for (int i = 0; i < N_RANDOM; i++) {
        char text[LONGEST_TEXT + 1] = "";
        size_t len = coxi_rand(&seed) % LONGEST_TEXT;
        for (size_t at = 0; at < len; at++) {
            text[at] = (char)(1 + coxi_rand(&seed) % 255);
        }
        coxi_log(COXI_LOG_INFO, "random", "a=\"%s\" b=%s", text, text);
    }
    assert_code(0, coxi_log_format("text"));
}

TEST(a_line_of_json_is_valid_for_any_bytes)
{
    char *text = logged(speak_random);
    assert_int_equal(N_RANDOM, count_lines(text));
    for (char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        json_decref(parse(line, strcspn(line, "\n")));
    }
    free(text);
}

TEST(json_of_what_is_no_line_stays_in_its_bound)
{
    uint64_t seed = 12;
    for (int i = 0; i < N_RANDOM; i++) {
        char line[LONGEST_TEXT];
        size_t len = coxi_rand(&seed) % LONGEST_TEXT;
        for (size_t at = 0; at < len; at++) {
            line[at] = " =\"\\xa0\x01\xff\xc3\xa4"[coxi_rand(&seed) % 11];
        }
        char *own = malloc(len > 0 ? len : 1); /* so that ASan sees its end */
        char *json = malloc(coxi_log_json_max(len));
        assert_true(own != NULL && json != NULL);
        memcpy(own, line, len);
        size_t n = coxi_log_json(own, len, json);
        assert_true(n <= coxi_log_json_max(len));
        json_decref(json_loadb(json, n, JSON_ALLOW_NUL, NULL));
        free(own);
        free(json);
    }
}

TEST(the_format_is_text_or_json)
{
    assert_code(COX_EINVAL, coxi_log_format("xml"));
    assert_error_names("'xml'");
    assert_int_equal(0, setenv("COX_LOG_FORMAT", "loud", 1));
    assert_code(COX_EINVAL, coxi_log_format(NULL));
    assert_error_names("COX_LOG_FORMAT");
    assert_int_equal(0, setenv("COX_LOG_FORMAT", "json", 1));
    assert_code(0, coxi_log_format(NULL));
    assert_true(coxi_log_is_json());
    assert_code(0,
                coxi_log_format("text")); /* an option comes before the environment */
    assert_false(coxi_log_is_json());
    assert_int_equal(0, unsetenv("COX_LOG_FORMAT"));
    assert_code(0, coxi_log_format(NULL));
    assert_false(coxi_log_is_json());
}

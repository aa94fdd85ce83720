/* Files of backlogs that are refused. */
#include <stdio.h>

#include "checkpoint/backlog.h"
#include "tests/test.h"

/* Writes a backlog of closures 4 to 7, of which 6 ends a round of `first` closures, and 7
 * another one of `second`; returns what opening it does. */
static int open_rounds(uint64_t first, uint64_t second)
{
    struct {
        struct coxi_backlog_round round;
        struct coxi_backlog_part parts[4];
    } args[2] = {0};
    const uint64_t n[2] = {first, second};
    struct coxi_backlog_head heads[4] = {{.closure = 4}, {.closure = 5}};
    for (size_t i = 0; i < 2; i++) {
        uint64_t end = 6 + i;
        args[i].round = (struct coxi_backlog_round){
            .first = end - n[i], .n = n[i], .needed = 1, .sequence = 1, .number = i};
        heads[2 + i] = (struct coxi_backlog_head){
            .closure = end,
            .function = COXI_BACKLOG_ROUND,
            .args_at = i * sizeof(args[0]),
            .args_len = sizeof(args[i].round) + n[i] * sizeof(args[i].parts[0])};
    }
    struct coxi_backlog_function function = {"m.so", "f"};
    const struct coxi_backlog backlog = {.heads = heads,
                                         .n = 4,
                                         .functions = &function,
                                         .n_functions = 1,
                                         .args = (const uint8_t *)args,
                                         .args_len = sizeof(args)};
    static int n_files;
    char name[32];
    (void)snprintf(name, sizeof(name), "backlog-%d", n_files++);
    const char *path = coxi_test_path(name);
    struct coxi_backlog_file *file = NULL;
    uint64_t bytes;
    uint32_t crc;
    assert_code(0, coxi_backlog_write(path, &backlog, &bytes, &crc));
    int r = coxi_backlog_open(path, bytes, crc, &file);
    coxi_backlog_close(file);
    return r;
}

TEST(backlog_with_rounds_that_overlap_is_refused)
{
    assert_code(COX_EFORMAT, open_rounds(2, 1)); /* closure 6 ends the other round */
    assert_code(COX_EFORMAT, open_rounds(2, 3));
}

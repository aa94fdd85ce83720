/* coxswain page: the live page of a run that is over, or of somebody else's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/history_file.h"
#include "checkpoint/place.h"
#include "cli/commands.h"
#include "cli/watcher.h"
#include "common/error.h"
#include "common/file.h"
#include "http/http.h"
#include "net/daemon.h"
#include "page/page.h"

enum { UPDATE_MS = 300 };

struct config {
    const char *http;
    bool http_open;
};

static const struct coxi_option options[] = {
    {.name = "http",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, http),
     .fallback = "127.0.0.1:0",
     .help = "serve the page here: HOST:PORT, or a port of this host; port 0: any that "
             "is free"},
    {.name = "http-open",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, http_open),
     .help = "--http may be an address that other hosts reach: anybody there may read"},
};

static const struct coxi_program program = {
    .name = "coxswain page",
    .usage = "[options] DIR",
    .summary =
        "Serves the live page of the run in a directory, its checkpoint directory "
        "or else its directory\nof logs, and prints the page's address. The run may "
        "be over, or go on. Ends when it is interrupted." COXI_WATCHER_EXIT_HELP,
    .prefix = "COX_PAGE",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

struct served {
    struct coxi_history *history;
    char dir[PATH_MAX];     /* of the history */
    char log_dir[PATH_MAX]; /* of the daemons' logs */
};

static bool exists(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0;
}

/* The logs are in `logs` of the history's directory, or beside it, or in that directory. */
static int find(const char *dir, struct served *served)
{
    int r = coxi_watcher_history(dir, served->dir, &served->history);
    r = r != 0 ? r : coxi_path(served->log_dir, "%s/logs", served->dir);
    if (r == 0 && !exists(served->log_dir)) {
        r = coxi_path(served->log_dir, "%s/../logs", served->dir);
    }
    if (r == 0 && !exists(served->log_dir)) {
        r = coxi_path(served->log_dir, "%s", served->dir);
    }
    return r;
}

/* Serves until a signal comes. */
static int serve(const struct served *served, const struct config *config)
{
    const struct coxi_page_sources sources = {
        .records = coxi_history_records(served->history),
        .log_dir = served->log_dir,
        .of_file = true,
    };
    const struct coxi_http_options http = {.address = config->http,
                                           .open = config->http_open};
    struct coxi_http_route routes[COXI_PAGE_ROUTES_MAX];
    struct coxi_http_server *server = NULL;
    struct coxi_page *page = NULL;
    int r = coxi_page_new(&sources, &page);
    if (r == 0) {
        r = coxi_http_start(&http, routes, coxi_page_routes(page, routes), &server);
    }
    if (r == 0) {
        (void)printf("%s/\n", coxi_http_url(server));
        (void)fflush(stdout);
    }
    while (r == 0 && coxi_watcher_pause(UPDATE_MS)) {
        uint64_t before = coxi_records_last(sources.records);
        r = coxi_history_update(served->history);
        r = r == COX_ENOENT ? 0 : r; /* between two runs */
        if (coxi_records_last(sources.records) != before) {
            coxi_http_wake(server);
        }
    }
    coxi_http_stop(server);
    coxi_page_free(page);
    return r;
}

int coxi_command_page(int argc, char **argv)
{
    struct config config = {0};
    struct served served = {0};
    struct stat file;
    char **words;
    int code;
    if (!coxi_command_options(&program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    int r = coxi_watcher_check(words[0]);
    if (r == 0 && !coxi_place_in_store(words[0]) &&
        (stat(words[0], &file) != 0 || !S_ISDIR(file.st_mode))) {
        bool is_address = strchr(words[0], ':') != NULL;
        r = coxi_error(is_address ? COX_EINVAL : COX_ENOENT,
                       "%s is no directory; the page of a run that serves is at its "
                       "address already: open that in a browser",
                       words[0]);
    }
    r = r != 0 ? r : find(words[0], &served);
    r = r != 0 ? r : serve(&served, &config);
    coxi_history_close(served.history);
    return r != 0 ? coxi_watcher_exit(program.name, r) : EXIT_SUCCESS;
}

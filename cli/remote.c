/*
 * See remote.h. ssh runs in a session of its own, so that Ctrl-C does not reach it
 * before the client program has ended. When this process is killed, the pipe to ssh
 * closes; ssh then ends, and so does the other end.
 */
#include "cli/remote.h"

#include <signal.h>
#include <string.h>

#include "common/error.h"
#include "net/daemon.h"

static void on_closed(uv_handle_t *handle)
{
    struct coxi_remote *remote = handle->data;
    if (--remote->n_open == 0) {
        remote->runs = false;
        remote->on_end(remote->arg, remote, remote->code);
    }
}

static void close_in(struct coxi_remote *remote)
{
    (void)uv_timer_stop(&remote->beat);
    if (!uv_is_closing((uv_handle_t *)&remote->in)) {
        uv_close((uv_handle_t *)&remote->in, on_closed);
    }
}

static void on_exit_of_ssh(uv_process_t *process, int64_t status, int signum)
{
    struct coxi_remote *remote = process->data;
    remote->code = signum != 0 ? COXI_EXIT_AGAIN + signum : (int)status;
    close_in(remote);
    uv_close((uv_handle_t *)&remote->out, on_closed);
    uv_close((uv_handle_t *)process, on_closed);
}

static void on_written(uv_write_t *write, int failed)
{
    (void)failed; /* then ssh ends, too */
    ((struct coxi_remote *)write->data)->is_writing = false;
}

static void write_bytes(struct coxi_remote *remote, const void *bytes, size_t len)
{
    remote->writes = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    remote->write.data = remote;
    remote->is_writing = uv_write(&remote->write, (uv_stream_t *)&remote->in,
                                  &remote->writes, 1, on_written) == 0;
}

static void on_beat(uv_timer_t *timer)
{
    struct coxi_remote *remote = timer->data;
    if (!remote->is_writing) {
        write_bytes(remote, "\n", 1);
    }
}

/* Lines before the answer come from the shell's start files there. */
static void take_line(struct coxi_remote *remote)
{
    static const char begin[] = COXI_HOST_ANSWER;
    remote->line[remote->used] = '\0';
    remote->used = 0;
    if (!remote->has_answered && strncmp(remote->line, begin, strlen(begin)) == 0) {
        remote->has_answered = true;
        remote->on_answer(remote->arg, remote, remote->line + strlen(begin));
    }
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char bytes[4096];
    (void)handle;
    (void)suggested;
    *ret = uv_buf_init(bytes, sizeof(bytes));
}

static void on_out(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct coxi_remote *remote = stream->data;
    if (n < 0) {
        (void)uv_read_stop(stream);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (buffer->base[i] == '\n' || remote->used == sizeof(remote->line) - 1) {
            take_line(remote);
        } else {
            remote->line[remote->used++] = buffer->base[i];
        }
    }
}

static int spawn(struct coxi_remote *remote)
{
    uv_loop_t *loop = coxi_loop_uv(remote->loop);
    /* flags of libuv are sums of the enum's values
     * NOLINTBEGIN(clang-analyzer-optin.core.EnumCastOutOfRange) */
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE,
         .data.stream = (uv_stream_t *)&remote->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&remote->out},
        {.flags = UV_INHERIT_FD, .data.fd = remote->err_fd},
    };
    /* NOLINTEND(clang-analyzer-optin.core.EnumCastOutOfRange) */
    uv_process_options_t options = {
        .exit_cb = on_exit_of_ssh,
        .file = remote->argv[0],
        .args = remote->argv,
        .stdio = stdio,
        .stdio_count = 3,
        .flags = UV_PROCESS_DETACHED,
    };
    (void)uv_pipe_init(loop, &remote->in, 0);
    (void)uv_pipe_init(loop, &remote->out, 0);
    if (remote->beat.data == NULL) { /* the first ssh */
        (void)uv_timer_init(loop, &remote->beat);
    }
    remote->in.data = remote->out.data = remote->process.data = remote->beat.data =
        remote;
    return uv_spawn(loop, &remote->process, &options);
}

int coxi_remote_start(struct coxi_remote *remote, const struct coxi_buffer *request)
{
    remote->has_answered = false;
    remote->used = 0;
    int failed = spawn(remote);
    if (failed != 0) {
        uv_close((uv_handle_t *)&remote->in, NULL);
        uv_close((uv_handle_t *)&remote->out, NULL);
        uv_close((uv_handle_t *)&remote->process, NULL);
        return coxi_error(COX_EINVAL, "cannot start %s: %s", remote->argv[0],
                          uv_strerror(failed));
    }
    remote->runs = true;
    remote->n_open = 3;
    write_bytes(remote, request->data, request->len);
    (void)uv_timer_start(&remote->beat, on_beat, (uint64_t)remote->beat_ms,
                         (uint64_t)remote->beat_ms);
    (void)uv_read_start((uv_stream_t *)&remote->out, give_buffer, on_out);
    return 0;
}

void coxi_remote_stop(struct coxi_remote *remote)
{
    if (remote->runs) {
        close_in(remote);
    }
}

void coxi_remote_kill(struct coxi_remote *remote)
{
    if (remote->runs) {
        (void)uv_process_kill(&remote->process, SIGKILL);
    }
}

/* See gate.h. A FIFO can be opened for writing, without waiting, once it is being read.
 */
#include "tests/worker/gate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

const char *gate_make(const char *name)
{
    const char *path = coxi_test_path(name);
    assert_int_equal(0, mkfifo(path, 0600));
    return path;
}

struct gate {
    const char *path;
    int fd;
};

static bool somebody_waits(void *arg)
{
    struct gate *gate = arg;
    gate->fd = open(gate->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return gate->fd >= 0;
}

int gate_pass(const char *path)
{
    struct gate gate = {.path = path};
    coxi_test_until(somebody_waits, &gate, "a step at its gate");
    return gate.fd;
}

void gate_release(int fd)
{
    assert_int_equal(0, close(fd));
}

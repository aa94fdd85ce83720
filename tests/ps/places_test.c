/* A peer that has claimed the ps and tries to reach files that are no checkpoint's, or
 * lie outside the root. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/beneath.h"
#include "common/file.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 7};
static const struct coxi_session stranger = {.run = 1, .generation = 1, .token = 8};

/* A ps that run 1 has claimed, and its client. */
struct scene {
    struct harbour harbour;
    struct coxi_psc *client;
    struct coxi_snapshot_done done; /* of the snapshot that was written last */
    uint64_t number;
};

static void scene_open(struct scene *scene, const char *root)
{
    *scene = (struct scene){.number = 0};
    harbour_open_rooted(&scene->harbour, harbour_ipc(), root);
    scene->client = harbour_dial(&scene->harbour, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(scene->client, &run1));
    assert_code(0, harbour_create(scene->client, &run1, 2));
}

static void scene_close(struct scene *scene)
{
    coxi_psc_close(scene->client);
    harbour_close(&scene->harbour);
}

static void take_done(void *arg, const struct coxi_message *answer)
{
    ((struct scene *)arg)->done = answer->snapshot_done;
}

static int snapshot(struct scene *scene, const char *path)
{
    struct coxi_psc_request request = {0};
    struct coxi_message message = {.kind = COXI_SNAPSHOT};
    message.snapshot =
        (struct coxi_snapshot){.session = run1,
                               .number = ++scene->number,
                               .path = path,
                               .incarnation = coxi_psc_incarnation(scene->client)};
    return coxi_psc_call(scene->client, &message, &request, COXI_SNAPSHOT_DONE,
                         take_done, scene);
}

static int restore_as(struct scene *scene, const struct coxi_session *session,
                      const char *path)
{
    struct coxi_message message = {.kind = COXI_RESTORE};
    message.restore =
        (struct coxi_restore){.session = *session,
                              .round = ++scene->number,
                              .path = path,
                              .bytes = scene->done.bytes,
                              .crc32 = scene->done.crc32,
                              .incarnation = coxi_psc_incarnation(scene->client)};
    return harbour_ask(scene->client, &message, COXI_STATUS);
}

static int restore(struct scene *scene, const char *path)
{
    return restore_as(scene, &run1, path);
}

static int probe(struct scene *scene, const char *path)
{
    struct coxi_message message = {.kind = COXI_PROBE};
    message.probe = (struct coxi_probe){run1, path, true};
    return harbour_ask(scene->client, &message, COXI_STATUS);
}

/* "DIR/NAME", valid until seven more were made. */
static char *in(const char *dir, const char *name)
{
    static char paths[8][PATH_MAX];
    static size_t n;
    char *path = paths[n++ % 8];
    assert_code(0, coxi_path(path, "%s/%s", dir, name));
    return path;
}

/* A directory in the test's own. */
static char *directory(const char *name)
{
    char *path = coxi_test_path(name);
    assert_code(0, coxi_directory_make(path));
    return path;
}

/* Moves a shard that was written to where it is restored from. */
static char *publish(const char *root, const char *shard)
{
    char *path = harbour_shard(root, "ckpt-1");
    assert_int_equal(0, rename(shard, path));
    return path;
}

TEST(ps_writes_and_restores_checkpoints_beneath_its_root)
{
    struct scene scene;
    char *root = directory("root");
    char *shard = harbour_shard(root, "run/ckpt-1.tmp");
    scene_open(&scene, in(root, ""));
    assert_code(0, snapshot(&scene, shard));
    shard = publish(root, shard);
    assert_code(0, restore(&scene, shard));
    coxi_test_write(in(root, ".coxswain-probe-0123456789abcdef"), "", 0);
    assert_code(0, probe(&scene, in(root, ".coxswain-probe-0123456789abcdef")));
    assert_int_equal(0,
                     access(in(root, ".coxswain-probe-0123456789abcdef.ps-0"), F_OK));
    scene_close(&scene);
}

TEST(ps_takes_the_real_path_of_a_root_that_is_a_symbolic_link)
{
    struct scene scene;
    char *root = directory("root");
    assert_int_equal(0, symlink(root, coxi_test_path("link")));
    scene_open(&scene, coxi_test_path("link"));
    assert_code(0, snapshot(&scene, harbour_shard(root, "ckpt-1.tmp")));
    (void)harbour_shard(root, "ckpt-2.tmp");
    assert_code(0, snapshot(&scene, in(coxi_test_path("link"),
                                       "ckpt-2.tmp/ps-0-of-1.safetensors")));
    scene_close(&scene);
}

/* Asserts that neither a snapshot nor a probe leaves a file in `dir`, whichever way the
 * path takes there. */
static void assert_refused(struct scene *scene, const char *path, const char *dir)
{
    struct stat before;
    struct stat after;
    assert_int_equal(0, stat(dir, &before));
    assert_code(COX_EIO, snapshot(scene, in(path, "ps-0-of-1.safetensors")));
    assert_error_names("beneath");
    assert_code(COX_EIO, probe(scene, in(path, ".coxswain-probe-0123456789abcdef")));
    assert_error_names("beneath");
    assert_int_equal(0, stat(dir, &after));
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
}

TEST(ps_refuses_a_snapshot_that_climbs_out_of_its_root)
{
    struct scene scene;
    char *root = directory("root");
    char *outside = directory("outside/ckpt-1.tmp");
    (void)directory("rootless/ckpt-1.tmp");
    scene_open(&scene, root);
    assert_refused(&scene, outside, outside);
    assert_refused(&scene, in(root, "../outside/ckpt-1.tmp"), outside);
    assert_refused(&scene, in(root, "./../outside/ckpt-1.tmp"), outside);
    assert_refused(&scene, coxi_test_path("rootless/ckpt-1.tmp"),
                   coxi_test_path("rootless/ckpt-1.tmp"));
    scene_close(&scene);
}

TEST(ps_follows_no_symbolic_link_out_of_its_root)
{
    struct scene scene;
    char *root = directory("root");
    char *outside = directory("outside/ckpt-1.tmp");
    char *shard = harbour_shard(root, "ckpt-2");
    scene_open(&scene, root);
    assert_int_equal(0, symlink(outside, in(root, "ckpt-1.tmp")));
    assert_code(COX_EIO,
                snapshot(&scene, in(root, "ckpt-1.tmp/ps-0-of-1.safetensors")));
    assert_int_equal(0, symlink(coxi_test_path("outside"), in(root, "way")));
    assert_code(COX_EIO,
                snapshot(&scene, in(root, "way/ckpt-1.tmp/ps-0-of-1.safetensors")));
    assert_int_equal(-1, access(in(outside, "ps-0-of-1.safetensors"), F_OK));
    coxi_test_write(in(outside, "secret"), "secret", 6);
    assert_int_equal(0, symlink(in(outside, "secret"), shard));
    assert_code(COX_EIO, restore(&scene, shard));
    scene_close(&scene);
}

TEST(ps_writes_no_file_but_a_shard_of_its_own)
{
    static const char *const names[] = {"authorized_keys",
                                        "ckpt-1.tmp/authorized_keys",
                                        "ps-0-of-1.safetensors",
                                        "ckpt-1.tmp/ps-1-of-2.safetensors",
                                        "ckpt-1.tmp/ps-0-of-1.safetensors.so",
                                        "ckpt-.tmp/ps-0-of-1.safetensors",
                                        "ckpt-1.tmp/ps-0-of-.safetensors",
                                        "ckpt-1/ps-0-of-1.safetensors",
                                        "x/ckpt-1.tmp/ps-0-of-1.safetensors/y"};
    struct scene scene;
    scene_open(&scene, NULL);
    (void)harbour_shard(coxi_test_dir(), "ckpt-1.tmp");
    (void)harbour_shard(coxi_test_dir(), "ckpt-1");
    (void)harbour_shard(coxi_test_dir(), "ckpt-.tmp");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_code(COX_EINVAL, snapshot(&scene, coxi_test_path(names[i])));
        assert_int_equal(-1, access(coxi_test_path(names[i]), F_OK));
    }
    assert_code(COX_EINVAL, snapshot(&scene, "ckpt-1.tmp/ps-0-of-1.safetensors"));
    scene_close(&scene);
}

TEST(ps_makes_no_file_beside_one_that_is_no_probe)
{
    static const char *const names[] = {"passwd", ".coxswain-probe-",
                                        ".coxswain-probe-0123456789abcdeg",
                                        ".coxswain-probe-0123456789abcdef.ps-0"};
    struct scene scene;
    scene_open(&scene, NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char its[64];
        (void)snprintf(its, sizeof(its), "%s.ps-0", names[i]);
        coxi_test_write(coxi_test_path(names[i]), "", 0);
        assert_code(COX_EINVAL, probe(&scene, coxi_test_path(names[i])));
        assert_int_equal(-1, access(coxi_test_path(its), F_OK));
    }
    scene_close(&scene);
}

TEST(ps_restores_from_no_fifo_and_goes_on)
{
    struct scene scene;
    char *shard = harbour_shard(coxi_test_dir(), "ckpt-1.tmp");
    scene_open(&scene, NULL);
    assert_code(0, snapshot(&scene, shard));
    char *fifo = harbour_shard(coxi_test_dir(), "ckpt-2");
    assert_int_equal(0, mkfifo(fifo, 0600));
    assert_code(COX_EIO, restore(&scene, fifo));
    assert_error_names("not a file");
    char *ask = coxi_test_path(".coxswain-probe-0123456789abcdef");
    assert_int_equal(0, mkfifo(ask, 0600));
    assert_code(COX_EIO, probe(&scene, ask));
    assert_code(0, restore(&scene, publish(coxi_test_dir(), shard)));
    scene_close(&scene);
}

TEST(ps_tells_a_stranger_nothing_about_files)
{
    struct scene scene;
    char there[256];
    char *shard = harbour_shard(coxi_test_dir(), "ckpt-1");
    scene_open(&scene, NULL);
    coxi_test_write(shard, "x", 1);
    assert_code(COX_EFENCED, restore_as(&scene, &stranger, shard));
    (void)snprintf(there, sizeof(there), "%s", coxi_test_error());
    assert_int_equal(0, unlink(shard));
    assert_code(COX_EFENCED, restore_as(&scene, &stranger, shard));
    assert_string_equal(there, coxi_test_error());
    /* nor does it tell anybody about a file that is no shard */
    assert_code(COX_EINVAL, restore(&scene, "/etc/passwd"));
    (void)snprintf(there, sizeof(there), "%s", coxi_test_error());
    assert_code(COX_EINVAL, restore(&scene, "/etc/nobody"));
    assert_int_equal(strlen(there), strlen(coxi_test_error()));
    scene_close(&scene);
}

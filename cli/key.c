/* coxswain key: makes the keys of runs, and those that sign step modules. coxswain sign:
 * signs one. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "common/error.h"
#include "common/option.h"
#include "net/daemon.h"
#include "net/key.h"
#include "net/signature.h"

struct config {
    const char *key_file;
};

static const struct coxi_program module_program = {
    .name = "coxswain key module",
    .usage = "FILE",
    .summary =
        "Makes a pair of keys for step modules: in FILE the secret one, with which "
        "coxswain\nsign signs them, and in FILE.pub the public one, which workers get "
        "with\n--module-key. Neither file may exist. Keep FILE where modules are "
        "built, and\naway from the run's hosts.",
    .prefix = "COX_KEY_MODULE",
    .mixed = true,
};

static const struct coxi_option sign_options[] = {
    {.name = "key-file",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, key_file),
     .help = "the secret key, made by coxswain key module"},
};

static const struct coxi_program sign_program = {
    .name = "coxswain sign",
    .usage = "--key-file=FILE MODULE",
    .summary = "Signs a step module, and writes the signature to MODULE.sig, which the "
               "client\nlooks for beside the module. A module that was built again "
               "must be signed again.",
    .prefix = "COX_SIGN",
    .options = sign_options,
    .n_options = sizeof(sign_options) / sizeof(*sign_options),
    .mixed = true,
};

static const struct coxi_program new_program = {
    .name = "coxswain key new",
    .usage = "FILE",
    .summary =
        "Makes the key of a run in FILE, which must not exist: 32 random bytes that "
        "only\nits owner may read. Copy it to every host of the run over a safe "
        "way, and give\nit to every member with --key-file, cox_options.key_file "
        "or COX_KEY_FILE.",
    .prefix = "COX_KEY_NEW",
    .mixed = true,
};

static const struct coxi_option reader_options[] = {
    {.name = "key-file",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, key_file),
     .help = "the run's key (default: the file that COX_KEY_FILE names)"},
};

static const struct coxi_program reader_program = {
    .name = "coxswain key reader",
    .usage = "[options] FILE",
    .summary =
        "Makes in FILE, which must not exist, the key of a run's readers: whoever "
        "has it\nmay read the run's values (cox_reader_open) and do nothing else.",
    .prefix = "COX_KEY_READER",
    .options = reader_options,
    .n_options = sizeof(reader_options) / sizeof(*reader_options),
    .mixed = true,
};

static int made(const char *program, int code, const char *path)
{
    if (code != 0) {
        return coxi_exit_config(program);
    }
    (void)printf("%s\n", path);
    return EXIT_SUCCESS;
}

static int key_new(int argc, char **argv)
{
    int code;
    char **words;
    struct config config = {0};
    if (!coxi_command_options(&new_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    return made(new_program.name, coxi_key_new(words[0]), words[0]);
}

static int key_reader(int argc, char **argv)
{
    int code;
    char **words;
    struct config config = {0};
    struct coxi_key key;
    if (!coxi_command_options(&reader_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    int r = coxi_key_open(config.key_file, "--key-file", &key);
    if (r == 0 && key.kind == COXI_KEY_NONE) {
        r = coxi_error(
            COX_EINVAL,
            "there is no key: name the run's with --key-file or COX_KEY_FILE");
    }
    if (r == 0) {
        r = coxi_key_new_reader(words[0], &key);
    }
    coxi_key_wipe(&key);
    return made(reader_program.name, r, words[0]);
}

static int key_module(int argc, char **argv)
{
    int code;
    char **words;
    struct config config = {0};
    if (!coxi_command_options(&module_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    code = made(module_program.name, coxi_module_keys_new(words[0]), words[0]);
    if (code == EXIT_SUCCESS) {
        (void)printf("%s.pub\n", words[0]);
    }
    return code;
}

int coxi_command_sign(int argc, char **argv)
{
    int code;
    char **words;
    struct config config = {0};
    if (!coxi_command_options(&sign_program, argc, argv, &config, 1, &words, &code)) {
        return code;
    }
    int r = config.key_file != NULL
                ? coxi_module_sign(words[0], config.key_file)
                : coxi_error(COX_EINVAL, "--key-file is missing: the secret key that "
                                         "coxswain key module made");
    if (r != 0) {
        return coxi_exit_config(sign_program.name);
    }
    (void)printf("%s.sig\n", words[0]);
    return EXIT_SUCCESS;
}

static const struct coxi_command commands[] = {
    {"new", key_new, "make the key of a run"},
    {"reader", key_reader, "make the key of a run's readers"},
    {"module", key_module, "make the keys that sign step modules"},
};

static const struct coxi_commands key_commands = {
    .name = "coxswain key",
    .summary =
        "Makes the keys by which the members of a run know each other, and those "
        "that sign\nstep modules.",
    .commands = commands,
    .n_commands = sizeof(commands) / sizeof(*commands),
};

int coxi_command_key(int argc, char **argv)
{
    return coxi_commands_run(&key_commands, argc, argv);
}

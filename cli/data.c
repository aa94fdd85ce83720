/* coxswain data: its table of commands. */
#include "cli/commands.h"
#include "cli/data_command.h"

static const struct coxi_command commands[] = {
    {"head", coxi_data_head, "print the first records of files"},
    {"count", coxi_data_count, "count records, labels and features"},
    {"index", coxi_data_index, "write where records begin, beside files"},
    {"convert", coxi_data_convert, "copy records to a file of another format"},
    {"shard", coxi_data_shard, "shuffle the records of files into new files"},
    {"generate", coxi_data_generate, "make files with a planted model"},
    {"verify", coxi_data_verify, "check every record and checksum"},
};

static const struct coxi_commands data = {
    .name = "coxswain data",
    .summary = "Looks into files of records (RecordIO, TFRecord, libsvm, libffm, "
               "Criteo, CSV, text), and makes such files.",
    .commands = commands,
    .n_commands = sizeof(commands) / sizeof(*commands),
};

int coxi_command_data(int argc, char **argv)
{
    return coxi_commands_run(&data, argc, argv);
}

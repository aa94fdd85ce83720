/* The subcommands of `coxswain`: argv[0] is the subcommand; they return the exit
 * code. */
#ifndef COXI_CLI_COMMANDS_H
#define COXI_CLI_COMMANDS_H

int coxi_command_cluster(int argc, char **argv);
int coxi_command_run(int argc, char **argv);
int coxi_command_checkpoint(int argc, char **argv);

#endif

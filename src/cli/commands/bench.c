/* SPDX-License-Identifier: MIT */
/*
 * weir bench: runs weir-bench, which measures and is a program of its own, so that a server need not carry
 * it.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/program.h"

static int run_bench(const struct cli_command *command, int count, char **argv)
{
    static char name[] = "weir-bench";
    char path[PATH_MAX];
    (void)count;
    argv[0] = name;
    execvp(program_beside(name, path, sizeof path), argv);
    if (errno != ENOENT)
        return args_fail(command->name, "cannot run weir-bench: %s", strerror(errno));
    return args_fail(command->name,
                     "weir-bench is neither beside this command nor in $PATH; in the sources of weir, "
                     "script/bench builds and runs it, and cmake --install build/release --component bench "
                     "installs it");
}

const struct cli_command command_bench = {.name = "bench", .run = run_bench};

/* SPDX-License-Identifier: MIT */
/*
 * weir bench: runs weir-bench, which measures and is a program of its own, so that a server need not carry
 * it.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/program.h"

int cmd_bench(int argc, char **argv)
{
    static char name[] = "weir-bench";
    char path[PATH_MAX];
    (void)argc;
    argv[0] = name;
    execvp(program_beside(name, path, sizeof path), argv);
    if (errno == ENOENT)
        fputs("weir bench: weir-bench is neither beside this command nor in $PATH; in the sources of weir, "
              "script/bench builds and runs it, and cmake --install build/release --component bench installs "
              "it\n",
              stderr);
    else
        fprintf(stderr, "weir bench: cannot run weir-bench: %s\n", strerror(errno));
    return EXIT_ERROR;
}

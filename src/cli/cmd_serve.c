/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

int cmd_serve(int argc, char **argv) { (void)argc; (void)argv; return EXIT_ERROR; }

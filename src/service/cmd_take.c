/* SPDX-License-Identifier: MIT */
#include "service/command.h"

const struct command weir_commands_take[] = {{0}};

/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"


/* SPDX-License-Identifier: MIT */
#include "service/command.h"


/* SPDX-License-Identifier: MIT */
#include "server/loop.h"


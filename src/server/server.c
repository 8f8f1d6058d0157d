/* SPDX-License-Identifier: MIT */
#include "server/server.h"


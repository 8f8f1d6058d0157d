/* SPDX-License-Identifier: MIT */
#include "server/connection.h"


/* SPDX-License-Identifier: MIT */
#include "server/listen.h"


/* SPDX-License-Identifier: MIT */
#include "server/notify.h"


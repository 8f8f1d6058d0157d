/* SPDX-License-Identifier: MIT */
#include "service/log.h"


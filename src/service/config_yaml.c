/* SPDX-License-Identifier: MIT */
#include "service/config.h"


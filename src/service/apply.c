/* SPDX-License-Identifier: MIT */
#include "service/change.h"


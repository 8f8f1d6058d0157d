/* SPDX-License-Identifier: MIT */
#include "service/policy.h"


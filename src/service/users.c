/* SPDX-License-Identifier: MIT */
#include "service/users.h"


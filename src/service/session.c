/* SPDX-License-Identifier: MIT */
#include "service/service.h"


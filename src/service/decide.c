/* SPDX-License-Identifier: MIT */
#include "service/decide.h"


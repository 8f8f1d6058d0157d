/* SPDX-License-Identifier: MIT */
#include "proto/resp_write.h"


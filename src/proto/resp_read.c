/* SPDX-License-Identifier: MIT */
#include "proto/resp_read.h"


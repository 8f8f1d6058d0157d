/* SPDX-License-Identifier: MIT */
#include "proto/resp_reply.h"


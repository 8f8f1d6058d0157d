/* SPDX-License-Identifier: MIT */
#include "base/buffer.h"


/* SPDX-License-Identifier: MIT */
#include "base/secret.h"


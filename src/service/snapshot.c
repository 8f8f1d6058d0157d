/* SPDX-License-Identifier: MIT */
#include "service/snapshot.h"


/* SPDX-License-Identifier: MIT */
#include "os/disk.h"

struct disk weir_disk;

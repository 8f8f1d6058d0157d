/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as an image: store_dir.h says what an input is, and what must hold.
 */
#include "store_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_input(FILE_IMAGE, data, size);
    return 0;
}

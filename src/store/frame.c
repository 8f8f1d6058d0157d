/* SPDX-License-Identifier: MIT */
#include "store/frame.h"

uint64_t weir_frame_salt(const unsigned char store[16], enum frame_kind kind, uint64_t number)
{
    return store[0] + (uint64_t)kind + number;
}

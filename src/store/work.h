/* SPDX-License-Identifier: MIT */
/*
 * The store's threads: syncer and keeper. With options.manual there are none, and weir_store_work does what
 * they would do.
 */
#ifndef WEIR_STORE_WORK_H
#define WEIR_STORE_WORK_H

#include "store/inside.h"

bool weir_work_start(struct store *store); /* false: there are no threads to be had */
void weir_work_stop(struct store *store);

#endif

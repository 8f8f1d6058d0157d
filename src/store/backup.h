/* SPDX-License-Identifier: MIT */
#ifndef WEIR_STORE_BACKUP_H
#define WEIR_STORE_BACKUP_H

#include "store/store.h"

/* A consistent copy that is a directory by itself, `backups/NAME` (a plain file name): image and log. */
#define STORE_BACKUP_NAME 48
bool weir_store_backup(struct store *store, const char *name, struct weir_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The key of the hash by which tables know their keys, if the operator wants to say it: servers that have the
 * same one can take keys over from each other although both have counted them. Who knows it can make keys
 * that collide, so it is read from a file that nobody else may read.
 */
#ifndef WEIR_CONFIG_HASH_KEY_H
#define WEIR_CONFIG_HASH_KEY_H

#include <sys/types.h>

#include "base/hash.h"
#include "weir.h"

/* 32 hex digits, perhaps with a line break behind them. false: `err` says what to do. */
bool weir_hash_key_read(const char *path, struct hash_key *key, struct weir_error *err);

/* The whole of a small plain file, or the first `size` bytes; below 0: errno says why, EINVAL: it is no plain
 * file. Waits for nobody, as a program that opens a pipe would. */
ssize_t weir_secret_file_read(const char *path, char *bytes, size_t size, mode_t *mode);

#endif

/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_PRINT_H
#define WEIR_CONFIG_PRINT_H

#include "base/buffer.h"
#include "config/config.h"

/* Writes it as YAML that weir_config_parse reads back as the same; passwords as sha256 digests never: as
 * "(hidden)" comments. false: out of memory. */
bool weir_config_print(const struct config *config, struct buffer *out);

/* A time in its shortest words. */
void weir_print_time(struct buffer *out, const char *front, int64_t time_ns, const char *behind);

#endif

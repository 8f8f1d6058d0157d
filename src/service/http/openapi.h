/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_HTTP_OPENAPI_H
#define WEIR_SERVICE_HTTP_OPENAPI_H

#include "base/buffer.h"

/* Writes what the table of endpoints says, as an OpenAPI 3.1 description. */
void weir_openapi_write(struct buffer *out);

#endif

/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_HTTP_LOGIN_H
#define WEIR_SERVICE_HTTP_LOGIN_H

#include "service/http/http_run.h"

/* Each request says who asks, by the header field `field`; a connection may carry those of several users, as
 * a proxy's does. false: it was answered, or the credentials are being checked: then nothing is done, and the
 * same request is to be run again. */
bool weir_http_log_in(struct http_run *run, const char *field);
/* What AUTH has replied, behind `before` bytes: nothing if it was right. */
void weir_http_login_finish(struct call *call, size_t before);

#endif

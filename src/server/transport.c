/* SPDX-License-Identifier: MIT */
#include "server/transport.h"

#include "config/config.h"

bool weir_transport_certificate(const struct config *config, struct tls_context **context,
                                struct weir_error *err)
{
    struct tls_files files = {config->tls_cert, config->tls_key, config->tls_ca};
    *context = NULL;
    if (!files.cert && !files.key && !files.ca && config->tls_clients <= TLS_CLIENTS_NONE)
        return true;
    *context = weir_tls_server(&files, (enum tls_clients)config->tls_clients, err);
    return *context != NULL;
}

void weir_transport_tls_begin(struct transport_tls *tls)
{
    (void)pthread_mutex_init(&tls->mutex, NULL);
    tls->context = NULL;
}

void weir_transport_tls_set(struct transport_tls *tls, struct tls_context *context)
{
    (void)pthread_mutex_lock(&tls->mutex);
    struct tls_context *before = tls->context;
    tls->context = context;
    (void)pthread_mutex_unlock(&tls->mutex);
    weir_tls_context_free(before);
}

void weir_transport_tls_end(struct transport_tls *tls)
{
    weir_tls_context_free(tls->context);
    (void)pthread_mutex_destroy(&tls->mutex);
}

bool weir_transport_secure(struct transport *transport, struct transport_tls *tls, bool http)
{
    (void)pthread_mutex_lock(&tls->mutex);
    if (tls->context)
        transport->tls = weir_tls_accept(tls->context, transport->fd, http);
    (void)pthread_mutex_unlock(&tls->mutex);
    return transport->tls != NULL;
}

bool weir_transport_finish(struct transport *transport)
{
    if (transport->tls)
        weir_tls_finish(transport->tls);
    return shutdown(transport->fd, SHUT_WR) == 0;
}

void weir_transport_close(struct transport *transport)
{
    weir_tls_session_free(transport->tls);
    transport->tls = NULL;
    if (transport->fd >= 0)
        (void)close(transport->fd);
    transport->fd = -1;
}

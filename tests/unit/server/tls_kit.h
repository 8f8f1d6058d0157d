/* SPDX-License-Identifier: MIT */
/*
 * A certificate for localhost, 127.0.0.1 and ::1 that signs itself, and its key, which is known to everybody:
 * for tests alone. To be included by files that define _GNU_SOURCE.
 */
#ifndef WEIR_TESTS_UNIT_SERVER_TLS_KIT_H
#define WEIR_TESTS_UNIT_SERVER_TLS_KIT_H

#include "tls/tls.h"
#include "unit/folder.h"

#define TLS_KIT_EXPIRES_MS INT64_C(4948591821000)

static const char tls_kit_key[] = "-----BEGIN PRIVATE KEY-----\n"
                                  "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWCtGaqi8ZSTBeO7x\n"
                                  "G3ASX+cjfxhXaoDx18DgizZa8RChRANCAAQ9I7TYttqx6Xd+pzof0tv4v+ABptn5\n"
                                  "iv+4TlVNwMTHItlnUFTWZmP8XpRQlskpRUbpJq7X23GJ9TAhUimMPTq7\n"
                                  "-----END PRIVATE KEY-----\n";
static const char tls_kit_cert[] = "-----BEGIN CERTIFICATE-----\n"
                                   "MIIBrzCCAVSgAwIBAgIUbeQ3anaAimzdr6nEKWuvd/UvXNkwCgYIKoZIzj0EAwIw\n"
                                   "FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExODA4NTAyMVoYDzIxMjYxMDI1\n"
                                   "MDg1MDIxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO\n"
                                   "PQMBBwNCAAQ9I7TYttqx6Xd+pzof0tv4v+ABptn5iv+4TlVNwMTHItlnUFTWZmP8\n"
                                   "XpRQlskpRUbpJq7X23GJ9TAhUimMPTq7o4GBMH8wHQYDVR0OBBYEFHeyZ3VzKgsz\n"
                                   "SzsXEKbUtTdmU0zHMB8GA1UdIwQYMBaAFHeyZ3VzKgszSzsXEKbUtTdmU0zHMA8G\n"
                                   "A1UdEwEB/wQFMAMBAf8wLAYDVR0RBCUwI4IJbG9jYWxob3N0hwR/AAABhxAAAAAA\n"
                                   "AAAAAAAAAAAAAAABMAoGCCqGSM49BAMCA0kAMEYCIQCDb9xQZReFS9vzoE/EYjEo\n"
                                   "6LudcA4DfQH7veDDA3t4QQIhAISPZqdy/Jpmw2TQeDRb2GdjKrnYJyAdslhb7qam\n"
                                   "Tjpo\n"
                                   "-----END CERTIFICATE-----\n";

struct tls_kit { /* paths */
    char cert[128], key[128];
};

static inline bool tls_kit_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool good = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && good;
}

static inline bool tls_kit_make(struct tls_kit *kit, const char *folder)
{
    (void)snprintf(kit->cert, sizeof kit->cert, "%s/localhost.pem", folder);
    (void)snprintf(kit->key, sizeof kit->key, "%s/localhost.key", folder);
    return tls_kit_write(kit->cert, tls_kit_cert) && tls_kit_write(kit->key, tls_kit_key);
}

#endif

/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "fleet/talk.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HUMANIZE_MAX 24
#define KEEP         (1 << 20)

static int connection = -1;
static struct buffer in, out;
static struct resp_value *heard;
static size_t heard_len;

void talk_begin(long port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        exit(1);
    }
}

void talk_end(void)
{
    weir_resp_value_free(heard);
    weir_buffer_free(&in);
    weir_buffer_free(&out);
    close(connection);
}

void talk_say(const char *const *words, size_t count)
{
    struct slice slices[HUMANIZE_MAX];
    for (size_t i = 0; i < count && i < HUMANIZE_MAX; i++)
        slices[i] = (struct slice){words[i], strlen(words[i])};
    weir_resp_ask(&out, slices, count);
}

void talk_send(void)
{
    while (buffer_len(&out) > 0) {
        ssize_t sent = send(connection, buffer_bytes(&out), buffer_len(&out), MSG_NOSIGNAL);
        if (sent <= 0)
            exit(1);
        weir_buffer_drop(&out, (size_t)sent, KEEP);
    }
}

const struct resp_value *talk_hear(void)
{
    weir_resp_value_free(heard);
    weir_buffer_drop(&in, heard_len, KEEP);
    for (;;) {
        enum resp_parsed parsed = weir_resp_parse(buffer_bytes(&in), buffer_len(&in), &heard, &heard_len);
        if (parsed == RESP_PARSED)
            return heard;
        char *room = weir_buffer_room(&in, 65536);
        ssize_t got = room && parsed == RESP_INCOMPLETE ? recv(connection, room, 65536, 0) : -1;
        if (got <= 0)
            exit(1);
        buffer_wrote(&in, (size_t)got);
    }
}

void talk_load(const char *script, char sha[TALK_SHA_MAX])
{
    talk_say((const char *[]){"SCRIPT", "LOAD", script}, 3);
    talk_send();
    const struct resp_value *value = talk_hear();
    if (value->type != RESP_BULK) {
        fprintf(stderr, "SCRIPT LOAD: %.*s\n", (int)value->text.len, value->text.bytes);
        exit(1);
    }
    (void)snprintf(sha, TALK_SHA_MAX, "%.*s", (int)value->text.len, value->text.bytes);
}

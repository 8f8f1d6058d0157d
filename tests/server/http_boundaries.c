/* SPDX-License-Identifier: MIT */
/*
 * What weir's HTTP parser makes of bytes, for http_differential.mjs. Standard input: any number of a decimal
 * length, a newline and that many bytes. For each, the requests one after the other, until the bytes end or
 * the connection would:
 *
 *   whole USED KEEP-ALIVE METHOD BODY [NAME VALUE]...    all but the first two in hexadecimal digits, "-":
 * empty bad STATUS WHY more end                                                  nothing is left, or the
 * connection is to be closed
 */
#include <stdio.h>
#include <stdlib.h>

#include "http/request.h"

static const struct http_limits limits = {.head = 16384, .body = 65536};

static void print_hex(struct slice text)
{
    fputs(text.len == 0 ? " -" : " ", stdout);
    for (size_t i = 0; i < text.len; i++)
        printf("%02x", (unsigned char)text.bytes[i]);
}

static void print_request(const struct http_request *request, size_t used)
{
    printf("whole %zu %d", used, request->keep_alive);
    print_hex(request->method_name);
    print_hex(request->body);
    for (size_t i = 0; i < request->header_count; i++) {
        print_hex(request->headers[i].name);
        print_hex(request->headers[i].value);
    }
    putchar('\n');
}

static void read_requests(char *bytes, size_t len)
{
    static struct http_request request;
    struct http_parse_result result;
    while (len > 0) {
        enum http_parsed parsed = weir_http_parse(&limits, bytes, len, &request, &result);
        if (parsed == HTTP_BAD)
            printf("bad %d %s\n", result.status, result.why);
        if (parsed == HTTP_MORE)
            puts("more");
        if (parsed != HTTP_WHOLE)
            return;
        weir_http_join_chunks(&request);
        print_request(&request, result.used);
        if (!request.keep_alive)
            break;
        bytes += result.used;
        len -= result.used;
    }
    puts("end");
}

int main(void)
{
    size_t len;
    char newline;
    while (scanf("%zu%c", &len, &newline) == 2 && newline == '\n' && len < 1 << 20) {
        char *bytes =
            malloc(len > 0 ? len : 1); /* of just that length: a sanitizer sees what is read behind it */
        if (!bytes || fread(bytes, 1, len, stdin) != len)
            return 1;
        read_requests(bytes, len);
        free(bytes);
    }
    return feof(stdin) ? 0 : 1;
}

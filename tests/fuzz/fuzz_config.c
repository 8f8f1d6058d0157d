/* SPDX-License-Identifier: MIT */
/*
 * Hostile text as weir.yaml. What is read must come back from what is printed; what is refused must have been
 * complained about, at a place inside the text, in words that can be printed. Nothing may leak.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/users.h"
#include "base/buffer.h"
#include "base/text.h"
#include "config/config.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct listener {
    int complaints, lines;
};

static void check_complaint(void *arg, const struct config_complaint *complaint)
{
    struct listener *listener = arg;
    uint32_t code = 0;
    struct config_place place = complaint->place;
    char message[COMPLAINT_TEXT_MAX];
    size_t len = strlen(weir_complaint_text(complaint, true, message));
    MUST(++listener->complaints <= 20);
    MUST(strcmp(complaint->file, "fuzz.yaml") == 0);
    MUST(place.line >= 0 && place.line <= listener->lines && place.column >= 0);
    MUST((place.line == 0) == (place.column == 0));
    MUST(complaint->message[0] != '\0');
    for (size_t i = 0, step; i < len; i += step) {
        step = weir_utf8_read(message + i, len - i, &code);
        MUST(step > 0 && (code == '\n' || weir_utf8_printable(code)));
    }
}

/* Every way a text can break into lines, and the one behind the last. */
static int lines_of(const uint8_t *data, size_t size)
{
    int lines = 2;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || data[i] == '\r' || data[i] == 0x85 || data[i] == 0xA8 || data[i] == 0xA9;
    return lines;
}

static void print(const struct config *config, struct buffer *out)
{
    MUST(weir_config_print(config, out));
    buffer_put(out, "", 1);
}

/* A user needs a password, which is not printed: it is put back in. */
static char *with_passwords(const char *text)
{
    static const char hidden[] = "# password_sha256: (hidden)", put[] = "password: fuzz               ";
    _Static_assert(sizeof put >= sizeof hidden, "one takes the place of the other");
    size_t len = strlen(text);
    char *copy = malloc(len + 1);
    MUST(copy != NULL);
    memcpy(copy, text, len + 1);
    for (char *at = copy; (at = strstr(at, hidden)); at += sizeof hidden - 1)
        if (at - copy > 4 && strncmp(at - 5, "\n    ", 5) == 0) /* not inside of a key */
            memcpy(at, put, sizeof hidden - 1);
    return copy;
}

static void check_print(const struct config *config)
{
    struct listener listener = {0};
    struct buffer first = {0}, second = {0};
    print(config, &first);
    listener.lines = lines_of((const uint8_t *)first.bytes, first.end);
    char *text = with_passwords(first.bytes);
    struct config *again = weir_config_parse("fuzz.yaml", text, strlen(text), check_complaint, &listener);
    MUST(again != NULL);
    print(again, &second);
    MUST(strcmp(first.bytes, second.bytes) == 0);
    free(text);
    weir_config_free(again);
    weir_buffer_free(&first);
    weir_buffer_free(&second);
}

static void check_users(const struct config *config)
{
    struct users *users = weir_users_new(config);
    MUST(users && users->count >= 1 && strcmp(users->list[0].name, "default") == 0);
    MUST(users->count <= config->user_count + 1);
    for (size_t i = 1; i < users->count; i++)
        MUST(users->list[i].has_password && users->list[i].may != 0);
    weir_users_free(users);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct listener listener = {.lines = lines_of(data, size)};
    char *text =
        malloc(size > 0 ? size : 1); /* of just this size, so that a sanitizer sees one byte too many */
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    struct config *config = weir_config_parse("fuzz.yaml", text, size, check_complaint, &listener);
    MUST(!config == (listener.complaints > 0));
    if (config) {
        check_print(config);
        check_users(config);
    }
    weir_config_free(config);
    free(text);
    return 0;
}

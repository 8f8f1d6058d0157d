/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX  31 /* longest word that is compared letter by letter */
#define SLIPS_MAX 2  /* of the finger, in a word that is still recognised */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- builder ---------------------------------------------------------------------------------- */

void weir_text_init(struct text *text, char *bytes, size_t size)
{
    *text = (struct text){.bytes = bytes, .size = bytes ? size : 0};
    if (text->size > 0)
        bytes[0] = '\0';
}

void weir_text_put(struct text *text, const char *bytes, size_t len)
{
    if (text->len + 1 < text->size) {
        size_t room = min_size(len, text->size - text->len - 1);
        memcpy(text->bytes + text->len, bytes, room);
        text->bytes[text->len + room] = '\0';
    }
    text->len += len;
}

void weir_text_print(struct text *text, const char *format, ...)
{
    bool room = text->len < text->size;
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(room ? text->bytes + text->len : NULL, room ? text->size - text->len : 0, format,
                        arguments);
    va_end(arguments);
    if (len > 0)
        text->len += (size_t)len;
}

/* ---- characters ------------------------------------------------------------------------------- */

size_t weir_utf8_read(const char *bytes, size_t len, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* a shorter form exists below */
    if (len == 0)
        return 0;
    unsigned char first = (unsigned char)bytes[0];
    size_t need = first < 0x80   ? 1
                  : first < 0xC0 ? 0
                  : first < 0xE0 ? 2
                  : first < 0xF0 ? 3
                  : first < 0xF8 ? 4
                                 : 0;
    if (need == 0 || need > len)
        return 0;
    uint32_t value = need == 1 ? first : first & (0xFFu >> (need + 1));
    for (size_t i = 1; i < need; i++) {
        unsigned char next = (unsigned char)bytes[i];
        if ((next & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (next & 0x3F);
    }
    if (value < least[need] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *code = value;
    return need;
}

bool weir_utf8_printable(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},   {0x200B, 0x200F},
        {0x2028, 0x202E}, {0x2060, 0x206F}, {0xE000, 0xF8FF}, {0xFE00, 0xFE0F},
        {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0x10FFFF},
    };
    if (code < hidden[0].first)
        return code >= ' ';
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return false;
    return true;
}

int32_t weir_text_column(const char *bytes, size_t offset)
{
    int32_t column = 1;
    uint32_t code;
    for (size_t i = 0; i < offset; column++) {
        size_t step = weir_utf8_read(bytes + i, offset - i, &code);
        i += step ? step : 1;
    }
    return column;
}

size_t weir_text_offset(const char *bytes, size_t len, size_t column)
{
    size_t offset = 0;
    uint32_t code;
    for (; column > 1 && offset < len; column--) {
        size_t step = weir_utf8_read(bytes + offset, len - offset, &code);
        offset += step > 0 ? step : 1;
    }
    return offset;
}

size_t weir_text_cut(const char *bytes, size_t len, size_t most)
{
    if (len <= most)
        return len;
    while (most > 0 && ((unsigned char)bytes[most] & 0xC0) == 0x80)
        most--;
    return most;
}

/* ---- words ------------------------------------------------------------------------------------ */

char weir_text_lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

int weir_text_hex(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char lower = weir_text_lower(digit);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool weir_text_hex_number(const char *digits, size_t count, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = weir_text_hex(digits[i]);
        if (digit < 0)
            return false;
        *number = *number << 4 | (uint64_t)digit;
    }
    return true;
}

bool weir_text_same_letters(const char *bytes, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++) /* most are written alike */
        if (bytes[i] != word[i] && weir_text_lower(bytes[i]) != weir_text_lower(word[i]))
            return false;
    return true;
}

static size_t skip_joints(const char *bytes, size_t len, size_t at)
{
    while (at < len && (bytes[at] == '-' || bytes[at] == '_'))
        at++;
    return at;
}

bool weir_text_alike(const char *bytes, size_t len, const char *word)
{
    size_t word_len = strlen(word);
    size_t i = skip_joints(bytes, len, 0), j = skip_joints(word, word_len, 0);
    while (i < len && j < word_len && weir_text_lower(bytes[i]) == weir_text_lower(word[j])) {
        i = skip_joints(bytes, len, i + 1);
        j = skip_joints(word, word_len, j + 1);
    }
    return i == len && j == word_len;
}

bool weir_text_contains(const char *bytes, size_t len, const char *part, size_t part_len)
{
    for (size_t start = 0; start + part_len <= len; start++) {
        size_t i = 0;
        while (i < part_len && weir_text_lower(bytes[start + i]) == weir_text_lower(part[i]))
            i++;
        if (i == part_len)
            return true;
    }
    return false;
}

size_t weir_text_distance(const char *bytes, size_t len, const char *word)
{
    size_t word_len = strlen(word);
    if (len > WORD_MAX || word_len > WORD_MAX)
        return len + word_len;

    /* Row i holds the distances of the first i bytes to every beginning of `word`; a swap looks two rows
     * back, so three rows are enough. */
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= word_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        char letter = weir_text_lower(bytes[i - 1]);
        row[0] = i;
        for (size_t j = 1; j <= word_len; j++) {
            char other = weir_text_lower(word[j - 1]);
            row[j] = min_size(above[j - 1] + (letter != other), min_size(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && letter == weir_text_lower(word[j - 2]) &&
                weir_text_lower(bytes[i - 2]) == other)
                row[j] = min_size(row[j], second[j - 2] + 1);
        }
    }
    return rows[len % 3][word_len];
}

struct nearest weir_nearest(const char *word, size_t len)
{
    return (struct nearest){.word = word, .len = len, .distance = SLIPS_MAX + 1};
}

bool weir_nearest_try(struct nearest *nearest, const char *known)
{
    size_t distance = weir_text_distance(nearest->word, nearest->len, known);
    if (distance >= nearest->distance || 2 * distance > min_size(nearest->len, strlen(known)))
        return false;
    nearest->found = known;
    nearest->distance = distance;
    return true;
}

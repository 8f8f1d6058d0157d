/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as a list of networks, and as keys that are to be addresses: what is read is written as a
 * text that is read as the same, and a list says of each of its networks what a search through all of them
 * says.
 */
#include <stdlib.h>
#include <string.h>

#include "config/address_list.h"
#include "must.h"
#include "weir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES 256

static void check_key(struct slice text)
{
    char key[WEIR_ADDRESS_KEY_MAX], again[WEIR_ADDRESS_KEY_MAX];
    struct ip ip;
    bool is = weir_ip_read(text, &ip);
    size_t len = weir_address_key(text.bytes, text.len, 32, 128, key, sizeof key);
    MUST(is == (len > 0) && len < sizeof key);
    MUST(!is || (weir_address_key(key, len, 32, 128, again, sizeof again) == len && strcmp(key, again) == 0));
    struct ip_range range;
    if (is && weir_address_key(text.bytes, text.len, 20, 56, key, sizeof key) > 0)
        MUST(weir_ip_range_read((struct slice){key, strlen(key)}, &range) && weir_ip_is_in(&ip, &range));
}

static enum address_rule search(const struct address_entry *entries, size_t count, const struct ip *ip)
{
    enum address_rule rule = ADDRESS_UNLISTED;
    int longest = -1;
    for (size_t i = 0; i < count; i++) {
        const struct ip_range *range = &entries[i].range;
        if (weir_ip_is_four(ip) != weir_ip_range_is_four(range) || !weir_ip_is_in(ip, range) ||
            range->bits < longest)
            continue;
        rule = range->bits > longest || entries[i].rule == ADDRESS_ALLOWED ? entries[i].rule : rule;
        longest = range->bits;
    }
    return rule;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1); /* of just this size */
    MUST(copy);
    if (size > 0)
        memcpy(copy, data, size);
    check_key((struct slice){copy, size});
    struct address_entry entries[ENTRIES];
    struct address_lines lines = {{copy, size}, 0};
    struct slice text;
    size_t count = 0;
    enum address_line line;
    while (count < ENTRIES &&
           (line = weir_address_lines_next(&lines, &entries[count].range, &text)) != ADDRESS_LINE_END) {
        check_key(text);
        entries[count].rule = lines.line % 2 == 0 ? ADDRESS_ALLOWED : ADDRESS_BLOCKED;
        count += line == ADDRESS_LINE_RANGE;
    }
    struct address_list *list = weir_address_list_new(entries, count);
    MUST(list);
    for (size_t i = 0; i < count; i++) {
        struct ip ip = entries[i].range.first;
        MUST(weir_address_list_find(list, &ip) == search(entries, count, &ip));
        ip.bytes[15] ^= 1;
        MUST(weir_address_list_find(list, &ip) == search(entries, count, &ip));
    }
    weir_address_list_free(list);
    free(copy);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Lists of networks: what is to be done with an address. Of all networks that contain it the one with the
 * longest prefix counts; one that is listed twice is allowed.
 *
 * Networks are nested or have nothing in common. So a list is flattened once into ranges that follow each
 * other, each with the rule that counts there, and an address is found by where ranges start, in a tree of
 * sorted arrays of which one cache line a level is read: six for 100 000 networks. IPv4 and IPv6 are apart:
 * ::/0 is all of IPv6, and no IPv4 address.
 *
 * Immutable once it is made; any thread.
 */
#ifndef WEIR_CONFIG_ADDRESS_LIST_H
#define WEIR_CONFIG_ADDRESS_LIST_H

#include "base/address.h"

enum address_rule { ADDRESS_UNLISTED, ADDRESS_BLOCKED, ADDRESS_ALLOWED };

struct address_entry {
    struct ip_range range;
    enum address_rule rule;
};

struct address_list;
struct address_list *weir_address_list_new(const struct address_entry *entries, size_t count); /* or NULL */
void weir_address_list_free(struct address_list *list);
enum address_rule weir_address_list_find(const struct address_list *list, const struct ip *ip);

/* Lines of a file: an address or a network each, or nothing; '#' begins a comment. */
struct address_lines {
    struct slice rest;
    int line; /* of what was read last, from 1 */
};
enum address_line { ADDRESS_LINE_END, ADDRESS_LINE_RANGE, ADDRESS_LINE_WRONG };
/* The next one that is not empty; `text` is what stands there. */
enum address_line weir_address_lines_next(struct address_lines *lines, struct ip_range *range,
                                          struct slice *text);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Keys of addresses, and lists of networks: the longest prefix wins, as a search through all of them says it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "config/address_list.h"
#include "config/address_rules.h"
#include "weir.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* ---- keys ---- */

static const char *key_of(const char *text, int four, int six)
{
    static char key[WEIR_ADDRESS_KEY_MAX];
    size_t len = weir_address_key(text, strlen(text), four, six, key, sizeof key);
    CHECK(len == 0 || len == strlen(key));
    return len > 0 ? key : "none";
}

TEST(a_key_is_a_prefix)
{
    CHECK_STR(key_of("192.0.2.7", 32, 64), "192.0.2.7");
    CHECK_STR(key_of("192.0.2.7:8080", 24, 64), "192.0.2.0/24");
    CHECK_STR(key_of("::ffff:192.0.2.7", 24, 64), "192.0.2.0/24");
    CHECK_STR(key_of("[::ffff:192.0.2.200]:443", 25, 64), "192.0.2.128/25");
    CHECK_STR(key_of("255.255.255.255", 1, 64), "128.0.0.0/1");
    CHECK_STR(key_of("2001:DB8:1:2:3::7", 32, 64), "2001:db8:1:2::/64");
    CHECK_STR(key_of("[2001:db8:1:2:3::7]:80", 32, 48), "2001:db8:1::/48");
    CHECK_STR(key_of("2001:db8::7", 32, 128), "2001:db8::7");
    CHECK_STR(key_of("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 32, 127),
              "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127");
    static const char *const none[] = {"",    "user:42",      "192.0.2", "192.0.2.7/24",
                                       "::g", "fe80::1%eth0", "[::1"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK_STR(key_of(none[i], 32, 64), "none");
    static const int bits[][2] = {{0, 64}, {33, 64}, {32, 0}, {32, 129}, {-1, -1}};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        CHECK_STR(key_of("192.0.2.7", bits[i][0], bits[i][1]), "none");
}

TEST(a_key_is_cut_as_by_snprintf)
{
    char key[8] = "#######";
    CHECK_EQ(weir_address_key("192.0.2.7", 9, 24, 64, key, 5), 12);
    CHECK_STR(key, "192.");
    CHECK_EQ(weir_address_key("192.0.2.7", 9, 24, 64, NULL, 0), 12);
    CHECK_EQ(weir_address_key("::1", 3, 24, 128, key, 4), 3);
    CHECK_STR(key, "::1");
    memcpy(key, "#######", 8);
    CHECK_EQ(weir_address_key("::1", 3, 24, 128, key, 3), 3);
    CHECK_STR(key, "::");
    CHECK_EQ(key[3], '#');
}

/* ---- lists ---- */

/* Few bits differ, so that networks lie in each other. */
static struct ip random_ip(struct rng *rng, bool four)
{
    struct ip ip = {{0}};
    if (four)
        ip.bytes[10] = ip.bytes[11] = 0xFF;
    for (int i = four ? 12 : 0; i < 16; i++)
        ip.bytes[i] = (unsigned char)(rng_between(rng, 0, 3) == 0 ? rng_between(rng, 0, 3) * 85 : 0);
    return ip;
}

static struct address_entry random_entry(struct rng *rng)
{
    bool four = rng_between(rng, 0, 1) == 0;
    struct address_entry entry = {.rule = rng_between(rng, 0, 1) ? ADDRESS_ALLOWED : ADDRESS_BLOCKED};
    struct ip ip = random_ip(rng, four);
    char text[IP_TEXT_MAX];
    (void)weir_ip_write_prefix(&ip, (int)rng_between(rng, 0, 32), (int)rng_between(rng, 0, 128), text);
    CHECK(weir_ip_range_read(slice_of(text), &entry.range));
    return entry;
}

static enum address_rule naive_find(const struct address_entry *entries, size_t count, const struct ip *ip)
{
    enum address_rule rule = ADDRESS_UNLISTED;
    int longest = -1;
    for (size_t i = 0; i < count; i++) {
        const struct address_entry *entry = &entries[i];
        if (weir_ip_is_four(ip) != weir_ip_range_is_four(&entry->range) ||
            !weir_ip_is_in(ip, &entry->range) || entry->range.bits < longest)
            continue;
        if (entry->range.bits > longest || entry->rule == ADDRESS_ALLOWED)
            rule = entry->rule;
        longest = entry->range.bits;
    }
    return rule;
}

TEST(the_longest_prefix_wins)
{
    struct rng rng = rng_new(1);
    struct address_entry entries[64];
    for (int round = 0; round < 2000; round++) {
        size_t count = (size_t)rng_between(&rng, 0, 64);
        for (size_t i = 0; i < count; i++)
            entries[i] = random_entry(&rng);
        struct address_list *list = weir_address_list_new(entries, count);
        if (!CHECK(list != NULL))
            return;
        for (int i = 0; i < 200; i++) {
            struct ip ip = random_ip(&rng, i % 2 == 0);
            if (count > 0 && i % 5 == 0) { /* an edge */
                ip = entries[(size_t)i % count].range.first;
                ip.bytes[15] = (unsigned char)(ip.bytes[15] + (i % 3 - 1));
            }
            if (!CHECK_EQ(weir_address_list_find(list, &ip), naive_find(entries, count, &ip)))
                i = round = 2000;
        }
        weir_address_list_free(list);
    }
}

TEST(all_of_one_family_is_nothing_of_the_other)
{
    struct address_entry entries[2] = {{.rule = ADDRESS_BLOCKED}, {.rule = ADDRESS_ALLOWED}};
    struct ip four, six;
    CHECK(weir_ip_range_read(slice_of("::/0"), &entries[0].range));
    CHECK(weir_ip_range_read(slice_of("0.0.0.0/0"), &entries[1].range));
    CHECK(weir_ip_read(slice_of("255.255.255.255"), &four) &&
          weir_ip_read(slice_of("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), &six));
    struct address_list *list = weir_address_list_new(entries, 2);
    if (!CHECK(list != NULL))
        return;
    CHECK_EQ(weir_address_list_find(list, &four), ADDRESS_ALLOWED);
    CHECK_EQ(weir_address_list_find(list, &six), ADDRESS_BLOCKED);
    weir_address_list_free(list);
}

TEST(the_last_address_is_found_in_a_list_of_any_length)
{
    static struct address_entry entries[200];
    struct ip last;
    CHECK(weir_ip_read(slice_of("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), &last));
    for (size_t count = 1; count <= 200; count++) {
        char text[64];
        (void)snprintf(text, sizeof text, "2001:%zx::/32", count);
        CHECK(weir_ip_range_read(slice_of(text), &entries[count - 1].range));
        entries[count - 1].rule = ADDRESS_BLOCKED;
        struct address_list *list = weir_address_list_new(entries, count);
        if (!CHECK(list != NULL))
            return;
        CHECK_EQ(weir_address_list_find(list, &last), ADDRESS_UNLISTED);
        CHECK_EQ(weir_address_list_find(list, &entries[count - 1].range.first), ADDRESS_BLOCKED);
        weir_address_list_free(list);
    }
}

TEST(a_file_has_a_network_in_a_line)
{
    struct address_lines lines = {
        slice_of("# all of it\n\n192.0.2.0/24\r\n\t 2001:db8::/32 # six \n198.51.100.7\n"
                 "198.51.100.7/24\n::1"),
        0};
    struct ip_range range;
    struct slice text;
    static const struct {
        int line, bits;
    } want[] = {{3, 120}, {4, 32}, {5, 128}};
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(weir_address_lines_next(&lines, &range, &text), ADDRESS_LINE_RANGE);
        CHECK_EQ(lines.line, want[i].line);
        CHECK_EQ(range.bits, want[i].bits);
    }
    CHECK_EQ(weir_address_lines_next(&lines, &range, &text), ADDRESS_LINE_WRONG);
    CHECK(lines.line == 6 && slice_is(text, "198.51.100.7/24"));
    CHECK_EQ(weir_address_lines_next(&lines, &range, &text), ADDRESS_LINE_RANGE);
    CHECK_EQ(weir_address_lines_next(&lines, &range, &text), ADDRESS_LINE_END);
}

/* ---- overrides ---- */

TEST(an_override_belongs_to_the_tier_of_its_length)
{
    struct address_rules rules = {.tier_count = 2,
                                  .tiers = {{.four = 32, .six = 64}, {.four = 24, .six = 48}}};
    char key[IP_TEXT_MAX], why[ADDRESS_WHY_MAX];
    CHECK_EQ(weir_address_tier_of(&rules, slice_of("192.0.2.7"), key, why), 0);
    CHECK_STR(key, "192.0.2.7");
    CHECK_EQ(weir_address_tier_of(&rules, slice_of("192.0.2.0/24"), key, why), 1);
    CHECK_STR(key, "192.0.2.0/24");
    CHECK_EQ(weir_address_tier_of(&rules, slice_of("2001:DB8::/64"), key, why), 0);
    CHECK_STR(key, "2001:db8::/64");
    CHECK_EQ(weir_address_tier_of(&rules, slice_of("2001:db8::/56"), key, why), SIZE_MAX);
    CHECK_STR(why, "no tier of this policy has prefixes of 56 bits; those of IPv6 have 64, 48");
    CHECK_EQ(weir_address_tier_of(&rules, slice_of("user:1"), key, why), SIZE_MAX);
}

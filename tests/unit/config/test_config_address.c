/* SPDX-License-Identifier: MIT */
/*
 * Addresses in weir.yaml: tiers, lists and their files are read as they are meant, and mistakes are told.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "config/address_rules.h"

/* ---- complaints, as they are printed ---- */

static char told[16384];

static void tell(void *arg, const struct config_complaint *complaint)
{
    size_t len = strlen(told);
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    (void)snprintf(told + len, sizeof told - len, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *parse(const char *text)
{
    told[0] = '\0';
    return weir_config_parse("w.yaml", text, strlen(text), tell, NULL);
}

/* Reads what has no mistake. */
static struct config *good(const char *text)
{
    struct config *config = parse(text);
    CHECK_STR(told, "");
    CHECK(config != NULL);
    return config;
}

/* Reads what has mistakes, and compares what is said about them. */
#define BAD(TEXT, WANT)                                                                                      \
    do {                                                                                                     \
        CHECK(parse(TEXT) == NULL);                                                                          \
        CHECK_STR(told, WANT);                                                                               \
    } while (0)

/* ---- what it means ---- */

#define TIERS "address: [{v4: 32, v6: 64, limits: 5/m}, {v4: 24, v6: 48, limits: [50/m, 1k/d]}]"

TEST(tiers_are_policies_behind_their_own)
{
    struct config *config =
        good("policies:\n  - {name: login, " TIERS ", mode: shadow, allow: 10.0.0.0/8,\n"
             "     overrides: [{key: 192.0.2.0/24, limits: 9/m}, {key: 192.0.2.7, limits: 8/m}]}\n"
             "  - {name: api, limits: 5/s}\n");
    if (!config)
        return;
    const struct config_policy *login = config->policies, *tier = login + 1;
    CHECK_EQ(config->policy_count, 3);
    CHECK_STR(login->limits, "5/m");
    CHECK(!login->is_tier && login->address->tier_count == 2 && login->address->list);
    CHECK_STR(tier->name, "login/24-48");
    CHECK_STR(tier->limits, "50/m, 1k/d");
    CHECK(tier->is_tier && !tier->address && tier->mode == MODE_SHADOW);
    CHECK_EQ(login->override_count, 1);
    CHECK_STR(login->overrides[0].key, "192.0.2.7");
    CHECK_EQ(tier->override_count, 1);
    CHECK_STR(tier->overrides[0].key, "192.0.2.0/24");
    CHECK_STR(login[2].name, "api");
    weir_config_free(config);
}

TEST(mistakes_about_addresses_say_what_to_write)
{
    BAD("policies: [{name: a, limits: 5/m, " TIERS "}]\n",
        "w.yaml:1:30: limits: and address: exclude each other; write limits: for whole addresses as a tier: "
        "address: [{v4: 32, v6: 128, limits: 5/m}]\n");
    BAD("policies: [{name: a, " TIERS ", candidate: 5/m}]\n",
        "w.yaml:1:115: candidate: does not go with address:; try other limits in a second policy with mode: "
        "shadow, "
        "and ask both with AND\n");
    BAD("policies: [{name: a, limits: 5/m algo=quota, block: 10.0.0.0/8, fleet: {coordinator: "
        "\"local:\"}}]\n",
        "w.yaml:1:72: fleet: does not go with address:, allow: and block:; give them to a policy of their "
        "own, and "
        "ask both with AND\n");
    BAD("policies: [{name: a, address: [{v4: 33, v6: 64, limits: 5/m}]}]\n",
        "w.yaml:1:37: v4 cannot be '33'; write the bits of an IPv4 prefix, 1 to 32\n");
    BAD("policies: [{name: a, address: [{v4: 32, limits: 5/m}]}]\n",
        "w.yaml:1:32: a tier of address: has v4, v6 and limits: {v4: 24, v6: 48, limits: 50/m}\n");
    BAD("policies:\n  - name: a\n    address:\n      - {v4: 32, v6: 64, limits: 5/m}\n"
        "      - {v4: 32, v6: 64, limits: 6/h}\n",
        "w.yaml:5:9: two tiers have the same prefixes, first at line 4; write all of their limits in one\n");
    BAD("policies: [{name: a, limits: 5/m, allow: [10.0.0.1/8, host]}]\n",
        "w.yaml:1:43: allow cannot be '10.0.0.1/8'; write addresses, networks or files of them: [192.0.2.7, "
        "\"2001:db8::/32\", \"@office.txt\"]\n"
        "w.yaml:1:55: allow cannot be 'host'; write addresses, networks or files of them: [192.0.2.7, "
        "\"2001:db8::/32\", \"@office.txt\"]\n");
    BAD("policies: [{name: a, limits: 5/m, block: \"@/nonexistent/list\"}]\n",
        "w.yaml:1:42: /nonexistent/list cannot be read: No such file or directory\n");
    BAD("policies: [{name: a, " TIERS ", overrides: [{key: 192.0.2.0/25, limits: 5/m}]}]\n",
        "w.yaml:1:116: no tier of this policy has prefixes of 25 bits; those of IPv4 have 32, 24\n");
    BAD("policies: [{name: a, " TIERS
        ", overrides: [{key: 192.0.2.7, limits: 5/m}, {key: 192.0.2.7/32, limits: 6/m}]}]\n",
        "w.yaml:1:147: the key '192.0.2.7' has two overrides, first at line 1\n");
    BAD("policies: [{name: a, " TIERS "}, {name: a/24-48, limits: 5/m}]\n",
        "w.yaml:1:105: policy 'a/24-48' is defined twice, first at line 1\n");
}

static struct config *with_list(const char *content)
{
    char path[] = "/tmp/weir-list-XXXXXX", text[256];
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
    (void)close(fd);
    (void)snprintf(text, sizeof text, "policies: [{name: a, limits: 5/m, block: \"@%s\"}]\n", path);
    struct config *config = parse(text);
    (void)unlink(path);
    return config;
}

TEST(a_list_file_is_read_and_its_mistakes_have_lines)
{
    struct config *config = with_list("# c\n\n192.0.2.0/24\r\n2001:db8::/32 # six\n");
    if (CHECK(config != NULL))
        CHECK_EQ(config->policies[0].address->listed[ADDRESS_BLOCKED], 2);
    weir_config_free(config);
    CHECK(with_list("192.0.2.0/24\n\nexample.com\n") == NULL);
    CHECK(strstr(told,
                 ":3: 'example.com' is no network; write an address or a network: 192.0.2.7, 192.0.2.0/24, "
                 "\"2001:db8::/32\"\n") != NULL);
    CHECK(strncmp(told, "w.yaml:1:42: /tmp/weir-list-", 28) == 0);
}

TEST(lists_have_a_hundred_thousand_networks_at_most)
{
    char *text = malloc(2000000);
    size_t len = 0;
    for (int i = 0; text && i <= ADDRESS_PREFIXES_MAX; i++) {
        if (i == ADDRESS_PREFIXES_MAX) {
            struct config *config = with_list(text);
            CHECK(config != NULL);
            weir_config_free(config);
        }
        len += (size_t)snprintf(text + len, 20, "10.%d.%d.%d\n", i >> 16, i >> 8 & 255, i & 255);
    }
    CHECK(text && with_list(text) == NULL);
    CHECK(strstr(told, "allow: and block: of all policies have more than 100000 networks") != NULL);
    free(text);
}

/* SPDX-License-Identifier: MIT */
/*
 * weir.yaml: what it says is read as it is meant, and every mistake is told with its place and what to write
 * instead.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "config/timestamp.h"
#include "config/values.h"
#include "store/store.h"
#include "table/persist/persist.h"

/* ---- complaints, as they are printed ---- */

static char told[16384];
static int complaints;

static void tell(void *arg, const struct config_complaint *complaint)
{
    size_t len = strlen(told);
    (void)arg;
    complaints++;
    char text[COMPLAINT_TEXT_MAX];
    (void)snprintf(told + len, sizeof told - len, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *parse_bytes(const char *text, size_t len)
{
    told[0] = '\0';
    complaints = 0;
    return weir_config_parse("w.yaml", text, len, tell, NULL);
}

static struct config *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
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

TEST(an_empty_file_leaves_all_as_it_is_without_one)
{
    static const char *const texts[] = {"", "\n", "# nothing\n", "---\n", "--- # nothing\n...\n", "{}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config *config = good(texts[i]);
        if (!config)
            continue;
        CHECK(!config->listen[LISTEN_RESP] && !config->listen[LISTEN_UNIX] && config->threads == 0);
        CHECK_EQ(config->memory, CONFIG_MEMORY);
        CHECK_STR(config->data, "none");
        CHECK_STR(config->log_format, "logfmt");
        CHECK_STR(config->log_level, "info");
        CHECK_STR(config->path, "w.yaml");
        CHECK_EQ(config->policy_count + config->user_count, 0);
        weir_config_free(config);
    }
    weir_config_free(NULL);
}

TEST(the_server_is_configured_by_its_own_keys)
{
    struct config *config = good("listen:\n"
                                 "  resp: \"[::1]:9049\"\n"
                                 "  unix: /run/weir.sock\n"
                                 "data: none\n"
                                 "memory: 1.5GiB\n"
                                 "threads: 4\n"
                                 "clients: {max: 2k, per_address: 100, per_user: 500, idle: 5m}\n"
                                 "client_limits: {keys: 100k, horizon: 7d}\n"
                                 "log: {format: json, level: warn}\n");
    if (!config)
        return;
    CHECK_STR(config->listen[LISTEN_RESP], "[::1]:9049");
    CHECK_STR(config->listen[LISTEN_UNIX], "/run/weir.sock");
    CHECK_EQ(config->memory, INT64_C(1536) << 20);
    CHECK_EQ(config->threads, 4);
    CHECK_EQ(config->max_clients, 2000);
    CHECK_EQ(config->per_address, 100);
    CHECK_EQ(config->per_user, 500);
    CHECK_EQ(config->idle_ms, 300000);
    CHECK_EQ(config->client_keys, 100000);
    CHECK_EQ(config->horizon_ns, 7 * 86400 * WEIR_SEC);
    CHECK_STR(config->log_format, "json");
    CHECK_STR(config->log_level, "warn");
    weir_config_free(config);
}

TEST(a_policy_has_limits_modes_and_rules)
{
    struct config *config = good("policies:\n"
                                 "  - name: api\n"
                                 "    limits: [1000/10s burst=200, 10k/h]\n"
                                 "    candidate: 30/s burst=60, 1k/h\n"
                                 "    mode: enforce 25%\n"
                                 "    on_full: refuse\n"
                                 "    keys: 2M\n"
                                 "    reserve: {ttl: 2m, overrun: refuse}\n"
                                 "    ids: 24h\n"
                                 "    recover: exact\n"
                                 "  - {name: login, limits: 5/m algo=sliding-log, mode: shadow}\n"
                                 "  - {name: old/x-1.y:z_, limits: [unlimited], mode: disabled}\n");
    if (!config || !CHECK_EQ(config->policy_count, 3))
        return;
    const struct config_policy *api = &config->policies[0];
    CHECK_STR(api->name, "api");
    CHECK_STR(api->limits, "1k/10s burst=200, 10k/h");
    CHECK_STR(api->candidate, "30/s burst=60, 1k/h");
    CHECK_EQ(api->mode, MODE_ENFORCE);
    CHECK_EQ(api->percent, 25);
    CHECK_EQ(api->settings.on_full, WEIR_FULL_REFUSE);
    CHECK_EQ(api->keys, 2000000);
    CHECK_EQ(api->settings.ttl_ms, 120000);
    CHECK_EQ(api->settings.ids_ns, 86400 * WEIR_SEC);
    CHECK_EQ(api->settings.overrun, OVERRUN_REFUSE);
    CHECK_EQ(api->place.line, 2);
    CHECK_EQ(api->place.column, 5);
    CHECK_EQ(config->policies[1].mode, MODE_SHADOW);
    CHECK_EQ(config->policies[1].percent, 100);
    CHECK_EQ(config->policies[1].settings.on_full, WEIR_FULL_SHARE);
    CHECK_EQ(config->policies[1].settings.overrun, OVERRUN_DEBT);
    CHECK_EQ(config->policies[1].settings.ttl_ms, 60000);
    CHECK_EQ(config->policies[1].settings.ids_ns, 300 * WEIR_SEC);
    CHECK(config->policies[1].candidate == NULL);
    CHECK_EQ(config->policies[2].mode, MODE_DISABLED);
    CHECK_STR(config->policies[2].limits, "unlimited");
    weir_config_free(config);
}

TEST(overrides_are_of_a_key_or_of_a_prefix)
{
    struct config *config =
        good("policies:\n"
             "  - name: api\n"
             "    limits: 100/s\n"
             "    overrides:\n"
             "      - {key: org:acme, limits: [1000/s burst=2k, 5M/d], until: 2027-01-31,"
             " reason: launch week}\n"
             "      - {key: \"internal:*\", limits: unlimited, until: 2027-01-31T12:30:15Z}\n"
             "      - {key: \"internal:\", limits: blocked}\n"
             "      - {key: \"a\\0b\", limits: blocked}\n"
             "      - {key: \"*\", limits: 5/m}\n");
    if (!config || !CHECK_EQ(config->policies[0].override_count, 5))
        return;
    const struct config_override *list = config->policies[0].overrides;
    CHECK_STR(list[0].key, "org:acme");
    CHECK_EQ(list[0].len, 8);
    CHECK(!list[0].prefix);
    CHECK_STR(list[0].limits, "1k/s burst=2k, 5M/d");
    CHECK_EQ(list[0].until_ms, INT64_C(1801353600000));
    CHECK_STR(list[0].reason, "launch week");
    CHECK_STR(list[1].key, "internal:");
    CHECK(list[1].prefix);
    CHECK_EQ(list[1].until_ms, INT64_C(1801353600000) + ((12 * 60 + 30) * 60 + 15) * 1000);
    CHECK(!list[2].prefix && list[2].until_ms == 0 && !list[2].reason);
    CHECK_EQ(list[3].len, 3);
    CHECK(memcmp(list[3].key, "a\0b", 3) == 0);
    CHECK(list[4].prefix && list[4].len == 0);
    weir_config_free(config);
}

TEST(users_have_passwords_and_rights)
{
    static const char digest[] = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
    struct digest password = weir_sha256("password", 8);
    struct config *config =
        good("users:\n"
             "  - {name: default, may: [look]}\n"
             "  - {name: app, password: password, may: [take, look], keys: [\"user:*\", \"*\"],"
             " policies: [api, login]}\n"
             "  - name: ops\n"
             "    password_sha256: "
             "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8\n"
             "    may: all\n");
    (void)digest;
    if (!config || !CHECK_EQ(config->user_count, 3))
        return;
    const struct config_user *app = &config->users[1];
    CHECK(!config->users[0].has_password);
    CHECK_EQ(config->users[0].may, MAY_LOOK);
    CHECK_EQ(app->may, MAY_LOOK | MAY_TAKE);
    CHECK(app->has_password && app->password_count == 1 &&
          weir_digest_same(&app->passwords[0].digest, &password));
    CHECK_EQ(app->prefixes.count, 2);
    CHECK_STR(app->prefixes.texts[0], "user:");
    CHECK_STR(app->prefixes.texts[1], "");
    CHECK_EQ(app->policies.count, 2);
    CHECK_STR(app->policies.texts[1], "login");
    CHECK(weir_digest_same(&config->users[2].passwords[0].digest, &password));
    CHECK_EQ(config->users[2].may, MAY_ALL);
    weir_config_free(config);
}

TEST(a_user_has_two_passwords_while_one_replaces_the_other)
{
    struct digest one = weir_sha256("one", 3), two = weir_sha256("two", 3);
    static const char *const texts[] = {
        "users: [{name: app, password: [one, two], may: all}]\n",
        "users: [{name: app, password: one, password_sha256: "
        "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3, may: all}]\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config *config = good(texts[i]);
        CHECK(config && config->users[0].password_count == 2 &&
              weir_digest_same(&config->users[0].passwords[0].digest, &one) &&
              weir_digest_same(&config->users[0].passwords[1].digest, &two));
        weir_config_free(config);
    }
}

TEST(moments_are_read_and_written_in_utc)
{
    static const struct {
        const char *text;
        int64_t ms;
    } moments[] = {
        {"2000-01-01", INT64_C(946684800000)},
        {"2000-02-29", INT64_C(951782400000)},
        {"2026-11-15T16:50:00.123Z", INT64_C(1794761400123)},
        {"2100-03-01T00:00Z", INT64_C(4107542400000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
    };
    char text[TIMESTAMP_MAX];
    int64_t ms;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        CHECK(weir_timestamp_read(moments[i].text, &ms));
        CHECK_EQ(ms, moments[i].ms);
        weir_timestamp_write(ms, text);
        CHECK(strncmp(text, moments[i].text, 10) == 0);
        CHECK(weir_timestamp_read(text, &ms) && ms == moments[i].ms);
    }
    weir_timestamp_write(INT64_MAX, text);
    CHECK_STR(text, "9999-12-31T23:59:59.999Z");
    weir_timestamp_write(-1, text);
    CHECK_STR(text, "1970-01-01T00:00:00.000Z");
    struct rng rng = rng_new(1);
    for (int i = 0; i < 2000; i++) {
        int64_t want = rng_between(&rng, INT64_C(946684800000), INT64_C(253402300799999));
        weir_timestamp_write(want, text);
        if (!CHECK(weir_timestamp_read(text, &ms)) || !CHECK_EQ(ms, want))
            return;
    }
    static const char *const wrong[] = {"",
                                        "2027",
                                        "2027-1-31",
                                        "2027-13-01",
                                        "2027-00-01",
                                        "2027-02-29",
                                        "2027-01-32",
                                        "2027-01-31T",
                                        "2027-01-31T24:00Z",
                                        "2027-01-31T12:00:00+01:00",
                                        "1999-12-31",
                                        "2027-01-31 ",
                                        "2027-01-31 12:00Z",
                                        "2027-01-31T12:00:00.5Z"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!weir_timestamp_read(wrong[i], &ms));
}

/* ---- small readers ---- */

TEST(modes_are_read_with_their_share)
{
    static const struct {
        const char *text;
        int mode, percent; /* mode -1: wrong */
    } modes[] = {
        {"enforce", MODE_ENFORCE, 100},
        {"shadow", MODE_SHADOW, 100},
        {"disabled", MODE_DISABLED, 100},
        {"enforce 25%", MODE_ENFORCE, 25},
        {"enforce  1 %", MODE_ENFORCE, 1},
        {"Enforce 100%", MODE_ENFORCE, 100},
        {"enforce 0%", -1, 0},
        {"enforce 101%", -1, 0},
        {"enforce 25", -1, 0},
        {"enforce25%", -1, 0},
        {"enforce 0001%", -1, 0},
        {"enforce 25% ", -1, 0},
        {"shadow 5%", -1, 0},
        {"off", -1, 0},
        {"", -1, 0},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        enum policy_mode mode = MODE_ENFORCE;
        int percent = -1;
        char why[200] = "";
        bool read = weir_config_mode(modes[i].text, strlen(modes[i].text), &mode, &percent, why, sizeof why);
        CHECK_EQ(read, modes[i].mode >= 0);
        if (read) {
            CHECK_EQ(mode, modes[i].mode);
            CHECK_EQ(percent, modes[i].percent);
        } else {
            CHECK(strstr(why, "write enforce, shadow, disabled"));
            CHECK_EQ(percent, -1);
        }
    }
}

TEST(times_are_more_than_nothing)
{
    int64_t ns;
    char why[200];
    CHECK(weir_config_time("1h30m", 5, &ns, why, sizeof why) && ns == 5400 * WEIR_SEC);
    CHECK(weir_config_time("2hours", 2, &ns, why, sizeof why) && ns == 7200 * WEIR_SEC);
    CHECK(!weir_config_time("0", 1, &ns, why, sizeof why));
    CHECK_STR(why, "a time of 0 makes no sense here; write 30m or 2h");
    CHECK(!weir_config_time("30", 2, &ns, why, sizeof why) && why[0]);
    CHECK(!weir_config_time("", 0, &ns, why, sizeof why) && why[0]);
    CHECK(!weir_config_time("1s\0", 3, &ns, why, sizeof why) && why[0]);
    char many[100];
    memset(many, '1', sizeof many);
    CHECK(!weir_config_time(many, sizeof many, &ns, why, sizeof why) && why[0]);
}

TEST(names_are_short_and_plain)
{
    char why[160], most[CONFIG_NAME_MAX + 1];
    memset(most, 'x', sizeof most);
    CHECK(weir_config_name("a-Z_0.:/", 8, why, sizeof why));
    CHECK(weir_config_name(most, CONFIG_NAME_MAX, why, sizeof why));
    CHECK(!weir_config_name(most, CONFIG_NAME_MAX + 1, why, sizeof why));
    CHECK_STR(why, "a name has at most 63 letters, not 64");
    CHECK(!weir_config_name("", 0, why, sizeof why));
    CHECK(!weir_config_name("a\0", 2, why, sizeof why));
    CHECK(!weir_config_name("a b", 3, why, sizeof why));
    CHECK_STR(why, "a name has letters, digits and -_.:/ only, not 'a b'");
}

/* ---- mistakes ---- */

TEST(a_mistake_in_a_limit_has_its_column_in_the_file)
{
    BAD("policies:\n"
        "  - name: api\n"
        "    limits: [100/s brust=200, 10k/h, 5/m algo=bucket]\n",
        "w.yaml:3:20: 100/s brust=200\n"
        "                   ^ unknown option 'brust'; did you mean burst?\n"
        "w.yaml:3:47: 5/m algo=bucket\n"
        "                      ^ unknown algorithm 'bucket'; did you mean token-bucket?\n");
    BAD("policies:\n"
        "  - name: api\n"
        "    limits: '5/m, 100/s brust=200'\n",
        "w.yaml:3:25: 5/m, 100/s brust=200\n"
        "                        ^ unknown option 'brust'; did you mean burst?\n");
    BAD("policies: [{name: api, limits: 5 requests per hour}]\n",
        "w.yaml:1:34: 5 requests per hour\n"
        "               ^ units have no name; write 5/h\n");
    BAD("policies: [{name: api, limits: 100/s, candidate: \"100\"}]\n",
        "w.yaml:1:54: 100\n"
        "                ^ per what? write 100/s, 100/m, 100/h or 100/d\n");
}

TEST(a_mistake_in_a_text_of_several_lines_is_told_at_its_start)
{
    BAD("policies:\n"
        "  - name: api\n"
        "    limits: >\n"
        "      100/s,\n"
        "      5/m brust=2\n",
        "w.yaml:3:13: 100/s, 5/m brust=2 \n"
        "                        ^ unknown option 'brust'; did you mean burst?\n");
    BAD("policies: [{name: api, limits: \"5/m\\x20brust=2\"}]\n",
        "w.yaml:1:32: 5/m brust=2\n"
        "                 ^ unknown option 'brust'; did you mean burst?\n");
}

TEST(limits_that_no_table_has_are_told_at_their_place)
{
    BAD("policies: [{name: a, limits: 5/m initial=0}]\n",
        "w.yaml:1:34: 5/m initial=0\n"
        "                 ^ a key of a table starts as if idle for ever; leave initial= out\n");
    BAD("policies: [{name: a, limits: 12k/s algo=hybrid fill=thread}]\n",
        "w.yaml:1:48: 12k/s algo=hybrid fill=thread\n"
        "                               ^ a table has no thread that fills each key; leave fill= out, or "
        "write "
        "fill=callers\n");
    BAD("policies: [{name: a, limits: [5/m name=x, 6/h name=x]}]\n",
        "w.yaml:1:30: two limits are called 'x'; give each its own name\n");
    BAD("policies: [{name: a, limits: 5/m, overrides: [{key: k, limits: 100/s algo=sliding-log}]}]\n",
        "w.yaml:1:47: the limits of a single key may remember 64 numbers, and these need 104: a smaller "
        "sliding-log, or a policy of its own\n");
    weir_config_free(good(
        "policies: [{name: a, limits: 5/m, overrides: [{key: \"k*\", limits: 100/s algo=sliding-log}]}]\n"));
}

TEST(a_long_text_is_shown_around_the_place)
{
    char text[400], rest[200];
    memset(rest, '0', sizeof rest);
    rest[sizeof rest - 1] = '\0';
    (void)snprintf(text, sizeof text, "policies: [{name: a, limits: 5/m name=%s brust=1}]\n", rest);
    CHECK(parse(text) == NULL);
    CHECK(strstr(told, "...") && strlen(told) < 400);
    const char *line = strchr(told, '\n');
    CHECK(line && strchr(line, '^'));
}

TEST(limits_are_at_most_sixteen)
{
    CHECK(
        parse(
            "policies: [{name: a, limits: [1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s,9/s,10/s,11/s,12/s,13/s,14/s,15/s,"
            "16/s,17/s]}]\n") == NULL);
    CHECK_STR(told, "w.yaml:1:30: limits has 17 entries; at most 16\n");
    weir_config_free(
        good("policies: [{name: a, limits: [1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s,9/s,10/s,11/s,12/s,13/s,"
             "14/s,15/s,16/s]}]\n"));
    CHECK(parse("policies: [{name: a, limits: [\"1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s,9/s\", "
                "\"1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s,9/s\"]}]\n") == NULL);
    CHECK(strstr(told, "16"));
}

TEST(unknown_keys_are_told_with_what_was_meant)
{
    BAD("policies:\n"
        "  - name: search\n"
        "    limts: 5/m\n",
        "w.yaml:2:5: policy 'search' has no limits; write limits: 100/s\n"
        "w.yaml:3:5: unknown key 'limts' in policy 'search'; did you mean limits?\n");
    BAD("policies: [{name: a, limits: 100/s, burst: 200}]\n",
        "w.yaml:1:37: unknown key 'burst' in policy 'a'; it stands in the limit: limits: 100/s burst=200\n");
    BAD("policies: [{name: a, limits: 100/s, shadow: true}]\n",
        "w.yaml:1:37: unknown key 'shadow' in policy 'a'; write mode: shadow\n");
    BAD("policies: [{name: a, limits: 100/s, percent: 25}]\n",
        "w.yaml:1:37: unknown key 'percent' in policy 'a'; write mode: enforce 25%\n");
    BAD("burst: 200\n", "w.yaml:1:1: unknown key 'burst' in the file\n");
    BAD("polices: []\n", "w.yaml:1:1: unknown key 'polices' in the file; did you mean policies?\n");
    BAD("zzz: 1\n", "w.yaml:1:1: unknown key 'zzz' in the file\n");
    BAD("listen: {rsp: 127.0.0.1:1}\n", "w.yaml:1:10: unknown key 'rsp' in listen; did you mean resp?\n");
    BAD("policies: [{name: a, limits: 5/m, 10/h}]\n",
        "w.yaml:1:35: in braces several limits stand in brackets: limits: [100/s, 10/h]\n");
}

TEST(what_is_defined_twice_names_the_first)
{
    BAD("policies:\n"
        "  - name: api\n"
        "    limits: 5/m\n"
        "  - limits: 5/m\n"
        "    name: api\n",
        "w.yaml:4:5: policy 'api' is defined twice, first at line 2\n");
    BAD("memory: 8MiB\nmemory: 9MiB\n", "w.yaml:2:1: memory stands twice in the file, first in line 1\n");
    BAD("policies: [{name: a, limits: 5/m, limits: 6/m}]\n",
        "w.yaml:1:35: limits stands twice in policy 'a', first in line 1\n");
    BAD("users:\n"
        "  - {name: a, password: x, may: all}\n"
        "  - {name: a, password: x, may: all}\n",
        "w.yaml:3:5: user 'a' is defined twice, first at line 2\n");
    BAD("policies:\n"
        "  - name: a\n"
        "    limits: 5/m\n"
        "    overrides:\n"
        "      - {key: k, limits: 5/m}\n"
        "      - {key: \"k*\", limits: 5/m}\n"
        "      - {key: k, limits: 6/m}\n"
        "      - {key: \"k*\", limits: 5/m}\n",
        "w.yaml:7:9: the key 'k' has two overrides, first at line 5\n"
        "w.yaml:8:9: the key 'k*' has two overrides, first at line 6\n");
}

TEST(booleans_are_refused_with_the_right_words)
{
    BAD("policies: [{name: a, limits: 5/m, mode: off}]\n",
        "w.yaml:1:41: mode is 'off', which many YAML tools take for true or false; write enforce, shadow, "
        "disabled, or enforce 25%\n");
    BAD("policies: [{name: a, limits: 5/m, mode: \"off\"}]\n",
        "w.yaml:1:41: mode cannot be 'off'; write enforce, shadow, disabled, or enforce 25% (1 to 100)\n");
    BAD("log: {format: Yes}\n",
        "w.yaml:1:15: format is 'Yes', which many YAML tools take for true or false; write logfmt or json\n");
    BAD("policies: [{name: no, limits: 5/m}]\n", "w.yaml:1:19: name is 'no', which many YAML tools take for "
                                                 "true or false; write a name such as api\n");
    weir_config_free(good("policies: [{name: \"no\", limits: 5/m}]\n"));
}

TEST(values_of_the_wrong_kind_say_what_to_write)
{
    BAD("threads: [1]\n", "w.yaml:1:10: threads takes one value, not a list; write a number from 1 to 64\n");
    BAD("threads: {a: b}\n",
        "w.yaml:1:10: threads takes one value, not names and values; write a number from 1 to 64\n");
    BAD("threads:\n", "w.yaml:1:9: threads has no value; write a number from 1 to 64\n");
    BAD("threads: ~\n", "w.yaml:1:10: threads has no value; write a number from 1 to 64\n");
    BAD("threads: 0\n", "w.yaml:1:10: threads cannot be '0'; write a number from 1 to 64\n");
    BAD("threads: -1\n", "w.yaml:1:10: threads cannot be '-1'; write a number from 1 to 64\n");
    BAD("memory: 1MiB\n",
        "w.yaml:1:9: memory cannot be '1MiB'; write a size of at least 8MiB, in MiB or GiB, such as 1GiB\n");
    BAD("memory: 99999999999999999999GiB\n", "w.yaml:1:9: memory cannot be '99999999999999999999GiB'; write "
                                             "a size of at least 8MiB, in MiB or GiB, such "
                                             "as 1GiB\n");
    BAD("memory: \"256MiB\\0\"\n", "w.yaml:1:9: memory has a NUL character inside; write a size of at least "
                                   "8MiB, in MiB or GiB, such as 1GiB\n");
    BAD("clients: 5\n", "w.yaml:1:10: clients is written as names and values, such as max: ...\n");
    BAD("policies: [{name: a, limits: 5/m, ids: 999ms}]\n",
        "w.yaml:1:40: ids cannot be '999ms'; write a time from 1s to 24h, such as 5m\n");
    BAD("policies: [{name: a, limits: 5/m, ids: 24h1s}]\n",
        "w.yaml:1:40: ids cannot be '24h1s'; write a time from 1s to 24h, such as 5m\n");
    BAD("clients: {idle: 1}\n", "w.yaml:1:17: idle: 1 what? write 1s, 1m, 1h or 1d\n");
    BAD("policies: 5\n", "w.yaml:1:11: policies takes a list; write a list: - {name: api, limits: 100/s}\n");
    BAD("- a\n", "w.yaml:1:1: the file is written as names and values, such as policies: ...\n");
    BAD("just text\n", "w.yaml:1:1: the file is written as names and values, such as policies: ...\n");
}

TEST(certificates_and_who_has_one_are_read)
{
    struct config *config = good("tls: {cert: a.pem, key: /b.key, ca: c.pem, clients: required}\n"
                                 "watch: files\n"
                                 "users: [{name: app, certificate: 'CN=app', may: take}]\n");
    if (!config)
        return;
    CHECK(strcmp(config->tls_cert, "a.pem") == 0 && strcmp(config->tls_key, "/b.key") == 0);
    CHECK_STR(config->tls_ca, "c.pem");
    CHECK(config->tls_clients == 3 && config->watch == WATCH_FILES);
    CHECK_STR(config->users[0].certificate, "CN=app");
    CHECK(config->users[0].has_password && config->users[0].password_count == 0); /* it needs a login */
    weir_config_free(config);
    BAD("tls: {clients: all}\n", "w.yaml:1:16: clients cannot be 'all'; write none, optional or required\n");
    BAD("fleet: {}\n", "w.yaml:1:1: fleet is not in this version of weir; each server counts for itself\n");
    BAD("watch: some\n", "w.yaml:1:8: watch cannot be 'some'; write none or files\n");
    BAD("users: [{name: default, certificate: x, may: all}]\n",
        "w.yaml:1:9: `default` is who has not logged in, and has no certificate; write a user for it\n");
    BAD("users: [{name: a, certificate: x, may: all}, {name: b, certificate: x, may: all}]\n",
        "w.yaml:1:46: users 'a' and 'b' have the same certificate\n");
}

TEST(each_kind_of_listener_has_its_address)
{
    static const char *const names[] = {"resp", "resp_tls", "http", "https", "admin", "unix"};
    static const char *const usual[] = {"127.0.0.1:9049", NULL, "127.0.0.1:9050", NULL, NULL, NULL};
    struct config *config = good("{}");
    for (int i = 0; config && i < LISTENER_KINDS; i++) {
        const char *address = weir_config_listen(config, (enum listener_kind)i);
        CHECK_STR(address ? address : "none", usual[i] ? usual[i] : "none");
        CHECK_STR(weir_listener_name((enum listener_kind)i), names[i]);
        CHECK_EQ(weir_listener_read(names[i], strlen(names[i])), i);
    }
    weir_config_free(config);
    CHECK_EQ(weir_listener_read("http:", 5), LISTENER_KINDS);
    CHECK_EQ(weir_listener_read("", 0), LISTENER_KINDS);
    config = good(
        "listen: {resp: none, resp_tls: ':1', http: none, https: 'h:2', admin: '[::1]:3', unix: none}\n");
    static const char *const said[] = {NULL, ":1", NULL, "h:2", "[::1]:3", NULL};
    for (int i = 0; config && i < LISTENER_KINDS; i++) {
        const char *address = weir_config_listen(config, (enum listener_kind)i);
        CHECK_STR(address ? address : "none", said[i] ? said[i] : "none");
    }
    weir_config_free(config);
    BAD("listen: {https: 443}\n",
        "w.yaml:1:17: https cannot be '443'; write 127.0.0.1:9443, [::1]:9443, :9443 for all addresses, or "
        "none\n");
}

TEST(where_and_how_things_are_kept_is_read)
{
    struct config *config = good("data: /var/lib/weir\nfsync: always\n"
                                 "policies: [{name: a, limits: 5/m, recover: floor},"
                                 " {name: b, limits: 5/m, recover: optimistic}, {name: c, limits: 5/m}]\n");
    if (!config)
        return;
    CHECK_STR(config->data, "/var/lib/weir");
    CHECK(config->fsync == STORE_ALWAYS);
    CHECK(config->policies[0].settings.recover == TABLE_FLOOR);
    CHECK(config->policies[1].settings.recover == TABLE_OPTIMISTIC);
    CHECK(config->policies[2].settings.recover == TABLE_EXACT);
    weir_config_free(config);
    config = good("data: none\nfsync: never\n");
    CHECK(config && strcmp(config->data, "none") == 0 && config->fsync == STORE_NEVER);
    weir_config_free(config);
    config = good("memory: 8MiB\n");
    CHECK(config && strcmp(config->data, "none") == 0 && config->fsync == 0);
    weir_config_free(config);
    BAD("fsync: sometimes\n", "w.yaml:1:8: fsync cannot be 'sometimes'; write always, everysec or never\n");
    BAD("fsync: Always\n", "w.yaml:1:8: fsync cannot be 'Always'; write always, everysec or never\n");
    BAD("data: \"\"\n", "w.yaml:1:7: data has no value; write a directory such as /var/lib/weir, or none\n");
    BAD("policies: [{name: a, limits: 5/m, recover: maybe}]\n",
        "w.yaml:1:44: recover cannot be 'maybe'; write exact, floor or optimistic\n");
}

TEST(addresses_are_checked)
{
    static const char *const wrong[] = {"9049",         "localhost",   "\"127.0.0.1:\"",  "127.0.0.1:65536",
                                        "\"::1:9049\"", "\"[]:9049\"", "127.0.0.1:9049x", "127.0.0.1:999999"};
    static const char *const right[] = {"none", "localhost:0", "\":9049\"", "\"[::]:65535\"",
                                        "10.0.0.1:9049"};
    char text[100];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(text, sizeof text, "listen: {resp: %s}\n", wrong[i]);
        CHECK(parse(text) == NULL);
        CHECK(strstr(told, "write 127.0.0.1:9049"));
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        (void)snprintf(text, sizeof text, "listen: {resp: %s}\n", right[i]);
        weir_config_free(good(text));
    }
    char path[160];
    memset(path, 'p', sizeof path);
    (void)snprintf(text, sizeof text, "listen: {unix: none}\n");
    weir_config_free(good(text));
    char longer[200];
    (void)snprintf(longer, sizeof longer, "listen: {unix: /%.107s}\n", path);
    CHECK(parse(longer) == NULL);
    (void)snprintf(longer, sizeof longer, "listen: {unix: /%.106s}\n", path);
    weir_config_free(good(longer));
}

TEST(users_without_what_they_need_are_refused)
{
    BAD("users: [{name: app, may: all}]\n", "w.yaml:1:9: user 'app' has no password; write password_file: "
                                            "app.password or token_file: app.token (only `default` may go "
                                            "without)\n");
    BAD("users: [{name: app, password: x}]\n", "w.yaml:1:9: user 'app' may do nothing; write may: all, or "
                                               "some of may: [look, take, adjust, admin]\n");
    BAD("users: [{name: app, password: [x, y], password_file: z, may: all}]\n",
        "w.yaml:1:39: a user has at most 2 passwords, the old and the new one; leave one out\n");
    BAD("users: [{name: app, password: [x, y, z], may: all}]\n",
        "w.yaml:1:31: password has 3 entries; at most 2\n");
    BAD("users: [{name: app, password: [[x]], may: all}]\n",
        "w.yaml:1:32: password takes one value, not a list; write a password in quotes, or better "
        "password_file or "
        "password_sha256; a list of two while one replaces the other\n");
    BAD("users: [{name: app, password_sha256: 12345, may: all}]\n",
        "w.yaml:1:38: password_sha256 is something else; write 64 hexadecimal digits, as sha256sum prints "
        "them\n");
    BAD("users: [{name: app, password: x, may: [lok]}]\n",
        "w.yaml:1:40: may cannot be 'lok'; write all, or some of [look, take, adjust, admin]\n");
    BAD("users: [{name: app, password: x, may: all, keys: [user:1]}]\n",
        "w.yaml:1:51: keys are the beginnings of keys and end in *; write \"user:1*\" for all that begin "
        "so\n");
    BAD("users: [{name: app, password: x, may: all, keys: []}]\n",
        "w.yaml:1:50: keys is an empty list; leave it out, or write beginnings of keys: [\"user:*\"]; leave "
        "it out "
        "for all keys\n");
    BAD("users: [{name: app, password: x, may: []}]\n",
        "w.yaml:1:39: may is an empty list; write all, or some of [look, take, adjust, admin]\n");
    CHECK(parse("users: [{name: app, password: tops3cret, may: nothing, keys: [k]}]\n") == NULL);
    CHECK(strstr(told, "tops3cret") == NULL);
}

TEST(a_password_file_is_read_beside_the_configuration)
{
    char folder[] = "/tmp/weir-config-XXXXXX", path[64], text[160];
    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    (void)snprintf(path, sizeof path, "%s/secret", folder);
    FILE *file = fopen(path, "w");
    if (!CHECK(file != NULL))
        return;
    CHECK(fputs("password\n", file) >= 0 && fclose(file) == 0);
    struct digest password = weir_sha256("password", 8);
    static const char line[] = "users: [{name: a, password_file: secret, may: all}]\n";
    char yaml[64];
    (void)snprintf(yaml, sizeof yaml, "%s/w.yaml", folder);
    told[0] = '\0';
    struct config *config = weir_config_parse(yaml, line, sizeof line - 1, tell, NULL);
    CHECK_STR(told, "");
    CHECK(config && weir_digest_same(&config->users[0].passwords[0].digest, &password));
    weir_config_free(config);
    (void)snprintf(text, sizeof text, "users: [{name: a, password_file: %s, may: all}]\n", path);
    config = good(text);
    CHECK(config && weir_digest_same(&config->users[0].passwords[0].digest, &password));
    weir_config_free(config);
    CHECK(chmod(path, 0640) == 0);
    config = good(text);
    CHECK(config && config->users[0].open_file == NULL);
    weir_config_free(config);
    CHECK(chmod(path, 0644) == 0);
    config = good(text);
    CHECK(config && config->users[0].open_file && strcmp(config->users[0].open_file, path) == 0);
    weir_config_free(config);
    CHECK(chmod(path, 0602) == 0);
    CHECK(parse(text) == NULL && strstr(told, "can be written by every user (mode 0602); chmod 600 it"));
    CHECK(chmod(path, 0600) == 0);
    CHECK(truncate(path, 0) == 0);
    CHECK(parse(text) == NULL && strstr(told, "is empty"));
    CHECK(truncate(path, CONFIG_PASSWORD_MAX + 1) == 0);
    CHECK(parse(text) == NULL && strstr(told, "too long"));
    CHECK(unlink(path) == 0);
    CHECK(parse(text) == NULL && strstr(told, "cannot be read: No such file"));
    (void)snprintf(text, sizeof text, "users: [{name: a, password_file: %s, may: all}]\n", folder);
    CHECK(parse(text) == NULL && strstr(told, "it is no plain file"));
    CHECK(rmdir(folder) == 0);
}

TEST(a_star_inside_of_a_key_is_refused)
{
    BAD("policies: [{name: a, limits: 5/m, overrides: [{key: \"a*b\", limits: 6/m}]}]\n",
        "w.yaml:1:53: a '*' inside of a key stands for nothing; the beginning of keys ends in '*': "
        "\"internal:*\"\n");
    BAD("policies: [{name: a, limits: 5/m, overrides: [{key: \"a**\", limits: 6/m}]}]\n",
        "w.yaml:1:53: a '*' inside of a key stands for nothing; the beginning of keys ends in '*': "
        "\"internal:*\"\n");
}

TEST(mistakes_are_told_in_the_order_of_lines)
{
    BAD("policies:\n"
        "  - name: a\n"
        "    limits: 5/m\n"
        "    x: 1\n"
        "  - {name: b}\n"
        "  - {name: b, limits: 5/m, mode: off}\n"
        "threads: 0\n",
        "w.yaml:4:5: unknown key 'x' in policy 'a'\n"
        "w.yaml:5:5: policy 'b' has no limits; write limits: 100/s\n"
        "w.yaml:6:5: policy 'b' is defined twice, first at line 5\n"
        "w.yaml:6:34: mode is 'off', which many YAML tools take for true or false; write enforce, shadow, "
        "disabled, or enforce 25%\n"
        "w.yaml:7:10: threads cannot be '0'; write a number from 1 to 64\n");
}

TEST(yaml_that_is_none_is_told_with_its_place)
{
    BAD("a: [1\n",
        "w.yaml:2:1: this is no YAML: did not find expected ',' or ']', while parsing a flow sequence "
        "that began in line 1; is the indent right?\n");
    BAD("a: &x 1\n",
        "w.yaml:1:4: anchors (&name) are not understood here; write the value where it is needed\n");
    BAD("a: *x\n",
        "w.yaml:1:4: aliases (*name) are not understood here; a text that begins with * stands in quotes\n");
    BAD("policies: [{name: a, limits: 5/m, overrides: [{key: *, limits: 6/m}]}]\n",
        "w.yaml:1:53: a text that begins with * stands in quotes: \"*\"\n");
    BAD("users: [{name: app, password: x, may: all, keys: [user:]}]\n",
        "w.yaml:1:55: a word that ends in ':' is a name here; put it in quotes: \"user:\"\n");
    BAD("a: !!str x\n",
        "w.yaml:1:4: tags (!name) are not understood here; write the value alone, or in quotes\n");
    BAD("? [a]\n: b\n", "w.yaml:1:3: a name is expected here, as in name: value\n");
    BAD("a: 1\n---\nb: 2\n", "w.yaml:2:1: a second document; a file has one\n");
    BAD("a: @x\n", "w.yaml:1:4: a value cannot begin like this; put it in quotes, and use no tabs\n");
    BAD("[[[[[[[[[[[[a]]]]]]]]]]]]", "w.yaml:1:10: lists and maps stand in each other more than 8 deep\n");
    CHECK(parse("\xff\xfe") == NULL && complaints == 1);
    CHECK(parse("memory: 8MiB\nx\xc3: 1\n") == NULL);
    CHECK(strstr(told, "w.yaml:2:3: this is no UTF-8 text: "));
    CHECK(parse_bytes("a\0b", 3) == NULL && complaints == 1);
}

TEST(mistakes_are_told_up_to_twenty)
{
    char text[2000] = "policies:\n";
    for (int i = 0; i < 40; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "  - {name: p%d, limits: 5}\n", i);
    CHECK(parse(text) == NULL);
    CHECK_EQ(complaints, 20);
}

TEST(there_is_a_limit_on_everything)
{
    size_t size = CONFIG_FILE_MAX + 1;
    char *text = malloc(size);
    if (!CHECK(text != NULL))
        return;
    memset(text, '#', size);
    CHECK(parse_bytes(text, size) == NULL);
    CHECK_STR(told, "w.yaml: is too large: at most 4 MiB\n");
    weir_config_free(parse_bytes(text, size - 1));
    CHECK_EQ(complaints, 0);

    memset(text, 'x', 100000);
    memcpy(text, "a: ", 3);
    CHECK(parse_bytes(text, 100000) == NULL && strstr(told, "too long: at most 65536"));

    size_t len = 0;
    text[len++] = '[';
    while (len < 1200000) {
        text[len++] = 'a';
        text[len++] = ',';
    }
    CHECK(parse_bytes(text, len) == NULL && strstr(told, "too many values in one file"));
    free(text);
}

TEST(a_file_that_cannot_be_read_says_why)
{
    told[0] = '\0';
    CHECK(weir_config_read("/nonexistent/weir.yaml", tell, NULL) == NULL);
    CHECK_STR(told, "/nonexistent/weir.yaml: cannot be read: No such file or directory\n");
    told[0] = '\0';
    CHECK(weir_config_read("/", tell, NULL) == NULL);
    CHECK_STR(told, "/: cannot be read: Is a directory\n");
}

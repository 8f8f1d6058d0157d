/* SPDX-License-Identifier: MIT */
/*
 * A configuration as YAML, complete: also what nobody said has its line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/print.h"
#include "config/read_fleet.h"
#include "config/timestamp.h"
#include "spec/spec.h"

/* ---- texts ---- */

static bool is_yaml_word(const char *text, size_t len)
{
    static const char *const words[] = {"true", "false", "on", "off", "yes", "no", "y", "n", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (weir_text_same(text, len, words[i]))
            return true;
    return false;
}

static bool is_plain_byte(char byte, const char *others)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr(others, byte));
}

/* May it stand without quotes, in a block as well as in brackets? */
static bool is_plain_yaml(const char *text, size_t len)
{
    if (len == 0 || len > 256 || is_yaml_word(text, len) || !is_plain_byte(text[0], "/"))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_plain_byte(text[i], "_-./=+@% ") &&
            !(text[i] == ':' && i + 1 < len && is_plain_byte(text[i + 1], "_./=+@%")))
            return false;
    return text[len - 1] != ' ';
}

/* One character in double quotes. A byte that is no UTF-8 stands as the character of its number: YAML knows
 * no bytes. */
static void print_quoted(struct buffer *out, const char *text, size_t len)
{
    uint32_t code;
    buffer_put(out, "\"", 1);
    for (size_t i = 0, step; i < len; i += step ? step : 1) {
        step = weir_utf8_read(text + i, len - i, &code);
        if (step == 0)
            weir_buffer_print(out, "\\x%02X", (unsigned)(unsigned char)text[i]);
        else if (code == '"' || code == '\\')
            weir_buffer_print(out, "\\%c", text[i]);
        else if (weir_utf8_printable(code) && code != 0xFEFF)
            buffer_put(out, text + i, step);
        else
            weir_buffer_print(out, code > 0xFFFF ? "\\U%08X" : "\\u%04X", (unsigned)code);
    }
    buffer_put(out, "\"", 1);
}

static void print_text(struct buffer *out, const char *text, size_t len)
{
    if (is_plain_yaml(text, len))
        buffer_put(out, text, len);
    else
        print_quoted(out, text, len);
}

/* "name: text", and a line break. */
static void print_pair(struct buffer *out, const char *indent, const char *name, const char *text)
{
    weir_buffer_print(out, "%s%s: ", indent, name);
    print_text(out, text, strlen(text));
    buffer_put(out, "\n", 1);
}

static void print_list(struct buffer *out, const char *name, char *const *texts, size_t count,
                       const char *end)
{
    weir_buffer_print(out, "    %s: [", name);
    for (size_t i = 0; i < count; i++) {
        char joined[CONFIG_KEY_MAX + 2];
        struct text text;
        weir_text_init(&text, joined, sizeof joined);
        weir_text_put(&text, texts[i], strlen(texts[i]));
        weir_text_put(&text, end, strlen(end));
        weir_buffer_print(out, "%s", i > 0 ? ", " : "");
        print_text(out, joined, strlen(joined));
    }
    weir_buffer_print(out, "]\n");
}

/* Limits as a list in brackets. A comma never stands inside of a limit. */
static void print_limits(struct buffer *out, const char *limits)
{
    buffer_put(out, "[", 1);
    for (bool more = true; more;) {
        const char *comma = strchr(limits, ',');
        size_t len = comma ? (size_t)(comma - limits) : strlen(limits);
        print_text(out, limits, len);
        more = comma != NULL;
        if (more) {
            buffer_put(out, ", ", 2);
            limits = comma + 1 + strspn(comma + 1, " ");
        }
    }
    buffer_put(out, "]", 1);
}

void weir_print_time(struct buffer *out, const char *front, int64_t time_ns, const char *behind)
{
    char text[64];
    (void)weir_spec_format_period(time_ns, text, sizeof text);
    weir_buffer_print(out, "%s%s%s", front, text, behind);
}

/* ---- numbers ---- */

static void print_size(struct buffer *out, int64_t bytes)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {{"GiB", 1 << 30}, {"GB", 1000000000}, {"MiB", 1 << 20},
                 {"MB", 1000000},  {"KiB", 1 << 10},   {"", 1}};
    size_t unit = 0;
    while (bytes % units[unit].bytes != 0) /* which ends: 1 divides everything */
        unit++;
    weir_buffer_print(out, "memory: %" PRId64 "%s\n", bytes / units[unit].bytes, units[unit].name);
}

/* As short as it can be read back. */
static void print_timestamp(struct buffer *out, int64_t ms)
{
    char text[TIMESTAMP_MAX];
    weir_timestamp_write(ms, text);
    if (ms % 86400000 == 0)
        weir_buffer_print(out, "%.10s", text);
    else if (ms % 1000 == 0)
        weir_buffer_print(out, "%.19sZ", text);
    else
        weir_buffer_print(out, "%s", text);
}

/* ---- parts ---- */

static void print_server(struct buffer *out, const struct config *config)
{
    weir_buffer_print(out, "listen:\n");
    print_pair(out, "  ", "resp", config->resp ? config->resp : CONFIG_RESP);
    print_pair(out, "  ", "unix", config->unix_path ? config->unix_path : "none");
    print_pair(out, "", "data", config->data);
    if (config->hash_key_file)
        print_pair(out, "", "hash_key_file", config->hash_key_file);
    print_pair(out, "", "fsync", weir_fsync_name(config->fsync));
    print_size(out, config->memory);
    if (config->threads > 0)
        weir_buffer_print(out, "threads: %d\n", config->threads);
    else
        weir_buffer_print(out, "# threads: one for each processor\n");
    weir_buffer_print(out, "clients:\n  max: %" PRId64 "\n",
                      config->max_clients > 0 ? config->max_clients : CONFIG_CLIENTS_DEFAULT);
    if (config->per_address > 0)
        weir_buffer_print(out, "  per_address: %" PRId64 "\n", config->per_address);
    else
        weir_buffer_print(out, "  # per_address: any number\n");
    if (config->per_user > 0)
        weir_buffer_print(out, "  per_user: %" PRId64 "\n", config->per_user);
    else
        weir_buffer_print(out, "  # per_user: half, if several users are no admins\n");
    if (config->idle_ms > 0)
        weir_print_time(out, "  idle: ", config->idle_ms * WEIR_MS, "\n");
    else
        weir_buffer_print(out, "  idle: never\n");
    weir_buffer_print(out, "client_limits:\n");
    if (config->client_keys > 0)
        weir_buffer_print(out, "  keys: %" PRId64 "\n", config->client_keys);
    else
        weir_buffer_print(out, "  # keys: as many as an eighth of the memory holds\n");
    weir_print_time(out, "  horizon: ", config->horizon_ns > 0 ? config->horizon_ns : CONFIG_HORIZON_DEFAULT,
                    "\n");
    weir_buffer_print(out, "log:\n");
    print_pair(out, "  ", "format", config->log_format);
    print_pair(out, "  ", "level", config->log_level);
}

static void print_user(struct buffer *out, const struct config_user *user)
{
    static const char *const words[] = {"look", "take", "adjust", "admin"};
    weir_buffer_print(out, "  - name: ");
    print_text(out, user->name, strlen(user->name));
    weir_buffer_print(out, "\n%s", user->has_password ? "    # password_sha256: (hidden)\n" : "");
    if ((user->may & MAY_ALL) == MAY_ALL) {
        weir_buffer_print(out, "    may: all\n");
    } else {
        const char *comma = "";
        weir_buffer_print(out, "    may: [");
        for (unsigned i = 0; i < 4; i++)
            if (user->may & 1u << i) {
                weir_buffer_print(out, "%s%s", comma, words[i]);
                comma = ", ";
            }
        weir_buffer_print(out, "]\n");
    }
    if (user->prefix_count > 0)
        print_list(out, "keys", user->prefixes, user->prefix_count, "*");
    if (user->policy_count > 0)
        print_list(out, "policies", user->policies, user->policy_count, "");
}

static void print_override(struct buffer *out, const struct config_override *override)
{
    char key[CONFIG_KEY_MAX + 1];
    size_t len = override->len < CONFIG_KEY_MAX ? override->len : CONFIG_KEY_MAX;
    memcpy(key, override->key, len);
    if (override->prefix)
        key[len++] = '*';
    weir_buffer_print(out, "      - key: ");
    print_text(out, key, len);
    weir_buffer_print(out, "\n        limits: ");
    print_limits(out, override->limits);
    if (override->until_ms > 0) {
        weir_buffer_print(out, "\n        until: ");
        print_timestamp(out, override->until_ms);
    }
    weir_buffer_print(out, "\n");
    if (override->reason)
        print_pair(out, "        ", "reason", override->reason);
}

static void print_policy(struct buffer *out, const struct config_policy *policy)
{
    weir_buffer_print(out, "  - name: ");
    print_text(out, policy->name, strlen(policy->name));
    weir_buffer_print(out, "\n    limits: ");
    print_limits(out, policy->limits);
    if (policy->candidate) {
        weir_buffer_print(out, "\n    candidate: ");
        print_limits(out, policy->candidate);
    }
    weir_buffer_print(out, "\n    mode: %s", weir_mode_name(policy->mode));
    if (policy->mode == MODE_ENFORCE && policy->percent < CONFIG_PERCENT_ALL)
        weir_buffer_print(out, " %d%%", policy->percent);
    weir_buffer_print(out, "\n    on_full: %s\n", policy->on_full == WEIR_FULL_REFUSE ? "refuse" : "share");
    if (policy->keys > 0)
        weir_buffer_print(out, "    keys: %" PRId64 "\n", policy->keys);
    weir_buffer_print(out, "    reserve:\n");
    weir_print_time(out, "      ttl: ", config_ttl_ms(policy) * WEIR_MS, "\n");
    weir_print_time(out, "      ttl_max: ", config_ttl_max_ms(policy) * WEIR_MS, "\n");
    weir_buffer_print(out, "      overrun: %s\n", policy->overrun == OVERRUN_REFUSE ? "refuse" : "debt");
    weir_print_time(out, "    ids: ", policy->ids_ns > 0 ? policy->ids_ns : DEFAULT_IDS_NS, "\n");
    weir_buffer_print(out, "    recover: %s\n", weir_recover_name(policy->recover));
    if (policy->fleet)
        weir_fleet_print(policy->fleet, out);
    if (policy->override_count > 0)
        weir_buffer_print(out, "    overrides:\n");
    for (size_t i = 0; i < policy->override_count; i++)
        print_override(out, &policy->overrides[i]);
}

bool weir_config_print(const struct config *config, struct buffer *out)
{
    print_server(out, config);
    if (config->user_count > 0)
        weir_buffer_print(out, "users:\n");
    for (size_t i = 0; i < config->user_count; i++)
        print_user(out, &config->users[i]);
    weir_buffer_print(out, config->policy_count > 0 ? "policies:\n" : "policies: []\n");
    for (size_t i = 0; i < config->policy_count; i++)
        print_policy(out, &config->policies[i]);
    return !out->failed;
}

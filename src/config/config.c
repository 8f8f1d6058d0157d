/* SPDX-License-Identifier: MIT */
/*
 * weir.yaml: the file and its first level.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/read_http.h"
#include "config/read_policy.h"
#include "config/read_users.h"
#include "config/values.h"
#include "spec/read.h"
#include "spec/value.h"
#include "table/table.h"

#define DAY_MS INT64_C(86400000)

/* ---- the first level ---- */

/* host:port, [::1]:port, :port. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!colon || digits == 0 || digits > 5 || colon[1 + digits] || strtol(colon + 1, NULL, 10) > 65535)
        return false;
    if (text[0] == '[')
        return colon > text + 2 && colon[-1] == ']';
    return memchr(text, ':', (size_t)(colon - text)) == NULL;
}

static bool is_listener(const char *text)
{
    return strcmp(text, "none") == 0 || is_address(text);
}

static bool is_line_rate(const char *text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    return strcmp(text, "none") == 0 || weir_spec_parse(text, specs, WEIR_LIMITS_MAX, NULL) > 0;
}

/* Names of `listen:` but unix, where there is no address to be told. */
static const char *const proxied[] = {"resp", "resp_tls", "http", "https", "admin", NULL};

static void read_proxy_protocol(struct config_reader *reading, const struct yaml_node *node,
                                const struct config_key *key, void *into)
{
    _Static_assert(sizeof proxied / sizeof proxied[0] == LISTEN_UNIX + 1, "in the order of listener_kind");
    if (node->kind == NODE_TEXT && strcmp(node->text, "none") == 0)
        return;
    if (!weir_reading_is_list(reading, node, key, LISTENER_KINDS))
        return;
    for (const struct yaml_node *entry = node->first; entry; entry = entry->next) {
        int kind = weir_reading_word(reading, entry, key, proxied);
        *key_number(key, into) |= kind >= 0 ? INT64_C(1) << kind : 0;
    }
}

static void print_proxy_protocol(struct buffer *out, const struct config_key *key, const void *from,
                                 int indent)
{
    const char *front = "[";
    weir_key_print_name(out, key, indent);
    for (int kind = 0; proxied[kind]; kind++)
        if (*key_number(key, from) >> kind & 1) {
            weir_buffer_print(out, "%s%s", front, proxied[kind]);
            front = ", ";
        }
    weir_buffer_print(out, front[0] == '[' ? "none\n" : "]\n");
}

static const char *const fsyncs[] = {"always", "everysec", "never", NULL}; /* enum store_sync: from 1 on */
static const char *const tls_clients[] = {"none", "optional", "required", NULL}; /* enum tls_clients */
static const char *const watches[] = {"none", "files", NULL};                    /* enum config_watch */
static const char *const formats[] = {"logfmt", "json", NULL};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};

#define AT(MEMBER)         .offset = offsetof(struct config, MEMBER)
#define LISTEN_WRITE(PORT) "127.0.0.1:" PORT ", [::1]:" PORT ", :" PORT " for all addresses, or none"
static const struct config_key listen_keys[] = {
    [LISTEN_RESP] = {"resp", LISTEN_WRITE("9049"), KEY_TEXT, AT(listen[LISTEN_RESP]), .unset = CONFIG_RESP,
                     .check = is_listener},
    [LISTEN_RESP_TLS] = {"resp_tls", LISTEN_WRITE("9449"), KEY_TEXT, AT(listen[LISTEN_RESP_TLS]),
                         .unset = "none", .check = is_listener},
    [LISTEN_HTTP] = {"http", LISTEN_WRITE("9050"), KEY_TEXT, AT(listen[LISTEN_HTTP]), .unset = CONFIG_HTTP,
                     .check = is_listener},
    [LISTEN_HTTPS] = {"https", LISTEN_WRITE("9443"), KEY_TEXT, AT(listen[LISTEN_HTTPS]), .unset = "none",
                      .check = is_listener},
    [LISTEN_ADMIN] = {"admin", LISTEN_WRITE("9051"), KEY_TEXT, AT(listen[LISTEN_ADMIN]), .unset = "none",
                      .check = is_listener},
    [LISTEN_UNIX] = {"unix", "a path such as /run/weir/weir.sock, or none", KEY_TEXT, AT(listen[LISTEN_UNIX]),
                     .most = 107, .unset = "none"},
    {"proxy_protocol", "none, or a list of [resp, resp_tls, http, https, admin]", KEY_OWN, AT(proxy_protocol),
     .read = read_proxy_protocol, .print = print_proxy_protocol},
};
static const struct config_key clients_keys[] = {
    {"max", "a number of clients from 1 to 1M, such as 10000", KEY_COUNT, AT(max_clients),
     BETWEEN(1, 1000000), .usual = CONFIG_CLIENTS},
    {"per_address", "a number of clients from 1 to 1M; leave it out for any number", KEY_COUNT,
     AT(per_address), BETWEEN(1, 1000000), .unset = "# any number"},
    {"per_user", "a number of clients from 1 to 1M, such as 500", KEY_COUNT, AT(per_user),
     BETWEEN(1, 1000000), .unset = "# half, if several users are no admins"},
    {"idle", "a time from 1s to 366d, such as 5m, or never", KEY_MS, AT(idle_ms), BETWEEN(1000, 366 * DAY_MS),
     .unset = "never"},
};
static const struct config_key client_limits_keys[] = {
    {"keys", "a number of keys, such as 100k", KEY_COUNT, AT(client_keys), BETWEEN(1, CONFIG_KEYS_MAX),
     .unset = "# as many as an eighth of the memory holds"},
    {"horizon", "a time from 1s to 3660d, such as 31d", KEY_NS, AT(horizon_ns),
     BETWEEN(WEIR_SEC, 3660 * DAY_MS * WEIR_MS), .usual = 31 * DAY_MS * WEIR_MS},
};
static const struct config_key log_keys[] = {
    {"format", "logfmt or json", KEY_TEXT, AT(log_format), .words = formats},
    {"level", "debug, info, warn or error", KEY_TEXT, AT(log_level), .words = levels},
    {"refusals", "how many lines, such as 10/s, or none", KEY_TEXT, AT(log_refusals), .unset = "none",
     .check = is_line_rate},
};
static const struct config_key tls_keys[] = {
    {"cert", "the path of a file with the certificate and those up to its CA, in PEM", KEY_PATH,
     AT(tls_cert)},
    {"key", "the path of a file with the private key, in PEM", KEY_PATH, AT(tls_key)},
    {"ca", "the path of a file with the certificates that sign those of clients, in PEM", KEY_PATH,
     AT(tls_ca)},
    {"clients", "none, optional or required", KEY_WORD, AT(tls_clients), BETWEEN(1, 3), .usual = 1,
     .words = tls_clients},
};
static const struct config_map tls_map = {KEY_ARRAY(tls_keys)};
static const struct config_map listen_map = {KEY_ARRAY(listen_keys)};
static const struct config_map clients_map = {KEY_ARRAY(clients_keys)};
static const struct config_map client_limits_map = {KEY_ARRAY(client_limits_keys)};
static const struct config_map log_map = {KEY_ARRAY(log_keys)};

/* The first CONFIG_START_KEYS of them take effect after a restart, the others with a reload. */
static const struct config_key file_keys[] = {
    {"listen", "listen: {resp: 127.0.0.1:9049}", KEY_MAP, .inside = &listen_map},
    {"data", "a directory such as /var/lib/weir, or none", KEY_TEXT, AT(data), .most = CONFIG_DATA_MAX},
    {"hash_key_file", "a file with 32 hex digits that nobody else can read", KEY_PATH, AT(hash_key_file)},
    {"fsync", "always, everysec or never", KEY_WORD, AT(fsync), BETWEEN(1, 3), .usual = 2, .words = fsyncs},
    {"memory", "a size of at least 8MiB, in MiB or GiB, such as 1GiB", KEY_SIZE, AT(memory),
     BETWEEN(INT64_C(8) << 20, INT64_C(1) << 50)},
    {"threads", "a number from 1 to 64", KEY_COUNT, AT(threads), BETWEEN(1, 64),
     .unset = "# one for each processor"},
    {"clients", "clients: {max: 10000}", KEY_MAP, .inside = &clients_map},
    {"drain", "a time from 1ms to 10m, such as 5s", KEY_MS, AT(drain_ms), BETWEEN(1, 600000),
     .usual = CONFIG_DRAIN_MS},
    {"client_limits", "client_limits: {keys: 100k}", KEY_MAP, .inside = &client_limits_map},
    {"log", "log: {format: logfmt}", KEY_MAP, .inside = &log_map},
    HTTP_KEY("http", HTTP_SECTION),
    HTTP_KEY("trusted_proxies", HTTP_TRUSTED_PROXIES),
    HTTP_KEY("ipv6_prefix", HTTP_IPV6_PREFIX),
    HTTP_KEY("routes_default", HTTP_ROUTES_DEFAULT),
    HTTP_KEY("routes", HTTP_ROUTES),
    {"tls", "tls: {cert: weir.pem, key: weir.key}", KEY_MAP, .inside = &tls_map},
    {"watch", "none or files", KEY_WORD, AT(watch), BETWEEN(1, 2), .usual = 1, .words = watches},
    {"users", "a list: - {name: app, password_file: app.password, may: [take]}", KEY_OWN,
     .read = weir_reading_users, .print = weir_users_print},
    {"policies", "a list: - {name: api, limits: 100/s}", KEY_OWN, .read = weir_reading_policies,
     .print = weir_policies_print},
    {"fleet", "each server counts for itself", KEY_OWN, .read = weir_reading_later},
};
#undef AT
static const struct config_map file_map = {KEY_ARRAY(file_keys)};

static void read_config_file(struct config_reader *reading, const struct yaml_node *node)
{
    if (node->kind == NODE_MAP)
        (void)weir_reading_map(reading, node, "the file", &file_map, reading->config);
    else if (node->kind != NODE_TEXT || !node->plain || node->len > 0) /* else it is empty */
        weir_reading_wrong(reading, node->place,
                           "the file is written as names and values, such as policies: ...");
}

bool weir_config_print(const struct config *config, struct buffer *out)
{
    weir_keys_print(out, &file_map, config, 0, false);
    return !out->failed;
}

const char *weir_config_start_key(const struct config *config, size_t number, struct digest *digest)
{
    struct buffer out = {0};
    weir_key_print(&out, &file_keys[number], config, 0);
    bool good = !out.failed;
    *digest = weir_sha256(good ? buffer_bytes(&out) : "", good ? buffer_len(&out) : 0);
    weir_buffer_free(&out);
    return good ? file_keys[number].name : NULL;
}

const char *weir_config_listen(const struct config *config, enum listener_kind kind)
{
    const char *address = config->listen[kind] ? config->listen[kind] : listen_keys[kind].unset;
    return strcmp(address, "none") == 0 ? NULL : address;
}

const char *weir_listener_name(enum listener_kind kind)
{
    return listen_keys[kind].name;
}

enum listener_kind weir_listener_read(const char *name, size_t len)
{
    int kind = LISTEN_RESP;
    while (kind < LISTENER_KINDS &&
           (strlen(listen_keys[kind].name) != len || memcmp(listen_keys[kind].name, name, len) != 0))
        kind++;
    return (enum listener_kind)kind;
}

/* ---- the file ---- */

struct config *weir_config_new(void)
{
    struct config *config = calloc(1, sizeof *config);
    if (!config)
        return NULL;
    config->memory = CONFIG_MEMORY;
    config->data = strdup("none");
    config->log_format = strdup("logfmt");
    config->log_level = strdup("info");
    config->http = weir_http_rules_new();
    if (config->data && config->log_format && config->log_level && config->http)
        return config;
    weir_config_free(config);
    return NULL;
}

void weir_text_list_free(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->texts[i]);
    free(list->texts);
}

void weir_config_free(struct config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < config->policy_count; i++)
        weir_config_policy_free(&config->policies[i]);
    for (size_t i = 0; i < config->user_count; i++)
        weir_config_user_free(&config->users[i]);
    free(config->policies);
    free(config->users);
    weir_http_rules_drop(config->http);
    free(config->path);
    for (size_t i = 0; i < LISTENER_KINDS; i++)
        free(config->listen[i]);
    free(config->tls_cert);
    free(config->tls_key);
    free(config->tls_ca);
    free(config->data);
    free(config->hash_key_file);
    free(config->log_format);
    free(config->log_level);
    free(config->log_refusals);
    free(config);
}

const char *weir_complaint_text(const struct config_complaint *complaint, bool caret,
                                char text[static COMPLAINT_TEXT_MAX])
{
    struct text out;
    weir_text_init(&out, text, COMPLAINT_TEXT_MAX);
    weir_text_print(&out, "%.4095s", complaint->file);
    if (complaint->place.line > 0)
        weir_text_print(&out, ":%d:%d", complaint->place.line, complaint->place.column);
    weir_text_print(&out, ": ");
    int front = weir_text_column(text, out.len) - 1;
    if (complaint->excerpt[0] && caret && complaint->caret >= 0)
        weir_text_print(&out, "%s\n%*s^ %s", complaint->excerpt, front + complaint->caret, "",
                        complaint->message);
    else
        weir_text_print(&out, "%s%s%s", complaint->excerpt, complaint->excerpt[0] ? ": " : "",
                        complaint->message);
    return text;
}

int64_t weir_config_keys(const struct config *config)
{
    int64_t memory = config->memory > 0 ? config->memory : CONFIG_MEMORY;
    int64_t others =
        2 * memory / CONFIG_LEDGER_SHARE + memory / CONFIG_SMYTE_SHARE + memory / CONFIG_CLIENT_SHARE;
    return (memory - others) / weir_table_key_bytes("1/s", 0);
}

struct config *weir_config_parse(const char *path, const char *text, size_t len, config_complain *complain,
                                 void *arg)
{
    struct config_complaint kept[CONFIG_COMPLAINTS_MAX];
    struct config_reader reading = {
        .file = path, .kept = kept, .complain = complain, .arg = arg, .config = weir_config_new()};
    struct yaml_node *node = NULL;
    if (!reading.config || !(reading.config->path = strdup(path)))
        weir_reading_no_memory(&reading);
    else if (len > CONFIG_FILE_MAX)
        weir_reading_wrong(&reading, (struct config_place){0, 0}, "is too large: at most 4 MiB");
    else
        node = weir_node_read(&reading, text, len);
    if (node)
        read_config_file(&reading, node);
    if (node && reading.complaints == 0)
        weir_reading_end_http(&reading);
    weir_node_free(node);
    weir_reading_tell(&reading);
    if (reading.complaints == 0)
        return reading.config;
    weir_config_free(reading.config);
    return NULL;
}

/* Up to one byte more than a file may have. NULL: errno says why. */
static char *read_config_bytes(const char *path, size_t *len)
{
    char *bytes = malloc(CONFIG_FILE_MAX + 1);
    FILE *file = bytes ? fopen(path, "rbe") : NULL;
    if (file) {
        *len = fread(bytes, 1, CONFIG_FILE_MAX + 1, file);
        int fault = ferror(file) ? errno : 0;
        (void)fclose(file);
        if (fault == 0)
            return bytes;
        errno = fault;
    }
    free(bytes);
    return NULL;
}

const char *weir_config_shown(const char *path)
{
    size_t len = strlen(path), most = 60;
    return len <= most ? path : path + len - most;
}

struct config *weir_config_read(const char *path, config_complain *complain, void *arg)
{
    size_t len = 0;
    char *bytes = read_config_bytes(path, &len);
    if (!bytes) {
        struct config_complaint complaint = {.file = path};
        (void)snprintf(complaint.message, sizeof complaint.message, "cannot be read: %s", strerror(errno));
        complain(arg, &complaint);
        return NULL;
    }
    struct config *config = weir_config_parse(path, bytes, len, complain, arg);
    weir_secret_wipe(bytes, len);
    free(bytes);
    return config;
}

/* ---- small readers that commands share ---- */

static bool is_config_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("-_.:/", byte));
}

bool weir_config_name(const char *text, size_t len, char *why, size_t size)
{
    char shown[READING_SHOWN];
    size_t good = 0;
    while (good < len && is_config_name_byte(text[good]))
        good++;
    if (len == 0)
        (void)snprintf(why, size, "a name has at least one letter");
    else if (good < len)
        (void)snprintf(why, size, "a name has letters, digits and -_.:/ only, not '%s'",
                       weir_reading_show(text, len, shown));
    else if (len > CONFIG_NAME_MAX)
        (void)snprintf(why, size, "a name has at most %d letters, not %zu", CONFIG_NAME_MAX, len);
    else
        return true;
    return false;
}

/* " 25%", " 25 %"; the whole of what stands behind "enforce". */
static bool parse_percent(const char *text, size_t len, int *percent)
{
    size_t at = 0;
    int value = 0;
    while (at < len && text[at] == ' ')
        at++;
    if (at == 0)
        return false;
    for (size_t first = at; at < len && at - first < 3 && text[at] >= '0' && text[at] <= '9'; at++)
        value = value * 10 + (text[at] - '0');
    while (at < len && text[at] == ' ')
        at++;
    *percent = value;
    return at + 1 == len && text[at] == '%' && value >= 1 && value <= CONFIG_PERCENT_ALL;
}

const char *weir_mode_name(enum policy_mode mode)
{
    static const char *const names[] = {"enforce", "shadow", "disabled"};
    return names[mode];
}

int weir_fsync_read(const char *text)
{
    for (int i = 0; fsyncs[i]; i++)
        if (strcmp(text, fsyncs[i]) == 0)
            return i + 1;
    return 0;
}

const char *weir_fsync_name(int64_t fsync)
{
    return fsyncs[fsync >= 1 && fsync <= 3 ? fsync - 1 : 1];
}

bool weir_config_mode(const char *text, size_t len, enum policy_mode *mode, int *percent, char *why,
                      size_t size)
{
    const char *enforce = weir_mode_name(MODE_ENFORCE);
    size_t enforce_len = strlen(enforce);
    char shown[READING_SHOWN];
    int share = CONFIG_PERCENT_ALL;
    if (weir_text_same(text, len, weir_mode_name(MODE_SHADOW)))
        *mode = MODE_SHADOW;
    else if (weir_text_same(text, len, weir_mode_name(MODE_DISABLED)))
        *mode = MODE_DISABLED;
    else if (weir_text_same(text, len, enforce) ||
             (len > enforce_len && weir_text_same(text, enforce_len, enforce) &&
              parse_percent(text + enforce_len, len - enforce_len, &share)))
        *mode = MODE_ENFORCE;
    else {
        (void)snprintf(why, size,
                       "mode cannot be '%s'; write enforce, shadow, disabled, or enforce 25%% (1 to 100)",
                       weir_reading_show(text, len, shown));
        return false;
    }
    *percent = share;
    return true;
}

bool weir_config_time(const char *text, size_t len, int64_t *time_ns, char *why, size_t size)
{
    char copy[64];
    struct spec_fault fault = {.text = "a time is written 30s, 5m, 2h or 1h30m"};
    if (len < sizeof copy && !memchr(text, '\0', len)) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (weir_spec_read_period(copy, time_ns, &fault)) {
            if (*time_ns > 0)
                return true;
            (void)snprintf(fault.text, sizeof fault.text, "a time of 0 makes no sense here; write 30m or 2h");
        }
    }
    (void)snprintf(why, size, "%s", fault.text);
    return false;
}

/* SPDX-License-Identifier: MIT */
/*
 * What weir.yaml says, as plain data: read, checked and complete, but nothing of it in force yet. Strings
 * belong to the configuration. Everything that is 0 or NULL was not said.
 */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include "base/secret.h"
#include "lease/lease.h"
#include "weir-fleet.h"
#include "weir.h"

#define CONFIG_NAME_MAX     63 /* bytes of a policy's or user's name: letters, digits, and -_.:/ */
#define CONFIG_POLICIES_MAX 1024
#define CONFIG_PREFIXES_MAX 64 /* overrides of a policy that end in '*' */
#define CONFIG_PERCENT_ALL  100
#define CONFIG_PASSWORD_MAX 512               /* bytes */
#define CONFIG_TOKEN_MIN    16                /* bytes of a token in a file: it is to be random */
#define CONFIG_CRYPT_MAX    127               /* bytes of a hash of crypt(3) */
#define CONFIG_SUBJECT_MAX  255               /* of a client certificate */
#define CONFIG_PASSWORDS    4                 /* of a user: two passwords and two tokens */
#define CONFIG_OF_EACH      2                 /* while a new one replaces the old one, both count */
#define CONFIG_TTL_MAX_MS   INT64_C(86400000) /* of a reservation: 24 hours, in the file and in a request */

struct text_list {
    char **texts;
    size_t count;
};

struct config_place { /* in a file, from 1; 0: nowhere, as of what was set by command */
    int line, column;
};

enum policy_mode { MODE_ENFORCE, MODE_SHADOW, MODE_DISABLED };
enum overrun_rule { OVERRUN_DEBT, OVERRUN_REFUSE };

struct config_override {
    char *key; /* any bytes */
    size_t len;
    bool prefix;      /* it ended in '*': `key` is what stands before it */
    char *limits;     /* canonical text */
    char *reason;     /* or NULL */
    int64_t until_ms; /* wall clock, milliseconds since 1970; 0: no end */
    struct config_place place;
};

/* One limit for many servers: where its units come from. */
struct config_fleet {
    char *url;           /* of the coordinator, as it stands in the file: perhaps with a password */
    char *shown;         /* without one: for everything that people see */
    bool local;          /* it is this server: a root */
    bool secret;         /* the URL has a user or password */
    int64_t each;        /* 1: a pool for every key; 0: all keys share one */
    int64_t pools;       /* EACH: most that are in use at a time */
    int64_t wait_ns;     /* a take waits so long for the coordinator */
    int64_t hold_ns;     /* a root's bucket: how long what it leases may be spent; 0: 100 ms, or what fits */
    int64_t child_chunk; /* units of a chunk for those who lease from this server; 0: see read_fleet.c */
    struct weir_fleet_options options; /* those of the URL, too */
    struct lease_terms terms;          /* complete */
    char *lowered; /* a root's bucket: the limit that its table has, so that leases fit under it; or NULL */
    struct config_place place;
};

/* What a policy has beside its limits and its mode: the same in the file, in force, in the catalogue and in a
 * dump. Each is a row of policy_keys in read_policy.c. */
struct policy_settings {
    int64_t on_full;            /* enum weir_when_full */
    int64_t ttl_ms, ttl_max_ms; /* of reservations: if a request says none; the longest one */
    int64_t overrun;            /* enum overrun_rule: what happens if more is committed than was reserved */
    int64_t ids_ns;             /* how long a request id is remembered */
    int64_t headers;            /* enum rate_headers + 1, of answers over HTTP; 0: as http: says */
    int64_t recover; /* enum table_recover: what counts after a stop that may have lost something */
};

struct config_policy {
    struct policy_settings settings; /* complete. The first, so that rows have one offset for both structs */
    char *name;
    char *limits;    /* canonical text */
    char *candidate; /* the same, or NULL */
    enum policy_mode mode;
    int percent;  /* of the keys for which it is enforced: 1 to 100; MODE_ENFORCE only */
    int64_t keys; /* room from the start; 0: it grows by itself */
    struct config_override *overrides;
    size_t override_count;
    struct config_fleet *fleet;     /* or NULL: this server counts for itself */
    struct address_rules *address;  /* its keys are addresses: a reference; or NULL */
    struct address_entry *networks; /* while its lists are read */
    size_t network_count, network_room;
    bool is_tier; /* a further tier of the policy before it: see address_rules.h */
    struct config_place place;
};

/* Classes of commands. Everybody may say hello, log in and leave. */
enum user_right {
    MAY_LOOK = 1,   /* peek, explain, top, list, INFO: nothing changes */
    MAY_TAKE = 2,   /* take, acquire, reserve, commit, cancel, lease; RL.*, CL.THROTTLE, THROTTLE */
    MAY_ADJUST = 4, /* give, charge, reset, DEL, return: what a key has spent */
    MAY_ADMIN = 8,  /* policies, overrides, modes, reload, clients, clock */
    MAY_ALL = 15
};

/* A password is kept as its SHA-256, which is good for random ones, or as a slow hash of crypt(3). */
struct password {
    struct digest digest;             /* of the password, or of `crypt` */
    char crypt[CONFIG_CRYPT_MAX + 1]; /* "": none */
    bool is_token;                    /* it names its user, too: a bearer token of HTTP */
};

struct config_user {
    char *name;
    bool has_password; /* false: none is needed (only `default`) */
    struct password passwords[CONFIG_PASSWORDS];
    size_t password_count;     /* 0 although it has one: what is wrong with it was reported */
    unsigned may;              /* enum user_right, or-ed */
    struct text_list prefixes; /* of the keys; none: all keys */
    struct text_list policies; /* names; none: all */
    char *certificate;         /* the subject of its client certificate; or NULL */
    char *open_file;           /* a password_file or token_file that others can read, or NULL */
    struct config_place place;
};

/* What listens. A row of listen_keys in config.c each, in this order. */
enum listener_kind {
    LISTEN_RESP,
    LISTEN_RESP_TLS,
    LISTEN_HTTP,
    LISTEN_HTTPS,
    LISTEN_ADMIN, /* HTTP; where it is set, administrative routes are served there alone */
    LISTEN_UNIX,  /* RESP on a unix socket */
    LISTENER_KINDS
};

/* Whether a file that changes is a reason to reload. */
enum config_watch { WATCH_NOTHING = 1, WATCH_FILES };

struct config {
    char *path;                        /* NULL: no file */
    int64_t proxy_protocol;            /* listeners that expect its header: a bit 1 << kind each */
    char *listen[LISTENER_KINDS];      /* host:port, or a path; NULL: the default; "none": not at all */
    char *tls_cert, *tls_key, *tls_ca; /* paths of PEM files; or NULL */
    int64_t tls_clients;               /* enum tls_clients; 0: TLS_CLIENTS_NONE */
    int64_t watch;                     /* enum config_watch; 0: WATCH_NOTHING */
    char *data;                        /* a directory; "none": everything is in memory */
    char *hash_key_file;               /* NULL: every table draws the key of its hash */
    int64_t fsync;                     /* enum store_sync; 0: STORE_EVERYSEC */
    int64_t memory;                    /* bytes for all keys */
    int64_t threads;                   /* 0: one for each processor */
    int64_t client_keys; /* room for keys whose limits come with the call (RL.*, CL.THROTTLE); 0: a share */
    int64_t horizon_ns;  /* longest time such a key may need to be full again; 0: 31 days */
    int64_t max_clients; /* 0: 10000 */
    int64_t per_address; /* of them from one address; 0: any number */
    int64_t per_user;    /* of them as one user who is no admin; 0: half if there are several such users */
    int64_t drain_ms; /* before it stops it says for so long that it will, if somebody asks /readyz; 0: 5 s */
    int64_t idle_ms;  /* clients that say nothing for so long are closed; 0: never */
    char *log_format; /* "logfmt" or "json" */
    char *log_level;  /* "debug", "info", "warn" or "error" */
    char *log_refusals; /* limits: how often; NULL or "none": not at all */
    struct config_user *users;
    size_t user_count;
    struct http_rules *http; /* a reference */
    struct config_policy *policies;
    size_t policy_count;
    bool no_policies; /* it says policies: [], so none are meant */
    size_t networks;  /* in all lists of policies */
    size_t list_files;
};

/* What a reload, and weir check, say of a file that would remove all policies without saying so. */
#define CONFIG_EMPTY                                                                                         \
    "it names no policies, and all that came from the file would go; if that is meant, write policies: []"

/* What they say of a file without users, where the server that runs has some. */
#define CONFIG_NO_USERS                                                                                      \
    "users: is missing, and everybody who can connect could do everything; to open the server to everyone, " \
    "restart it"

#define CONFIG_RESP     "127.0.0.1:9049"
#define CONFIG_HTTP     "127.0.0.1:9050"
#define CONFIG_MEMORY   (INT64_C(256) << 20)
#define CONFIG_CLIENTS  10000
#define CONFIG_DRAIN_MS 5000
#define CONFIG_DATA_MAX 400                /* bytes of the directory's path */
#define CONFIG_KEYS_MAX (INT64_C(1) << 40) /* room for so many keys */

/* Where it listens: an address or a path; NULL: not at all. */
const char *weir_config_listen(const struct config *config, enum listener_kind kind);
/* "resp", "resp_tls" and so on; LISTENER_KINDS: there is no such word. */
const char *weir_listener_name(enum listener_kind kind);
enum listener_kind weir_listener_read(const char *name, size_t len);

/* What is not for the keys of policies: one part of the memory in so many. */
#define CONFIG_LEDGER_SHARE 16 /* for requests with an id, and as much for reservations */
#define CONFIG_SMYTE_SHARE  16 /* for RL.* */
#define CONFIG_CLIENT_SHARE 8  /* for keys whose limits come with the call */
/* How many keys of a single limit the rest has room for. */
int64_t weir_config_keys(const struct config *config);

/* A mistake. One inside of limits has an excerpt: the text that it is in, or the part of it around the place.
 */
struct config_complaint {
    const char *file;
    struct config_place place; /* line 0: of the file as a whole */
    char excerpt[320];         /* "": none */
    int caret;                 /* the character of the excerpt where the mistake is, from 0; -1: all of it */
    char message[640];
};

/* Writes "weir.yaml:9:20: message", or "weir.yaml: message"; with an excerpt "weir.yaml:9:20: excerpt:
 * message", or in two lines with a `caret`: weir.yaml:9:20: 100/s brust=200 ^ unknown option 'brust'; did you
 * mean burst? Returns `text`. */
#define COMPLAINT_TEXT_MAX 10240
const char *weir_complaint_text(const struct config_complaint *complaint, bool caret,
                                char text[static COMPLAINT_TEXT_MAX]);

typedef void config_complain(void *arg, const struct config_complaint *complaint);

/* Reads a file, or text that stands for one. NULL: at least one complaint was made; as many mistakes as can
 * be told apart are told, at most 20. weir_config_new is what stands without a file. */
struct config *weir_config_new(void);
/* The path as messages of limited size show it: the end of a long one. */
const char *weir_config_shown(const char *path);
struct config *weir_config_read(const char *path, config_complain *complain, void *arg);
struct config *weir_config_parse(const char *path, const char *text, size_t len, config_complain *complain,
                                 void *arg);
void weir_config_free(struct config *config);

struct buffer;
/* Writes it as YAML that weir_config_parse reads back as the same; of passwords a comment. false: out of
 * memory. */
bool weir_config_print(const struct config *config, struct buffer *out);

/* Of the keys that take effect after a restart: a digest of what the configuration says, and the name. NULL:
 * out of memory. */
#define CONFIG_START_KEYS 10
const char *weir_config_start_key(const struct config *config, size_t number, struct digest *digest);

void weir_text_list_free(struct text_list *list);

/* Small readers that commands share. false: `why` says what to write. */
bool weir_config_name(const char *text, size_t len, char *why, size_t size);
bool weir_config_mode(const char *text, size_t len, enum policy_mode *mode, int *percent, char *why,
                      size_t size);
const char *weir_mode_name(enum policy_mode mode);
/* always, everysec, never; 0: there is no such word. */
int weir_fsync_read(const char *text);
const char *weir_fsync_name(int64_t fsync);
/* 30m, 2h, 1h30m; more than 0. */
bool weir_config_time(const char *text, size_t len, int64_t *time_ns, char *why, size_t size);

#endif

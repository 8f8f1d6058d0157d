/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/explain.h"
#include "core/idle.h"
#include "service/persist/persist.h"
#include "service/policies/edit.h"
#include "service/policies/freeze.h"
#include "service/policies/growth.h"
#include "service/transfer/load.h"
#include "service/transfer/load_text.h"
#include "table/persist/export.h"
#include "table/persist/persist.h"

struct load {
    char id[LOAD_ID_MAX]; /* "": none */
    uint64_t number;      /* the order in which they began */
    char policy[CONFIG_NAME_MAX + 1];
    bool made, no_elapsed;
    int64_t page;
    struct load_count last, total;
    struct { /* tables that were said, so that one which is said again has the same time */
        uint64_t serial;
        int64_t time, lead_ns;
    } said[CONFIG_PREFIXES_MAX + 1];
    size_t said_count;
    /* the table whose keys come now: */
    struct policy_table *ptable; /* a reference */
    int64_t lead_ns;             /* region time of the dump - weir_now */
    struct weir_policy *source;  /* by which the words of the dump count, */
    struct weir_policy *target;  /* and ours */
    bool foreign;                /* our table knows keys by other hashes */
    bool same, exact;            /* limits; all: words can be taken over as they are */
    struct load_shared *shared;  /* comes in behind its keys */
    enum clients_kind clients;   /* of no policy, but these */
    int64_t elapsed_ms;          /* since they were dumped */
};

struct load_shared {
    struct load_shared *next;
    struct export_shared shared; /* its words are `words` */
    int64_t words[];
};

static const struct export_range whole = {0, UINT64_MAX};
static const struct slice nowhere = {"", 0};

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* ---- the policy ---- */

static bool fill_policy(struct edit *edit, struct policy *policy, const struct policy_definition *definition)
{
    char text[SPEC_TEXT_MAX];
    policy->mode = definition->mode;
    policy->percent = definition->percent;
    policy->settings = definition->settings;
    if (!weir_edit_read(edit, definition->limits, text))
        return false;
    struct edit_limits to = {text, GROWTH_KEYS_LEAST, false, false};
    return weir_edit_limits(edit, policy, &to) && weir_policy_freeze(policy, whole, nowhere, edit->err);
}

static bool make_loaded_policy(struct edit *edit, const struct policy_definition *definition)
{
    if (definition->fleet)
        return weir_edit_fail(edit, EPERM,
                              "the policy of the dump shares its limit with other servers: write it, with "
                              "fleet:, into the file of this server, reload, and load again");
    if (definition->address)
        return weir_edit_fail(
            edit, EPERM,
            "the keys of this policy are addresses: write it, with its address:, allow: and "
            "block:, into the file of this server, reload, and load again");
    if (edit->now->policy_count >= CONFIG_POLICIES_MAX)
        return weir_edit_fail(edit, ENOSPC, "there are 1024 policies already, the most there can be");
    struct policy *policy = weir_policy_make(definition->name, edit->service->options.workers + 1);
    if (!policy)
        return weir_edit_out_of_memory(edit);
    return weir_edit_put(edit, policy, fill_policy(edit, policy, definition));
}

/* Makes the policy, if there is none; then it is frozen until open_policy. */
static bool apply_definition(struct service *service, const struct policy_definition *definition, bool *made,
                             struct weir_error *err)
{
    struct edit edit;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    *made = !weir_snapshot_policy(edit.now, slice_of(definition->name));
    bool done = weir_edit_end(&edit, *made && make_loaded_policy(&edit, definition));
    return done || !*made;
}

static bool open_policy(struct service *service, const char *policy, struct weir_error *err)
{
    struct weir_error why = {0};
    if (weir_change_thaw(service, slice_of(policy), whole, false, &why) || why.code == ENOENT)
        return true; /* also if somebody else did it before */
    weir_error_set(err, why.code, why.text);
    return false;
}

/* ---- tables ---- */

/* Where the policy has the policy table of a prefix, or its own. NULL: nowhere. */
static struct policy_table **find_policy_table(struct policy *policy, const struct load_table *table)
{
    if (table->prefix_len == 0)
        return &policy->main;
    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i].len == table->prefix_len &&
            memcmp(policy->prefixes[i].key, table->prefix, table->prefix_len) == 0)
            return &policy->prefixes[i].ptable;
    return NULL;
}

static bool knows_by(const struct policy_table *ptable, const struct hash_key *key)
{
    const struct hash_key *own = &ptable->table->region->header->key;
    return own->low == key->low && own->high == key->high;
}

/* A key with limits of its own is listed also if it has spent nothing. */
static bool has_spent_nothing(void *arg, const struct weir_key *key)
{
    (void)arg;
    return key->verdict.reset_after_ns <= 0;
}

static bool is_shared(void *arg, const struct export_shared *shared)
{
    (void)arg;
    (void)shared;
    return false;
}

/* Nobody has spent anything of it; nor of what keys without room share. */
static bool is_unused(const struct policy_table *ptable)
{
    return weir_table_export_shared(ptable->table, weir_now(), &whole, is_shared, NULL) &&
           weir_table_each(ptable->table, has_spent_nothing, NULL);
}

static struct policy_table *make_policy_table(struct edit *edit, const struct load *load,
                                              const struct load_table *table, const char *limits,
                                              enum weir_when_full on_full)
{
    struct service *service = edit->service;
    int64_t keys = weir_growth_room(service, limits, max64(table->capacity, GROWTH_KEYS_PREFIX));
    struct weir_table_options options = {.keys = (size_t)max64(keys, GROWTH_KEYS_PREFIX),
                                         .overrides = POLICY_TABLE_OVERRIDES,
                                         .when_full = (int32_t)on_full};
    struct policy_table *ptable =
        weir_policy_table_of(weir_table_new_stored(limits, &options, &table->key, edit->err), 0, edit->err);
    if (!ptable)
        return NULL;
    ptable->bytes = weir_growth_bytes(ptable);
    int64_t now_ns = weir_now();
    weir_table_adopt_time(ptable->table, now_ns, sat_add(now_ns, load->lead_ns));
    int64_t lead_ns = service->store ? sat_sub(load->lead_ns, weir_store_offset(service->store)) : 0;
    if (weir_persist_add(service, ptable, lead_ns, edit->err))
        return ptable;
    weir_policy_table_free(ptable);
    return NULL;
}

/* Of the prefix that has this policy table. */
static const char *limits_of(const struct policy *policy, const struct policy_table *ptable)
{
    size_t at = 0;
    while (policy->prefixes[at].ptable != ptable)
        at++;
    return policy->prefixes[at].limits;
}

/* The policy is frozen, so nobody spends from the policy table that is there. *used: somebody has, and it
 * stays. */
static bool replace_unused_table(struct edit *edit, const struct load *load, const struct load_table *table,
                                 struct policy *policy, struct policy_table **made, bool *used)
{
    struct policy_table **at = find_policy_table(policy, table), *from = *at;
    const char *limits = at == &policy->main ? policy->limits : limits_of(policy, from);
    *used = !is_unused(from);
    *made = *used
                ? NULL
                : make_policy_table(edit, load, table, limits, (enum weir_when_full)policy->settings.on_full);
    if (!*made)
        return false;
    *at = *made;
    weir_policy_table_free(from);
    return at != &policy->main || weir_edit_carry_keys(edit, policy, *made, false);
}

static struct policy_table *put_in_place(struct service *service, const struct load *load,
                                         const struct load_table *table, bool *used, struct weir_error *err)
{
    struct edit edit;
    struct policy_table *made = NULL;
    if (!weir_edit_begin(&edit, service, err))
        return NULL;
    const struct policy *has = weir_edit_find(&edit, slice_of(load->policy));
    struct policy *policy = has ? weir_edit_copy(&edit, has) : NULL;
    bool good =
        policy && weir_edit_put(&edit, policy, replace_unused_table(&edit, load, table, policy, &made, used));
    (void)weir_policy_table_ref(good ? made : NULL);
    if (weir_edit_end(&edit, good))
        return made;
    weir_policy_table_free(good ? made : NULL);
    return NULL;
}

/* Ours. *foreign: it knows keys by other hashes. false: there is none. */
static bool find_ours(struct service *service, const struct load *load, const struct load_table *table,
                      struct policy_table **ours, bool *foreign, bool *frozen, struct weir_error *err)
{
    struct edit edit;
    *ours = NULL;
    if (!weir_edit_begin(&edit, service, err))
        return false;
    const struct policy *policy = weir_edit_find(&edit, slice_of(load->policy));
    struct policy_table **at = policy ? find_policy_table((struct policy *)(uintptr_t)policy, table) : NULL;
    if (policy && !at)
        (void)weir_edit_fail(
            &edit, ENOENT,
            "the dump has keys of a prefix with limits of its own: WEIR.OVERRIDE SET it here, "
            "then load again");
    *foreign = at && !knows_by(*at, &table->key);
    *ours = at ? weir_policy_table_ref(*at) : NULL;
    *frozen = false;
    for (size_t i = 0; at && i < policy->frozen_count; i++)
        *frozen |= policy->frozen[i].from == 0 && policy->frozen[i].to == UINT64_MAX;
    (void)weir_edit_end(&edit, false);
    return at != NULL;
}

/* By this load: it has the hash key and the time of the dump already, or was used. */
static bool was_said(const struct load *load, const struct policy_table *ptable)
{
    for (size_t i = 0; i < load->said_count; i++)
        if (load->said[i].serial == ptable->serial)
            return true;
    return false;
}

/* One that nobody has used yet gives way. */
/* The policy table that keys of this table come to: ours, or one that takes its place. A reference. *foreign:
 * it knows keys by other hashes than the dump. */
static struct policy_table *adopt_table(struct service *service, const struct load *load,
                                        const struct load_table *table, bool *foreign, struct weir_error *err)
{
    struct policy_table *ours, *made;
    bool frozen, used = false;
    if (!find_ours(service, load, table, &ours, foreign, &frozen, err) || was_said(load, ours) ||
        !is_unused(ours))
        return ours;
    struct slice name = slice_of(load->policy);
    made = frozen || weir_change_freeze(service, name, whole, nowhere, err)
               ? put_in_place(service, load, table, &used, err)
               : NULL;
    if (!frozen)
        (void)open_policy(service, load->policy, NULL);
    if (used) /* meanwhile */
        return ours;
    *foreign = false;
    weir_policy_table_free(ours);
    return made;
}

/* ---- loads that are open ---- */

struct loads {
    struct load open[LOADS_MAX];
    uint64_t begun;
};

static void clear_table(struct load *load)
{
    weir_policy_free(load->source);
    weir_policy_free(load->target);
    weir_policy_table_free(load->ptable);
    for (struct load_shared *shared = load->shared, *next; shared; shared = next) {
        next = shared->next;
        free(shared);
    }
    load->shared = NULL;
    load->source = load->target = NULL;
    load->ptable = NULL;
}

static void clear_load(struct load *load)
{
    clear_table(load);
    *load = (struct load){0};
}

void weir_loads_free(struct service *service)
{
    for (size_t i = 0; service->loads && i < LOADS_MAX; i++)
        clear_load(&service->loads->open[i]);
    free(service->loads);
    service->loads = NULL;
}

static struct load *find_load(struct service *service, const struct load_name *name, struct weir_error *err)
{
    for (size_t i = 0; service->loads && i < LOADS_MAX; i++) {
        struct load *load = &service->loads->open[i];
        if (load->id[0] && slice_is(name->id, load->id) && slice_is(name->policy, load->policy))
            return load;
    }
    (void)weir_error_complain_as(err, ENOENT,
                                 "no such load is going on: it has ended, or the server was started since");
    return NULL;
}

/* A free place, or that of the oldest. NULL: out of memory. */
static struct load *new_load(struct service *service)
{
    struct load *oldest = NULL;
    if (!service->loads && !(service->loads = calloc(1, sizeof *service->loads)))
        return NULL;
    for (size_t i = 0; i < LOADS_MAX; i++) {
        struct load *load = &service->loads->open[i];
        if (!oldest || load->number < oldest->number)
            oldest = load;
    }
    clear_load(oldest);
    oldest->number = ++service->loads->begun;
    return oldest;
}

static bool is_id(struct slice id, struct weir_error *err)
{
    return (id.len > 0 && id.len < LOAD_ID_MAX && !memchr(id.bytes, 0, id.len)) ||
           weir_error_complain_as(err, EINVAL, "the id of a load has 1 to 63 bytes");
}

/* That of this name, or a new one, with nothing in it yet; NULL: out of memory. */
static struct load *begin_anew(struct service *service, const struct load_name *name, struct weir_error *err)
{
    struct load *load = find_load(service, name, NULL);
    if (!load && !(load = new_load(service))) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    uint64_t number = load->number;
    clear_load(load);
    load->number = number;
    return load;
}

bool weir_load_clients(struct service *service, struct slice id, bool no_elapsed, struct slice line,
                       struct weir_error *err)
{
    int64_t elapsed_ms;
    struct load_name name = {{LOAD_CLIENTS, strlen(LOAD_CLIENTS)}, id};
    enum clients_kind kind =
        is_id(id, err) ? weir_clients_begin(service, line, &elapsed_ms, err) : CLIENTS_NONE;
    struct load *load = kind != CLIENTS_NONE ? begin_anew(service, &name, err) : NULL;
    if (!load)
        return false;
    memcpy(load->id, id.bytes, id.len);
    memcpy(load->policy, LOAD_CLIENTS, sizeof LOAD_CLIENTS);
    load->clients = kind;
    load->elapsed_ms = no_elapsed ? 0 : elapsed_ms;
    return true;
}

bool weir_load_begin(struct service *service, const struct load_begin *begin, bool *made,
                     struct weir_error *err)
{
    struct policy_definition definition;
    if (!is_id(begin->id, err) || !weir_definition_read(&definition, begin->lines, begin->count, err))
        return false;
    if (!slice_is(begin->policy, definition.name))
        return weir_error_complain_as(err, EINVAL, "the lines are of another policy");
    struct load *load = begin_anew(service, &(struct load_name){begin->policy, begin->id}, err);
    if (!load || !apply_definition(service, &definition, made, err))
        return false;
    memcpy(load->id, begin->id.bytes, begin->id.len);
    memcpy(load->policy, definition.name, sizeof load->policy);
    load->made = *made;
    load->no_elapsed = begin->no_elapsed;
    return true;
}

/* All keys of the table have come. */
static bool end_table(struct load *load, struct weir_error *err)
{
    int64_t now_ns = weir_now();
    while (load->shared) {
        struct load_shared *held = load->shared;
        if (!weir_table_import_shared(load->ptable->table, now_ns, &held->shared))
            return weir_error_complain_as(err, ENOMEM, "out of memory");
        load->shared = held->next;
        free(held);
    }
    clear_table(load);
    return true;
}

bool weir_load_end(struct service *service, const struct load_name *name, struct load_count *total,
                   struct weir_error *err)
{
    struct load *load = find_load(service, name, err);
    if (!load || !end_table(load, err))
        return false;
    *total = load->total;
    if (load->made && !open_policy(service, load->policy, err))
        return false;
    clear_load(load);
    return true;
}

/* ---- tables ---- */

/* Region time of the dump - weir_now. */
static int64_t lead_of(const struct service *service, const struct load *load, const struct load_table *table)
{
    int64_t now_ns = weir_now();
    int64_t elapsed_ms = sat_sub(service_wall_ms(service, now_ns), table->wall_ms);
    int64_t elapsed_ns = load->no_elapsed ? 0 : clamp64(elapsed_ms, 0, LOAD_ELAPSED_MS) * WEIR_MS;
    return sat_sub(sat_add(table->time, elapsed_ns), now_ns);
}

static void say_again(struct load *load, const struct load_table *table)
{
    size_t at = 0;
    while (at < load->said_count && load->said[at].serial != load->ptable->serial)
        at++;
    if (at < load->said_count && load->said[at].time == table->time)
        load->lead_ns = load->said[at].lead_ns;
    else if (at <= CONFIG_PREFIXES_MAX) {
        load->said[at].serial = load->ptable->serial;
        load->said[at].time = table->time;
        load->said[at].lead_ns = load->lead_ns;
        load->said_count = at < load->said_count ? load->said_count : at + 1;
    }
}

static bool make_ready(struct load *load, const struct load_table *table, struct weir_error *err)
{
    char text[SPEC_TEXT_MAX];
    struct weir_table *ours = load->ptable->table;
    (void)weir_table_text(ours, text, sizeof text);
    load->source = weir_policy_idle(table->limits, err);
    load->target = load->source ? weir_policy_idle(text, err) : NULL;
    load->same = strcmp(text, table->limits) == 0;
    load->exact = load->same && !load->foreign && ours->region->offset_ns == load->lead_ns &&
                  (ours->kind == &weir_table_wide) == table->wide;
    return load->target != NULL;
}

bool weir_load_table(struct service *service, const struct load_name *name, struct slice line,
                     struct weir_error *err)
{
    struct load *load = find_load(service, name, err);
    struct load_table table;
    if (!load || !weir_load_table_read(&table, line, err) || !end_table(load, err))
        return false;
    load->lead_ns = lead_of(service, load, &table);
    load->ptable = adopt_table(service, load, &table, &load->foreign, err);
    if (!load->ptable)
        return false;
    say_again(load, &table);
    if (make_ready(load, &table, err))
        return true;
    clear_table(load);
    return false;
}

/* ---- keys ---- */

/* What a state has spent of each limit that counts here. */
static void reckon_spent(const struct load *load, const int64_t *words, struct export_key *key)
{
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    int64_t changed[EXPORT_WORDS_MAX], now = sat_add(weir_now(), load->lead_ns);
    const struct weir_policy *policy = load->source;
    now = clamp64(now, 0, WEIR_TIME_MAX);
    if (!load->same && load->target->words <= EXPORT_WORDS_MAX) {
        weir_state_change(load->source, words, load->target, changed, now);
        policy = load->target;
        words = changed;
    }
    weir_state_explain(policy, words, now, limits, WEIR_LIMITS_MAX);
    key->limits = policy->count;
    for (size_t i = 0; i < policy->count; i++)
        key->spent[i] = max64(limits[i].used, 0);
}

/* false: it makes no sense. */
static bool read_load_key(const struct load *load, const struct load_line *line, struct export_key *key)
{
    *key = (struct export_key){.hash = line->hash, .name = line->name, .len = line->len};
    if (line->spent) {
        if (line->count > WEIR_LIMITS_MAX)
            return false;
        key->limits = line->count;
        for (size_t i = 0; i < line->count; i++)
            key->spent[i] = line->numbers[i];
        return true;
    }
    if (line->count != load->source->words || !weir_state_valid(load->source, line->numbers))
        return false;
    reckon_spent(load, line->numbers, key);
    key->words = line->numbers;
    key->count = load->exact ? line->count : 0;
    return true;
}

/* Keys that are here are charged at once; the rest waits for the end of the table (export.h). By other hashes
 * nobody knows which keys share it: then all do. */
static bool bring_shared(struct load *load, int64_t now_ns, const struct load_line *line,
                         const struct export_key *key, struct weir_error *err)
{
    struct load_shared *held = malloc(sizeof *held + key->count * sizeof *held->words);
    if (!held)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    *held = (struct load_shared){load->shared, {{line->hash, line->to}, *key}};
    if (load->foreign)
        held->shared.of = (struct export_range){0, UINT64_MAX};
    if (key->count > 0)
        memcpy(held->words, key->words, key->count * sizeof *held->words);
    held->shared.key.words = held->words;
    load->shared = held;
    return weir_table_expect_shared(load->ptable->table, now_ns, &held->shared) ||
           weir_error_complain_as(err, ENOMEM, "out of memory");
}

/* `bring` false: only looks. */
static bool do_lines(struct service *service, struct load *load, const struct slice *lines, size_t count,
                     bool bring, struct load_count *done, struct weir_error *err)
{
    static const char strangers[] =
        "keys are known by hashes, and here by other ones than in the dump: load it where nobody has used "
        "this policy, have both tables made with one hash_key_file, or forget what was spent here "
        "(WEIR.POLICY SET name limits FRESH)";
    struct load_line *line = malloc(sizeof *line);
    int64_t now_ns = weir_now();
    (void)service;
    bool good = line || weir_error_complain_as(err, ENOMEM, "out of memory");
    for (size_t i = 0; good && i < count; i++) {
        struct export_key key;
        if (!weir_load_line_read(line, lines[i], err) || line->nothing) {
            good = line->nothing;
        } else if (load->foreign && !line->name && !line->shared) {
            good = weir_error_complain_as(err, EEXIST, "%s", strangers);
        } else if (!read_load_key(load, line, &key)) {
            good = weir_error_complain_as(
                err, EINVAL, "the words of a key are no state of its limits: the dump was altered");
        } else if (bring && line->shared) {
            good = bring_shared(load, now_ns, line, &key, err);
        } else if (bring) {
            bool came = weir_table_import(load->ptable->table, now_ns, &key);
            done->keys += came;
            done->full += !came;
        }
    }
    free(line);
    return good;
}

static bool do_clients(struct service *service, struct load *load, const struct slice *lines, size_t count,
                       bool bring, struct load_count *done, struct weir_error *err)
{
    for (size_t i = 0; i < count; i++) {
        bool came;
        if (!weir_clients_line(service, load->clients, load->elapsed_ms, lines[i], bring, &came, err))
            return false;
        done->keys += bring && came;
        done->full += bring && !came;
    }
    return true;
}

bool weir_load_keys(struct service *service, const struct load_name *name, int64_t page,
                    const struct slice *lines, size_t count, struct load_count *done, struct weir_error *err)
{
    struct load *load = find_load(service, name, err);
    *done = (struct load_count){0};
    if (!load)
        return false;
    if (!load->ptable && load->clients == CLIENTS_NONE)
        return weir_error_complain_as(err, EINVAL, "WEIR.LOAD TABLE comes before its keys");
    if (page == load->page && page > 0) { /* the answer was lost on its way */
        *done = load->last;
        return true;
    }
    if (page != load->page + 1)
        return weir_error_complain_as(err, EINVAL, "pages come in their order: 1, 2, 3 ...");
    bool (*act)(struct service *, struct load *, const struct slice *, size_t, bool, struct load_count *,
                struct weir_error *) = load->clients != CLIENTS_NONE ? do_clients : do_lines;
    if (!act(service, load, lines, count, false, done, err) ||
        !act(service, load, lines, count, true, done, err))
        return false;
    load->page = page;
    load->last = *done;
    load->total.keys += done->keys;
    load->total.full += done->full;
    return true;
}

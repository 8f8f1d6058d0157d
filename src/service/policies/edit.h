/* SPDX-License-Identifier: MIT */
/*
 * A change in the making. Policies are copied and altered, tables are made, and what has to be done to tables
 * that are in use is written down as steps. Only when all of that has succeeded the steps are done and the
 * new snapshot is published; a step that fails takes those before it back. So a change is whole or is not.
 */
#ifndef WEIR_SERVICE_POLICIES_EDIT_H
#define WEIR_SERVICE_POLICIES_EDIT_H

#include "service/service.h"
#include "spec/spec.h"

/* Something to be done to a table that requests use. */
struct edit_step {
    struct policy_table *ptable; /* a reference */
    char *key;                   /* NULL: the limits of all keys */
    size_t len;
    char *to, *back; /* limits; of a key NULL: none of its own */
    bool optional;   /* what is in force does not depend on it */
};

struct edit {
    struct service *service;
    const struct snapshot *now; /* in force */
    struct snapshot *next;      /* in the making */
    int64_t now_ns;
    struct edit_step *steps;
    size_t count, room, undone;
    bool urgent;  /* takes no memory; comes into force while the store is ill, and is recorded afterwards */
    bool forgets; /* policies that go are not retired */
    /* What comes back in force if the change fails: policies that go are frozen while they are retired, in
     * a snapshot of their own, which `now` is by then. Or NULL. */
    struct snapshot *thawed;
    /* Called when the change is in force, while `now` can still be looked at; or NULL. */
    void (*in_force)(const struct edit *edit, const void *arg);
    const void *in_force_arg;
    struct weir_error *err;
};

/* Takes service->change. false: `err` says why, and nothing is to be ended. */
bool weir_edit_begin(struct edit *edit, struct service *service, struct weir_error *err);
/* Puts it in force if it is `good` so far, or else forgets it. Gives service->change back. */
bool weir_edit_end(struct edit *edit, bool good);
/* As printf; false. */
__attribute__((format(printf, 3, 4))) bool weir_edit_fail(struct edit *edit, int code, const char *format,
                                                          ...);
bool weir_edit_out_of_memory(struct edit *edit); /* false */

/* The policy of that name, to be looked at; says "no policy 'ap'; did you mean 'api'?" and gives NULL. */
const struct policy *weir_edit_find(struct edit *edit, struct slice name);
/* A copy to be altered, or NULL. */
struct policy *weir_edit_copy(struct edit *edit, const struct policy *policy);
/* Lists the altered policy, which it takes over in any case, unless it is not `good`. */
bool weir_edit_put(struct edit *edit, struct policy *policy, bool good);

/* ---- limits ---- */

/* Reads limits as people write them. */
bool weir_edit_read(struct edit *edit, const char *limits, char text[static SPEC_TEXT_MAX]);
/* The same text is no change, unless `fresh`: then nobody has spent anything. `keys` of room for a new policy
 * table, or 0: little. `refit`: the policy table must be made anew for another reason. */
struct edit_limits {
    const char *text; /* canonical */
    int64_t keys;
    bool fresh, refit;
};
bool weir_edit_limits(struct edit *edit, struct policy *policy, const struct edit_limits *to);
/* What recover: floor means for these limits: whoever writes it has said that he would rather refuse, but may
 * not know for how long. */
#define FLOOR_TEXT_MAX 240
void weir_limits_floor(const char *limits, char text[static FLOOR_TEXT_MAX]);
/* NULL: none. */
bool weir_edit_candidate(struct edit *edit, struct policy *policy, const char *text, int64_t keys);

/* ---- overrides ---- */

struct edit_override {
    struct slice key;
    bool prefix;
    const char *text; /* canonical; NULL: none any more */
    struct slice reason;
    int64_t until_ms;
    bool from_file;
};
bool weir_edit_override(struct edit *edit, struct policy *policy, const struct edit_override *to);
/* The keys with limits of their own have them in another table, too. */
bool weir_edit_carry_keys(struct edit *edit, const struct policy *policy, struct policy_table *ptable,
                          bool optional);
/* The place of the override of a key or prefix, or where it would be. */
size_t weir_edit_override_at(const struct policy *policy, bool prefix, struct slice key, bool *found);

/* ---- shared ---- */

/* Writes a step down. `key` NULL: the limits of all keys. `text` NULL: none of its own any more. */
bool weir_edit_step(struct edit *edit, struct policy_table *ptable, const struct slice *key, const char *text,
                    bool optional);
/* Puts a copy of the text in the place of the old one. */
bool weir_edit_text(struct edit *edit, char **at, const char *text, size_t len);
struct policy_table *weir_edit_new_table(struct edit *edit, const char *text, int64_t keys,
                                         enum weir_when_full on_full);

#endif

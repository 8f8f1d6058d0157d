/* SPDX-License-Identifier: MIT */
/*
 * What can be asked of the server, and what each verb needs: one table for all protocols. A command, route or
 * method names its verb, and weir_engine_admit checks what the row says.
 */
#ifndef WEIR_SERVICE_ENGINE_VERBS_H
#define WEIR_SERVICE_ENGINE_VERBS_H

#include <stdbool.h>

enum engine_verb {
    ENGINE_CONNECT, /* what concerns the caller's connection alone */
    ENGINE_TAKE,
    ENGINE_ACQUIRE,
    ENGINE_PEEK,
    ENGINE_GIVE,
    ENGINE_CHARGE,
    ENGINE_RESET,
    ENGINE_RESERVE,
    ENGINE_COMMIT,
    ENGINE_CANCEL,
    ENGINE_LEASE,
    ENGINE_RETURN,
    ENGINE_LOOK,            /* what the server says about itself */
    ENGINE_LOOK_POLICY,     /* a policy: its keys, its limits, its overrides */
    ENGINE_LOOK_KEY,        /* a key whose limits come with the call */
    ENGINE_TAKE_KEY,        /* the same: takes */
    ENGINE_RESET_KEY,       /* the same: forgets what it has spent */
    ENGINE_CHANGE_POLICY,   /* limits, existence, keys of a policy */
    ENGINE_CHANGE_MODE,     /* its mode: also while the disk fails, since it is the kill switch */
    ENGINE_CHANGE_OVERRIDE, /* limits of a key */
    ENGINE_DUMP_POLICY,
    ENGINE_ADMIN,         /* for admins, and touches no key or policy */
    ENGINE_ADMIN_SERVER,  /* concerns all clients, policies and keys, and nothing that is recorded */
    ENGINE_CHANGE_SERVER, /* the same, and what it changes is recorded */
    ENGINE_VERBS
};

/* What a user with `keys` or `policies` may reach by a verb that names no key, or no policy. */
enum verb_scope {
    SCOPE_NAMED,  /* only what the request names, which is checked */
    SCOPE_KEYS,   /* any key of a policy: not for users with `keys` */
    SCOPE_SERVER, /* anything: not for users with `keys` or `policies` */
};

struct verb {
    const char *name;
    unsigned may; /* classes that a user needs, enum user_right; 0: everybody */
    enum verb_scope scope;
    bool finds_policy;  /* the policies that it names must exist */
    bool decides;       /* about keys that are counted here: not about those that were moved */
    bool changes;       /* something that another request can notice */
    bool durable;       /* what it changes is recorded before the answer is sent */
    bool without_store; /* it also runs while nothing can be recorded, and then sees to that itself */
};

extern const struct verb weir_verbs[ENGINE_VERBS];

#endif

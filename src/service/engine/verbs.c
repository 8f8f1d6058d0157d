/* SPDX-License-Identifier: MIT */
#include "service/engine/verbs.h"

#include "config/config.h"

#define FINDS    .finds_policy = true
#define DECIDES  .finds_policy = true, .decides = true
#define RECORDED .changes = true, .durable = true

const struct verb weir_verbs[ENGINE_VERBS] = {
    [ENGINE_CONNECT] = {"connect", 0, SCOPE_NAMED, .finds_policy = false},
    [ENGINE_TAKE] = {"take", MAY_TAKE, SCOPE_NAMED, DECIDES, RECORDED, .without_store = true},
    [ENGINE_ACQUIRE] = {"acquire", MAY_TAKE, SCOPE_NAMED, DECIDES, RECORDED, .without_store = true},
    [ENGINE_PEEK] = {"peek", MAY_LOOK, SCOPE_NAMED, DECIDES},
    [ENGINE_GIVE] = {"give", MAY_ADJUST, SCOPE_NAMED, DECIDES, RECORDED},
    [ENGINE_CHARGE] = {"charge", MAY_ADJUST, SCOPE_NAMED, DECIDES, RECORDED},
    [ENGINE_RESET] = {"reset", MAY_ADJUST, SCOPE_NAMED, DECIDES, RECORDED},
    [ENGINE_RESERVE] = {"reserve", MAY_TAKE, SCOPE_NAMED, DECIDES, RECORDED, .without_store = true},
    [ENGINE_COMMIT] = {"commit", MAY_TAKE, SCOPE_NAMED, RECORDED, .without_store = true},
    [ENGINE_CANCEL] = {"cancel", MAY_TAKE, SCOPE_NAMED, RECORDED, .without_store = true},
    [ENGINE_LEASE] = {"lease", MAY_TAKE, SCOPE_NAMED, DECIDES, RECORDED},
    [ENGINE_RETURN] = {"return", MAY_ADJUST, SCOPE_NAMED, DECIDES, RECORDED}, /* as GIVE: of unknown origin */
    [ENGINE_LOOK] = {"look", MAY_LOOK, SCOPE_NAMED, .finds_policy = false},
    [ENGINE_LOOK_POLICY] = {"look-policy", MAY_LOOK, SCOPE_NAMED, FINDS},
    [ENGINE_LOOK_KEY] = {"look-key", MAY_LOOK, SCOPE_NAMED, .finds_policy = false},
    [ENGINE_TAKE_KEY] = {"take-key", MAY_TAKE, SCOPE_NAMED, RECORDED},
    [ENGINE_RESET_KEY] = {"reset-key", MAY_ADJUST, SCOPE_NAMED, RECORDED},
    [ENGINE_CHANGE_POLICY] = {"change-policy", MAY_ADMIN, SCOPE_KEYS, RECORDED},
    [ENGINE_CHANGE_MODE] = {"change-mode", MAY_ADMIN, SCOPE_KEYS, RECORDED, .without_store = true},
    [ENGINE_CHANGE_OVERRIDE] = {"change-override", MAY_ADMIN, SCOPE_NAMED, RECORDED},
    [ENGINE_DUMP_POLICY] = {"dump-policy", MAY_ADMIN, SCOPE_KEYS, FINDS},
    [ENGINE_ADMIN] = {"admin", MAY_ADMIN, SCOPE_NAMED, .finds_policy = false},
    [ENGINE_ADMIN_SERVER] = {"admin-server", MAY_ADMIN, SCOPE_SERVER, .changes = true},
    [ENGINE_CHANGE_SERVER] = {"change-server", MAY_ADMIN, SCOPE_SERVER, RECORDED},
};

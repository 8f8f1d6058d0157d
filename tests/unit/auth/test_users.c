/* SPDX-License-Identifier: MIT */
/*
 * Who may log in, and who may do what with which keys and policies.
 */
#include "auth/fair_share.h"
#include "auth/users.h"
#include "check.h"

static uint64_t generation; /* of the last login */

static struct slice word(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static void tell(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static struct users *users_of(const char *text)
{
    struct config *config = weir_config_parse("users.yaml", text, strlen(text), tell, NULL);
    struct users *users = CHECK(config != NULL) ? weir_users_new(config) : NULL;
    weir_config_free(config);
    CHECK(users != NULL);
    return users;
}

TEST(without_users_everybody_may_do_everything)
{
    struct users *users = users_of("");
    if (!users)
        return;
    CHECK_EQ(users->count, 1);
    CHECK_STR(users->list[0].name, "default");
    CHECK(!users->list[0].has_password);
    CHECK(weir_user_may(&users->list[0], MAY_ALL));
    CHECK(weir_user_may_key(&users->list[0], word("")));
    CHECK(weir_user_may_policy(&users->list[0], word("api")));
    CHECK(weir_users_login(users, word("default"), word("anything"), &generation) == &users->list[0]);
    CHECK(weir_users_login(users, word("root"), word(""), &generation) == NULL);
    weir_users_free(users);
    weir_users_free(NULL);
}

/* Also those whose names have the same hash, of which there are some among so many. */
TEST(no_two_users_have_one_share)
{
    enum { USERS = 1000 };
    static char text[USERS * 64];
    size_t len = (size_t)snprintf(text, sizeof text, "users:\n");
    for (int i = 0; i < USERS; i++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "  - {name: u%d, password: x, may: [take]}\n", i);
    struct users *users = users_of(text), *again = users_of(text);
    int same_hash = 0, same_share = 0;
    for (size_t i = 0; users && again && i < users->count; i++) {
        const struct user *user = &users->list[i];
        CHECK(user->share > 0 && user->share < SHARE_OWNERS && user->share == again->list[i].share);
        for (size_t k = 0; k < i; k++) {
            same_hash += weir_share_owner(user->name) == weir_share_owner(users->list[k].name);
            same_share += user->share == users->list[k].share;
        }
    }
    CHECK(same_hash > 0);
    CHECK_EQ(same_share, 0);
    weir_users_free(users);
    weir_users_free(again);
}

TEST(with_users_nobody_is_let_in_as_default)
{
    struct users *users = users_of("users: [{name: app, password: x, may: [take]}]");
    if (!users)
        return;
    CHECK_EQ(users->count, 2);
    CHECK_STR(users->list[0].name, "default");
    CHECK(users->list[0].has_password);
    CHECK(weir_users_login(users, word("default"), word(""), &generation) == NULL);
    CHECK(weir_users_login(users, word("default"), word("x"), &generation) == NULL);
    CHECK(weir_users_login(users, word("app"), word("x"), &generation) == &users->list[1]);
    weir_users_free(users);
}

TEST(default_is_the_first_wherever_it_stands)
{
    struct users *users = users_of("users:\n"
                                   "  - {name: a, password: x, may: all}\n"
                                   "  - {name: default, may: look}\n"
                                   "  - {name: b, password: y, may: all}\n");
    if (!users)
        return;
    CHECK_EQ(users->count, 3);
    CHECK_STR(users->list[0].name, "default");
    CHECK_STR(users->list[1].name, "a");
    CHECK_STR(users->list[2].name, "b");
    CHECK(!users->list[0].has_password);
    CHECK_EQ(users->list[0].may, MAY_LOOK);
    CHECK(weir_users_find(users, word("b")) == &users->list[2]);
    CHECK(weir_users_find(users, word("")) == NULL);
    CHECK(weir_users_find(users, word("bb")) == NULL);
    CHECK(weir_users_find(users, (struct slice){"b\0", 2}) == NULL);
    weir_users_free(users);
}

TEST(a_login_needs_name_and_password_to_the_byte)
{
    struct users *users = users_of("users:\n"
                                   "  - {name: default, password: open sesame, may: all}\n"
                                   "  - {name: app, password: x, may: [take]}\n");
    if (!users)
        return;
    CHECK(weir_users_login(users, word("default"), word("open sesame"), &generation) == &users->list[0]);
    CHECK(weir_users_login(users, word("app"), word("x"), &generation) == &users->list[1]);
    static const char *const wrong[][2] = {
        {"app", ""}, {"app", "X"},  {"app", "xx"},          {"App", "x"},     {"", "x"},
        {"ap", "x"}, {"app ", "x"}, {"app", "open sesame"}, {"default", "x"}, {"default", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(weir_users_login(users, word(wrong[i][0]), word(wrong[i][1]), &generation) == NULL);
    CHECK(weir_users_login(users, word("app"), (struct slice){"x\0", 2}, &generation) == NULL);
    weir_users_free(users);
}

TEST(rights_are_classes_prefixes_and_policies)
{
    struct users *users =
        users_of("users:\n"
                 "  - {name: app, password: x, may: [look, take], keys: [\"user:*\", \"org:7:*\"],"
                 " policies: [api, login]}\n");
    if (!users)
        return;
    const struct user *app = &users->list[1];
    CHECK(weir_user_may(app, MAY_LOOK) && weir_user_may(app, MAY_TAKE) && weir_user_may(app, 0));
    CHECK(weir_user_may(app, MAY_LOOK | MAY_TAKE));
    CHECK(!weir_user_may(app, MAY_ADJUST) && !weir_user_may(app, MAY_ADMIN) && !weir_user_may(app, MAY_ALL));
    CHECK(!weir_user_may(app, MAY_LOOK | MAY_ADMIN));
    static const struct {
        const char *key;
        bool may;
    } keys[] = {{"user:42", true}, {"user:", true},  {"user", false},   {"", false},
                {"org:7:x", true}, {"org:8", false}, {"User:1", false}, {"xuser:1", false},
                {"org:7x", false}, {"uses:1", false}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        CHECK_EQ(weir_user_may_key(app, word(keys[i].key)), keys[i].may);
    CHECK(weir_user_may_policy(app, word("api")) && weir_user_may_policy(app, word("login")));
    CHECK(!weir_user_may_policy(app, word("ap")) && !weir_user_may_policy(app, word("apis")));
    CHECK(!weir_user_may_policy(app, word("")));
    weir_users_free(users);
}

TEST(a_copy_stands_alone)
{
    struct users *users =
        users_of("users:\n"
                 "  - {name: app, password: x, may: take, keys: [\"user:*\"], policies: [api]}\n");
    struct users *copy = users ? weir_users_copy(users) : NULL;
    weir_users_free(users);
    if (!CHECK(copy != NULL))
        return;
    CHECK_EQ(copy->count, 2);
    const struct user *app = weir_users_login(copy, word("app"), word("x"), &generation);
    CHECK(app == &copy->list[1]);
    CHECK(app && weir_user_may_key(app, word("user:1")) && !weir_user_may_key(app, word("org:1")));
    CHECK(app && weir_user_may_policy(app, word("api")) && !weir_user_may_policy(app, word("b")));
    weir_users_free(copy);
}

/* ---- generations ---- */

static uint64_t last;

/* The users of `text`, numbered after those of before, which are freed. */
static struct users *change_to(struct users *before, const char *text)
{
    struct users *users = users_of(text), none = {0};
    if (users)
        weir_users_number(users, before ? before : &none, &last);
    weir_users_free(before);
    return users;
}

static const struct user *user_of(const struct users *users, const char *name)
{
    return weir_users_find(users, word(name));
}

TEST(a_login_counts_as_long_as_its_password_and_its_rights_stay)
{
    static const struct {
        const char *user; /* app, after the change */
        bool counts;
    } changes[] = {
        {"{name: app, password: x, may: [look, take], keys: [\"a*\", \"b*\"], policies: [p]}", true},
        {"{name: app, password: y, may: [look, take], keys: [\"a*\", \"b*\"], policies: [p]}", false},
        {"{name: app, password: x, may: [take], keys: [\"a*\", \"b*\"], policies: [p]}", false},
        {"{name: app, password: x, may: all, keys: [\"a*\", \"b*\"], policies: [p]}", false},
        {"{name: app, password: x, may: [look, take], keys: [\"a*\"], policies: [p]}", false},
        {"{name: app, password: x, may: [look, take], keys: [\"a*\", \"c*\"], policies: [p]}", false},
        {"{name: app, password: x, may: [look, take], policies: [p]}", false},
        {"{name: app, password: x, may: [look, take], keys: [\"a*\", \"b*\"], policies: [q]}", false},
        {"{name: app, password: x, may: [look, take], keys: [\"a*\", \"b*\"]}", false},
        {"{name: other, password: x, may: [look, take], keys: [\"a*\", \"b*\"], policies: [p]}", false},
        {"{name: app, password: [y, x], may: [look, take], keys: [\"a*\", \"b*\"], policies: [p]}", true},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char text[256];
        struct users *users =
            change_to(NULL, "users: [{name: z, password: z, may: all}, {name: app, password: x, may: [look, "
                            "take], keys: [\"a*\", \"b*\"], policies: [p]}]");
        CHECK(weir_users_login(users, word("app"), word("x"), &generation) && generation > 0);
        CHECK(weir_user_has(user_of(users, "app"), generation));
        (void)snprintf(text, sizeof text, "users: [%s]", changes[i].user);
        users = change_to(users, text);
        const struct user *app = user_of(users, "app");
        if (!CHECK_EQ(app && weir_user_has(app, generation), changes[i].counts))
            printf("# %s\n", changes[i].user);
        weir_users_free(users);
    }
}

TEST(a_login_by_certificate_counts_as_long_as_that_and_its_rights_stay)
{
    static const struct {
        const char *user;
        bool counts;
    } changes[] = {
        {"{name: app, certificate: CN=app, may: [take]}", true},
        {"{name: app, certificate: CN=app, password: new, may: [take]}", true},
        {"{name: app, certificate: CN=App, may: [take]}", false},
        {"{name: app, certificate: CN=app, may: [look, take]}", false},
        {"{name: app, password: new, may: [take]}", false},
        {"{name: other, certificate: CN=app, may: [take]}", false},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char text[256];
        struct users *users = change_to(
            NULL, "users: [{name: z, password: z, may: all}, {name: app, certificate: CN=app, may: [take]}]");
        const struct user *app = weir_users_certificate(users, "CN=app");
        CHECK(app == user_of(users, "app") && !weir_users_certificate(users, "CN=ap") &&
              !weir_users_certificate(users, ""));
        CHECK(!weir_users_login(users, word("app"), word(""), &generation) &&
              !weir_users_login(users, word("app"), word("CN=app"), &generation));
        generation = app ? app->certificate_generation : 0;
        CHECK(generation > 0 && weir_user_has(app, generation) &&
              !weir_user_has(user_of(users, "z"), generation));
        (void)snprintf(text, sizeof text, "users: [%s]", changes[i].user);
        users = change_to(users, text);
        app = user_of(users, "app");
        if (!CHECK_EQ(app && weir_user_has(app, generation), changes[i].counts))
            printf("# %s\n", changes[i].user);
        weir_users_free(users);
    }
}

TEST(a_user_made_anew_is_another)
{
    static const char with[] = "users: [{name: a, password: x, may: all}, {name: b, password: y, may: all}]";
    struct users *users = change_to(NULL, with);
    CHECK(weir_users_login(users, word("b"), word("y"), &generation) != NULL);
    CHECK(!weir_user_has(user_of(users, "a"), generation)); /* nobody else has it */
    users = change_to(users, "users: [{name: a, password: x, may: all}]");
    users = change_to(users, with);
    CHECK(!weir_user_has(user_of(users, "b"), generation));
    weir_users_free(users);
}

TEST(default_without_a_password_is_another_once_it_has_one)
{
    struct users *users = change_to(NULL, "users: [{name: default, may: all}]");
    CHECK(weir_users_login(users, word("default"), word("whatever"), &generation) != NULL);
    users = change_to(users, "users: [{name: default, may: all}]");
    CHECK(weir_user_has(&users->list[0], generation));
    users = change_to(users, "users: [{name: default, password: x, may: all}]");
    CHECK(!weir_user_has(&users->list[0], generation));
    CHECK(weir_users_login(users, word("default"), word("x"), &generation) != NULL);
    users = change_to(users, "users: [{name: default, may: all}]");
    CHECK(!weir_user_has(&users->list[0], generation));
    weir_users_free(users);
}

/* As --no-password makes it. */
TEST(a_password_that_is_not_needed_is_no_other_login)
{
    struct users *users = change_to(NULL, "users: [{name: default, password: [one, two], may: all}]");
    users->list[0].has_password = false;
    CHECK(weir_users_login(users, word("default"), word("two"), &generation) != NULL);
    CHECK(weir_user_has(&users->list[0], generation));
    weir_users_free(users);
}

/* [one] -> [one, two] -> [two]: nobody is logged out before its password goes. */
TEST(a_rotation_ends_the_old_password_alone)
{
    uint64_t old;
    struct users *users = change_to(NULL, "users: [{name: app, password: one, may: all}]");
    CHECK(weir_users_login(users, word("app"), word("one"), &old) != NULL);
    users = change_to(users, "users: [{name: app, password: [one, two], may: all}]");
    CHECK(weir_users_login(users, word("app"), word("one"), &generation) && generation == old);
    CHECK(weir_users_login(users, word("app"), word("two"), &generation) && generation != old);
    CHECK(weir_user_has(user_of(users, "app"), old) && weir_user_has(user_of(users, "app"), generation));
    CHECK(weir_users_login(users, word("app"), word(""), &generation) == NULL);
    CHECK(weir_users_login(users, word("app"), word("two"), &generation) != NULL);
    users = change_to(users, "users: [{name: app, password: two, may: all}]");
    CHECK(!weir_user_has(user_of(users, "app"), old) && weir_user_has(user_of(users, "app"), generation));
    CHECK(weir_users_login(users, word("app"), word("one"), &old) == NULL);
    weir_users_free(users);
}

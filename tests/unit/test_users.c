/* SPDX-License-Identifier: MIT */
/*
 * Who may log in, and who may do what with which keys and policies.
 */
#include "check.h"
#include "service/users.h"

static struct slice word(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static void tell(void *arg, const char *file, struct place place, const char *message)
{
    (void)arg;
    printf("# %s:%d:%d: %s\n", file, place.line, place.column, message);
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
    CHECK(weir_users_login(users, word("default"), word("anything")) == &users->list[0]);
    CHECK(weir_users_login(users, word("root"), word("")) == NULL);
    weir_users_free(users);
    weir_users_free(NULL);
}

TEST(with_users_nobody_is_let_in_as_default)
{
    struct users *users = users_of("users: [{name: app, password: x, may: [take]}]");
    if (!users)
        return;
    CHECK_EQ(users->count, 2);
    CHECK_STR(users->list[0].name, "default");
    CHECK(users->list[0].has_password);
    CHECK(weir_users_login(users, word("default"), word("")) == NULL);
    CHECK(weir_users_login(users, word("default"), word("x")) == NULL);
    CHECK(weir_users_login(users, word("app"), word("x")) == &users->list[1]);
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
    CHECK(weir_users_login(users, word("default"), word("open sesame")) == &users->list[0]);
    CHECK(weir_users_login(users, word("app"), word("x")) == &users->list[1]);
    static const char *const wrong[][2] = {
        {"app", ""}, {"app", "X"},  {"app", "xx"},          {"App", "x"},     {"", "x"},
        {"ap", "x"}, {"app ", "x"}, {"app", "open sesame"}, {"default", "x"}, {"default", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(weir_users_login(users, word(wrong[i][0]), word(wrong[i][1])) == NULL);
    CHECK(weir_users_login(users, word("app"), (struct slice){"x\0", 2}) == NULL);
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
    const struct user *app = weir_users_login(copy, word("app"), word("x"));
    CHECK(app == &copy->list[1]);
    CHECK(app && weir_user_may_key(app, word("user:1")) && !weir_user_may_key(app, word("org:1")));
    CHECK(app && weir_user_may_policy(app, word("api")) && !weir_user_may_policy(app, word("b")));
    weir_users_free(copy);
}

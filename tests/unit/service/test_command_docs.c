/* SPDX-License-Identifier: MIT */
/*
 * COMMAND, checked against the table and against what redis-cli insists on.
 */
#include "service/commands/commands.h"
#include "unit/service/command_kit.h"

static bool is_text(const struct resp_value *value)
{
    return value && value->type == RESP_BULK && value->text.len > 0;
}

TEST(count_list_and_command_agree_with_the_table)
{
    if (!kit_begin(""))
        return;
    say("COMMAND COUNT");
    CHECK_EQ(got->integer, (int64_t)weir_command_count());
    say("COMMAND LIST");
    CHECK_EQ(got->count, weir_command_count());
    say("COMMAND");
    CHECK_EQ(got->count, weir_command_count());
    for (size_t i = 0; i < got->count; i++) {
        const struct resp_value *info = &got->elements[i];
        const struct command *command = weir_command_at(i);
        CHECK_EQ(info->count, 10);
        CHECK_STR(text_of(&info->elements[0]), command->name);
        CHECK_EQ(info->elements[1].integer, command->arity);
        CHECK_EQ(info->elements[2].type, RESP_SET);
        CHECK_EQ(info->elements[3].integer, command->key_at);
        CHECK_EQ(info->elements[5].integer, command->key_at > 0);
        CHECK_EQ(info->elements[8].count, command->key_at > 0);
    }
    kit_end();
}

TEST(the_table_itself_is_well_formed)
{
    for (size_t i = 0; i < weir_command_count(); i++) {
        const struct command *command = weir_command_at(i);
        for (const char *sign = command->name; *sign; sign++)
            CHECK(!(*sign >= 'A' && *sign <= 'Z'));
        CHECK(command->run || command->commands);
        CHECK(command->arity != 0);
        size_t number;
        CHECK(weir_command_find((struct slice){command->name, strlen(command->name)}, &number) == command);
        CHECK_EQ(number, i);
        for (const struct command *part = command->commands; part && part->name; part++) {
            CHECK(part->run && part->summary && part->group && !part->commands);
            CHECK(part->arity >= 2 || part->arity <= -2);
            CHECK(part->key_at != 1 && part->policy_at != 1);
        }
    }
}

static void check_args(const struct resp_value *args)
{
    CHECK(args && args->type == RESP_ARRAY && args->count > 0);
    for (size_t i = 0; args && i < args->count; i++) {
        const struct resp_value *arg = &args->elements[i], *parts = weir_resp_get(arg, "arguments");
        const struct resp_value *flags = weir_resp_get(arg, "flags"), *token = weir_resp_get(arg, "token");
        CHECK(arg->type == RESP_MAP && is_text(weir_resp_get(arg, "name")) &&
              is_text(weir_resp_get(arg, "type")));
        CHECK(!token || is_text(token));
        for (size_t flag = 0; flags && flag < flags->count; flag++)
            CHECK_EQ(flags->elements[flag].type, RESP_SIMPLE);
        if (parts)
            check_args(parts);
        else
            CHECK(is_text(weir_resp_get(arg, "display_text")));
    }
}

static void check_docs(const struct resp_value *docs)
{
    CHECK(docs && docs->type == RESP_MAP);
    if (!docs)
        return;
    CHECK(is_text(weir_resp_get(docs, "summary")));
    CHECK(is_text(weir_resp_get(docs, "since")));
    CHECK(is_text(weir_resp_get(docs, "group")));
    if (weir_resp_get(docs, "arguments"))
        check_args(weir_resp_get(docs, "arguments"));
    const struct resp_value *parts = weir_resp_get(docs, "subcommands");
    for (size_t i = 1; parts && i < parts->count; i += 2)
        check_docs(&parts->elements[i]);
}

TEST(docs_have_the_types_that_redis_cli_insists_on)
{
    if (!kit_begin(""))
        return;
    say("COMMAND DOCS");
    CHECK(got && got->type == RESP_MAP);
    for (size_t i = 0; i < weir_command_count(); i++)
        check_docs(weir_resp_get(got, weir_command_at(i)->name));
    kit_end();
}

TEST(docs_and_info_of_some_commands_only)
{
    if (!kit_begin(""))
        return;
    say("COMMAND DOCS ping nosuch \"client|setname\"");
    CHECK(field("ping") != NULL);
    check_docs(field("client|setname"));
    CHECK(field("nosuch") == NULL);
    say("COMMAND INFO ping nosuch CLIENT|SETNAME");
    CHECK_EQ(got->count, 3);
    CHECK_EQ(got->elements[0].count, 10);
    CHECK_EQ(got->elements[1].type, RESP_NULL);
    CHECK_STR(text_of(&got->elements[2].elements[0]), "client|setname");
    CHECK_STR(say("COMMAND LIST FILTERBY PATTERN pin?"), "*1\r\n$4\r\nping\r\n");
    CHECK(begins(say("COMMAND LIST FILTERBY MODULE x"), "-ERR "));
    kit_end();
}

TEST(getkeys_finds_all_keys_of_a_request)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("COMMAND GETKEYS CL.THROTTLE k 15 30 60"), "*1\r\n$1\r\nk\r\n");
    CHECK_STR(say("COMMAND GETKEYS WEIR.TAKE api k"), "*1\r\n$1\r\nk\r\n");
    CHECK_STR(say("COMMAND GETKEYS WEIR.TAKE api k 3 AND org o AND x and ID y"),
              "*3\r\n$1\r\nk\r\n$1\r\no\r\n$3\r\nand\r\n");
    CHECK_STR(say("COMMAND GETKEYS WEIR.OVERRIDE SET api k 5/s"), "*1\r\n$1\r\nk\r\n");
    CHECK_STR(say("COMMAND GETKEYS PING"), "-ERR The command has no key arguments\r\n");
    CHECK_STR(say("COMMAND GETKEYS NOSUCH a"), "-ERR Invalid command specified\r\n");
    CHECK_STR(say("COMMAND GETKEYS WEIR.TAKE api"),
              "-ERR Invalid number of arguments specified for command\r\n");
    kit_end();
}

/* ---- examples ---- */

/* As every example finds it: the policy is there, and its key has an override. */
static void prepare(void)
{
    kit_connect("127.0.0.1:50001");
    CHECK_STR(say("WEIR.POLICY SET api 100/s"), "+OK\r\n");
    CHECK_STR(say("WEIR.OVERRIDE SET api user:42 100/s"), "+OK\r\n");
}

/* Every request that the table gives as an example is one that works. */
TEST(examples_of_the_table_are_answered_without_an_error)
{
    size_t count = 0;
    if (!kit_begin("policies:\n  - {name: org, limits: 100/s}\n  - {name: llm-tokens, limits: 90k/m}\n"
                   "  - {name: egress, limits: 5M/m algo=quota, fleet: {coordinator: \"local:\"}}\n"))
        return;
    for (size_t i = 0; i < weir_command_count(); i++) {
        const struct command *command = weir_command_at(i);
        const struct command alone[] = {*command, {0}};
        for (const struct command *part = command->commands ? command->commands : alone; part->name; part++) {
            if (!part->example || strstr(part->example, "WEIR.RELOAD"))
                continue;
            prepare();
            say("%s", part->example);
            if (!CHECK_STR(error_text(), ""))
                printf("# %s\n", part->example);
            count++;
        }
    }
    printf("# %zu examples\n", count);
    CHECK(count >= 40);
    kit_end();
}

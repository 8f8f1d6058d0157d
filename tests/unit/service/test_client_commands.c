/* SPDX-License-Identifier: MIT */
/*
 * CLIENT. The program is linked with --wrap=malloc and --wrap=realloc, so that memory can be missing.
 */
#include "service/commands/glob.h"
#include "unit/service/command_kit.h"

#include "service/commands/cmd_client.h"

TEST(a_client_has_a_name_if_it_likes)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("CLIENT GETNAME"), "_\r\n");
    CHECK_STR(say("CLIENT SETNAME worker-1"), "+OK\r\n");
    CHECK_STR(say("client getname"), "$8\r\nworker-1\r\n");
    CHECK_STR(say("CLIENT SETNAME \"two words\""),
              "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
    CHECK_STR(say("CLIENT SETNAME %0200d", 0), "-ERR that is too long; at most 128 bytes\r\n");
    CHECK_STR(say("CLIENT GETNAME"), "$8\r\nworker-1\r\n");
    CHECK_STR(say("CLIENT SETNAME \"\""), "+OK\r\n");
    CHECK_STR(say("CLIENT GETNAME"), "_\r\n");
    CHECK_STR(say("CLIENT SETNAME"), "-ERR wrong number of arguments for 'client|setname' command\r\n");
    kit_end();
}

TEST(libraries_tell_who_they_are)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("CLIENT SETINFO LIB-NAME mine"), "+OK\r\n");
    CHECK_STR(say("CLIENT SETINFO lib-ver 1.2"), "+OK\r\n");
    CHECK_STR(say("CLIENT SETINFO lib-age 7"), "-ERR Unrecognized option 'lib-age'\r\n");
    CHECK_STR(say("CLIENT SETINFO lib-ver \"1 2\""),
              "-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n");
    say("CLIENT INFO");
    CHECK(strstr(text_of(got), " lib-name=mine lib-ver=1.2\n") != NULL);
    kit_end();
}

TEST(info_is_one_line_that_tells_who_this_is)
{
    if (!kit_begin(""))
        return;
    say("CLIENT SETNAME me");
    say("WEIR.CLOCK SET 7500");
    say("CLIENT INFO");
    CHECK(got && got->type == RESP_VERBATIM);
    const char *text = text_of(got);
    CHECK(strstr(text, "addr=127.0.0.1:50000 laddr=127.0.0.1:9049 ") != NULL);
    CHECK(strstr(text, " name=me age=7 idle=0 flags=N db=0 ") != NULL);
    CHECK(strstr(text, " user=default ") != NULL);
    CHECK(strstr(text, " resp=3 ") != NULL);
    CHECK_EQ(strcspn(text, "\n"), strlen(text) - 1);
    char id[40];
    snprintf(id, sizeof id, ":%" PRIu64 "\r\n", kit.session.id);
    CHECK_STR(say("CLIENT ID"), id);
    kit_end();
}

/* The longest of everything still ends with a line break. */
TEST(a_line_is_never_cut)
{
    struct session session = {
        .id = UINT64_MAX, .version = 3, .commands = INT64_MAX, .last_command = "client"};
    char name[CLIENT_TEXT_MAX + 1] = "";
    memset(name, 'x', CLIENT_TEXT_MAX);
    memset(session.user, 'u', sizeof session.user - 1);
    memset(session.address, 'a', sizeof session.address - 1);
    memset(session.local, 'l', sizeof session.local - 1);
    session.name = session.lib_name = session.lib_version = name;
    struct buffer out = {0};
    weir_client_line(&session, INT64_MAX, &out);
    CHECK(buffer_len(&out) > 0 && out.bytes[out.end - 1] == '\n');
    weir_buffer_free(&out);
}

TEST(replies_can_be_skipped_and_switched_off)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("CLIENT REPLY ON"), "+OK\r\n");
    CHECK_STR(say("CLIENT REPLY SKIP"), "");
    CHECK_STR(say("PING"), "");
    CHECK_STR(say("PING"), "+PONG\r\n");
    CHECK_STR(say("CLIENT REPLY OFF"), "");
    CHECK_STR(say("PING"), "");
    CHECK_STR(say("CLIENT REPLY SKIP"), "");
    CHECK_STR(say("PING"), "");
    CHECK_STR(say("PING"), "");
    CHECK_STR(say("CLIENT REPLY ON"), "+OK\r\n");
    CHECK_STR(say("PING"), "+PONG\r\n");
    CHECK_STR(say("CLIENT REPLY MAYBE"), "-ERR syntax error\r\n");
    kit_end();
}

static uint64_t killed;

static char killed_user[64];

static int64_t kill_clients(void *arg, struct session *asking, const struct client_kill *kill)
{
    (void)arg;
    CHECK(asking == &kit.session);
    killed = kill->id;
    (void)snprintf(killed_user, sizeof killed_user, "%s", kill->user ? kill->user : "");
    return kill->user ? 3 : kill->id == 7;
}

static void list_clients(void *arg, struct session *asking, struct buffer *out)
{
    (void)arg;
    weir_client_line(asking, weir_now(), out);
    buffer_put(out, "id=7 ...\n", 9);
}

TEST(list_and_kill_ask_the_server)
{
    if (!kit_begin(""))
        return;
    say("CLIENT LIST");
    CHECK(begins(text_of(got), "id=")); /* without a server, this one */
    CHECK_STR(say("CLIENT KILL ID 7"), ":0\r\n");
    kit.service->clients = list_clients;
    kit.service->kill = kill_clients;
    say("CLIENT LIST");
    CHECK(strstr(text_of(got), "\nid=7 ...\n") != NULL);
    CHECK_STR(say("CLIENT KILL ID 7"), ":1\r\n");
    CHECK_STR(say("CLIENT KILL ID 8"), ":0\r\n");
    CHECK_EQ(killed, 8);
    CHECK_STR(say("CLIENT KILL USER default"), ":3\r\n");
    CHECK_STR(killed_user, "default");
    CHECK_STR(say("CLIENT KILL USER nobody"), "-ERR no user 'nobody'; CLIENT LIST shows who is there\r\n");
    CHECK_STR(say("CLIENT KILL ID 0"), "-ERR client-id should be greater than 0\r\n");
    CHECK_STR(say("CLIENT KILL 127.0.0.1:1"),
              "-ERR write CLIENT KILL ID number or CLIENT KILL USER name; CLIENT LIST shows both\r\n");
    kit_end();
}

/* OK would make clients wait for messages that never come. */
TEST(tracking_and_notifications_are_unknown)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(say("CLIENT TRACKING ON"), "-ERR unknown subcommand 'TRACKING'. Try CLIENT HELP.\r\n");
    CHECK_STR(say("CLIENT MAINT_NOTIFICATIONS ON"),
              "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n");
    CHECK_STR(say("CLIENT NO-EVICT on"), "+OK\r\n");
    CHECK_STR(say("CLIENT NO-TOUCH OFF"), "+OK\r\n");
    CHECK_STR(say("CLIENT NO-TOUCH maybe"), "-ERR syntax error\r\n");
    CHECK_STR(say("CLIENT"), "-ERR wrong number of arguments for 'client' command\r\n");
    say("CLIENT HELP");
    CHECK(got && got->type == RESP_ARRAY && got->count > 10);
    kit_end();
}

static bool glob(const char *pattern, const char *text)
{
    return weir_glob((struct slice){pattern, strlen(pattern)}, (struct slice){text, strlen(text)});
}

TEST(patterns_fit_as_in_redis)
{
    CHECK(glob("*", "") && glob("*", "save") && glob("", "") && !glob("", "a"));
    CHECK(glob("max*", "maxmemory") && glob("*memory", "maxmemory") && !glob("max*s", "maxmemory"));
    CHECK(glob("MAX*", "maxmemory") && glob("s?ve", "save") && !glob("s?ve", "sve"));
    CHECK(glob("[a-c]x", "bx") && !glob("[a-c]x", "dx") && glob("[^a-c]x", "dx") && !glob("[^a-c]x", "ax"));
    CHECK(glob("a\\*b", "a*b") && !glob("a\\*b", "axb") && glob("[\\]]", "]"));
    CHECK(glob("*a*b*c*", "xxaxxbxxcxx") && !glob("*a*b*c*", "xxaxxcxxbxx"));
    CHECK(!glob("[", "") && glob("[a", "a") && !glob("[", "a") && glob("\\", "\\"));
}

/* Would take for ever if every star were tried with every rest. */
TEST(a_hostile_pattern_costs_little)
{
    char pattern[4001], text[4001];
    for (size_t i = 0; i < 4000; i++) {
        pattern[i] = i % 2 ? 'a' : '*';
        text[i] = 'a';
    }
    pattern[3999] = 'b';
    pattern[4000] = text[4000] = '\0';
    CHECK(!glob(pattern, text));
}

/* ---- out of memory ---- */

static bool out_of_memory;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return out_of_memory ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return out_of_memory ? NULL : __real_realloc(old, size);
}

/* The answer itself has room: what waits to be sent is kept. */
static const char *say_without_memory(const struct slice *words, size_t count)
{
    (void)weir_buffer_room(&kit.out, 4096);
    out_of_memory = true;
    const char *reply = kit_ask_words(&kit, words, count);
    out_of_memory = false;
    return reply;
}

TEST(without_memory_an_error_is_answered_and_nothing_changes)
{
    const struct slice name[] = {{"CLIENT", 6}, {"SETNAME", 7}, {"other", 5}};
    const struct slice info[] = {{"CLIENT", 6}, {"SETINFO", 7}, {"lib-ver", 7}, {"2", 1}};
    const struct slice list[] = {{"CLIENT", 6}, {"LIST", 4}};
    if (!kit_begin(""))
        return;
    say("CLIENT SETNAME me");
    CHECK_STR(say_without_memory(name, 3), "-ERR out of memory\r\n");
    CHECK_STR(kit.session.name, "me");
    CHECK_STR(say_without_memory(info, 4), "-ERR out of memory\r\n");
    CHECK(begins(say_without_memory(list, 2), "-ERR out of memory"));
    kit_end();
}

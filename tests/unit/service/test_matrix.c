/* SPDX-License-Identifier: MIT */
/*
 * Who may do what: every command and subcommand of the table, for every set of classes that a user can have,
 * with a key and a policy that are his and with ones that are not. What is to be expected is worked out here
 * from the words of the description, not by asking the code: NOPERM if a class is missing, or if the key or
 * the policy is another's; else anything but NOPERM.
 */
#include "service/commands/commands.h"
#include "unit/service/command_kit.h"

#define OWN_POLICY   "mine"
#define OTHER_POLICY "theirs"
#define OWN_KEY      "mine:1"
#define OTHER_KEY    "theirs:1"
#define LEAST_WORDS  7 /* enough for every command to find the words that it looks at */

static const char *const class_names[] = {"look", "take", "adjust", "admin"};

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* Sixteen users, one for each set of classes, who may touch keys and a policy of their own. */
static bool begin(void)
{
    static char yaml[8192];
    size_t len = (size_t)snprintf(yaml, sizeof yaml,
                                  "policies:\n"
                                  "  - {name: " OWN_POLICY ", limits: 1M/s}\n"
                                  "  - {name: " OTHER_POLICY ", limits: 1M/s}\n"
                                  "users:\n");
    for (unsigned may = 0; may < 16; may++) {
        len += (size_t)snprintf(yaml + len, sizeof yaml - len, "  - {name: user%u, password: \"p\", may: [",
                                may);
        for (unsigned i = 0, some = 0; i < 4; i++)
            if ((may ? may : 1u) & 1u << i)
                len += (size_t)snprintf(yaml + len, sizeof yaml - len, "%s%s", some++ ? ", " : "",
                                        class_names[i]);
        len += (size_t)snprintf(yaml + len, sizeof yaml - len,
                                "], keys: [\"mine:*\"], policies: [" OWN_POLICY "]}\n");
    }
    if (!kit_begin(yaml))
        return false;
    const struct user *user0 = weir_users_find(atomic_load(&kit.service->snapshot)->users, slice_of("user0"));
    struct user *user = (struct user *)(uintptr_t)user0;
    user->may = 0; /* no file makes such a user, so it is done by hand */
    return true;
}

static void log_in(unsigned may)
{
    kit_connect("127.0.0.1:50001");
    CHECK_STR(say("AUTH user%u p", may), "+OK\r\n");
}

struct question {
    struct slice words[64];
    size_t count;
};

static bool takes_many_keys(const struct command *command)
{
    const struct arg *first = command->docs;
    return first && first->type == ARG_KEY && first->flags & ARG_MULTIPLE;
}

/* The command with as many words as it needs, "1" where nothing else is known. */
static void ask_for(struct question *question, const struct command *parent, const struct command *command,
                    const char *policy, const char *key)
{
    size_t least = (size_t)(command->arity < 0 ? -command->arity : command->arity);
    question->count = command->arity > 0 ? least : least < LEAST_WORDS ? LEAST_WORDS : least;
    for (size_t i = 0; i < question->count; i++)
        question->words[i] = slice_of(takes_many_keys(command) ? key : "1");
    question->words[0] = slice_of(parent ? parent->name : command->name);
    if (parent)
        question->words[1] = slice_of(command->name);
    if (command->policy_at > 0)
        question->words[command->policy_at] = slice_of(policy);
    if (command->key_at > 0)
        question->words[command->key_at] = slice_of(key);
}

/* What an admin may do who has only `policies`, only `keys`, or both; with a policy and a key of its own.
 * This is the table of docs/protocol.md. Commands that are not here name all keys and policies that they
 * touch. */
static const struct {
    const char *name, *line;
    bool policies, keys, both;
} scopes[] = {
    {"weir.reload", "WEIR.RELOAD", false, false, false},
    {"weir.backup", "WEIR.BACKUP b", false, false, false},
    {"weir.image", "WEIR.IMAGE", false, false, false},
    {"weir.flush", "WEIR.FLUSH", false, false, false},
    {"client|list", "CLIENT LIST", false, false, false},
    {"client|kill", "CLIENT KILL ID 9", false, false, false},
    {"weir.clock|set", "WEIR.CLOCK SET 0", false, false, false},
    {"weir.clock|advance", "WEIR.CLOCK ADVANCE 0", false, false, false},
    {"weir.dump|clients", "WEIR.DUMP CLIENTS", false, false, false},
    {"weir.dump|cells", "WEIR.DUMP CELLS", false, false, false},
    {"weir.dump|buckets", "WEIR.DUMP BUCKETS", false, false, false},
    {"weir.load|clients", "WEIR.LOAD CLIENTS * id", false, false, false},
    {"weir.dump|policy", "WEIR.DUMP POLICY " OWN_POLICY, true, false, false},
    {"weir.dump|keys", "WEIR.DUMP KEYS " OWN_POLICY " \"\"", true, false, false},
    {"weir.dump|shared", "WEIR.DUMP SHARED " OWN_POLICY " \"\"", true, false, false},
    {"weir.load|begin", "WEIR.LOAD BEGIN " OWN_POLICY " id a b", true, false, false},
    {"weir.load|table", "WEIR.LOAD TABLE " OWN_POLICY " id a", true, false, false},
    {"weir.load|keys", "WEIR.LOAD KEYS " OWN_POLICY " id 1 a", true, false, false},
    {"weir.load|end", "WEIR.LOAD END " OWN_POLICY " id", true, false, false},
    {"weir.freeze", "WEIR.FREEZE " OWN_POLICY " \"\"", true, false, false},
    {"weir.thaw", "WEIR.THAW " OWN_POLICY, true, false, false},
    {"weir.policy|set", "WEIR.POLICY SET " OWN_POLICY " 1M/s", true, false, false},
    {"weir.policy|mode", "WEIR.POLICY MODE " OWN_POLICY " enforce", true, false, false},
    {"weir.policy|candidate", "WEIR.POLICY CANDIDATE " OWN_POLICY " 1M/s", true, false, false},
    {"weir.policy|del", "WEIR.POLICY DEL " OWN_POLICY " x", true, false, false},
    {"weir.override|set", "WEIR.OVERRIDE SET " OWN_POLICY " " OWN_KEY " 1/s", true, true, true},
    {"weir.override|del", "WEIR.OVERRIDE DEL " OWN_POLICY " " OWN_KEY, true, true, true},
    {"weir.dump|head", "WEIR.DUMP HEAD", true, true, true},
    {"client|info", "CLIENT INFO", true, true, true},
};
#define SCOPES (sizeof scopes / sizeof scopes[0])

static bool is_beyond(const struct command *parent, const struct command *command)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s%s", parent ? parent->name : "", parent ? "|" : "", command->name);
    for (size_t i = 0; i < SCOPES; i++)
        if (strcmp(scopes[i].name, name) == 0)
            return !scopes[i].both;
    return false;
}

static bool is_expected(const struct command *parent, const struct command *command, unsigned may,
                        bool own_policy, bool own_key)
{
    return (weir_verbs[command->verb].may & ~may) == 0 && (own_policy || command->policy_at == 0) &&
           (own_key || command->key_at == 0) && !is_beyond(parent, command);
}

static long allowed, refused;

static void check_one(const struct command *parent, const struct command *command, unsigned may,
                      bool own_policy, bool own_key)
{
    struct question question;
    ask_for(&question, parent, command, own_policy ? OWN_POLICY : OTHER_POLICY,
            own_key ? OWN_KEY : OTHER_KEY);
    bool expected = is_expected(parent, command, may, own_policy, own_key);
    look_at(kit_ask_words(&kit, question.words, question.count));
    bool refusal = begins(error_text(), "NOPERM ");
    if (!CHECK(refusal == !expected))
        printf("# %s %s as user %u with %s policy and %s key: %s\n", parent ? parent->name : "",
               command->name, may, own_policy ? "his" : "another's", own_key ? "his" : "another's",
               error_text());
    CHECK(!begins(error_text(), "NOAUTH "));
    *(refusal ? &refused : &allowed) += 1;
}

static void check_command(const struct command *parent, const struct command *command)
{
    for (unsigned may = 0; may < 16; may++)
        for (unsigned own = 0; own < 4; own++) {
            log_in(may);
            check_one(parent, command, may, own & 1, own & 2);
        }
}

TEST(every_class_of_user_may_do_what_the_table_says_and_no_more)
{
    long commands = 0;
    if (!begin())
        return;
    allowed = refused = 0;
    for (size_t i = 0; i < weir_command_count(); i++) {
        const struct command *command = weir_command_at(i);
        if (command->run) {
            check_command(NULL, command);
            commands++;
        }
        for (const struct command *part = command->commands; part && part->name; part++, commands++)
            check_command(command, part);
    }
    printf("# %ld commands, 16 users, 4 owners: %ld requests, %ld allowed, %ld refused\n", commands,
           allowed + refused, allowed, refused);
    CHECK_EQ(allowed + refused, commands * 64);
    CHECK(allowed > 1000 && refused > 1000);
    kit_end();
}

/* Limits of an admin hold for commands, too, that name no key or no policy. */
TEST(an_admin_with_keys_or_policies_stays_within_them)
{
    static const char *const names[] = {"full", "policies", "keys", "both"};
    if (!kit_begin("policies:\n"
                   "  - {name: " OWN_POLICY ", limits: 1M/s}\n"
                   "users:\n"
                   "  - {name: full, password: p, may: all}\n"
                   "  - {name: policies, password: p, may: all, policies: [" OWN_POLICY "]}\n"
                   "  - {name: keys, password: p, may: all, keys: [\"mine:*\"]}\n"
                   "  - {name: both, password: p, may: all, keys: [\"mine:*\"], policies: [" OWN_POLICY
                   "]}\n"))
        return;
    for (size_t i = 0; i < SCOPES; i++) {
        const bool may[] = {true, scopes[i].policies, scopes[i].keys, scopes[i].both};
        for (size_t user = 0; user < 4; user++) {
            kit_connect("127.0.0.1:50001");
            CHECK_STR(say("AUTH %s p", names[user]), "+OK\r\n");
            bool refused_now = begins(say("%s", scopes[i].line), "-NOPERM ");
            if (!CHECK_EQ(!refused_now, may[user]))
                printf("# %s as %s: %s\n", scopes[i].line, names[user], error_text());
        }
    }
    CHECK(begins(say("AUTH policies p"), "+OK"));
    CHECK(begins(say("WEIR.POLICY MODE * disabled"), "-NOPERM "));
    kit_end();
}

/* The classes as the documents promise them, written down once more by hand. */
TEST(commands_have_the_classes_that_the_documents_name)
{
    static const struct {
        const char *name;
        unsigned may;
    } named[] = {
        {"weir.take", MAY_TAKE},
        {"weir.acquire", MAY_TAKE},
        {"weir.peek", MAY_LOOK},
        {"weir.give", MAY_ADJUST},
        {"weir.charge", MAY_ADJUST},
        {"weir.reset", MAY_ADJUST},
        {"weir.reserve", MAY_TAKE},
        {"weir.commit", MAY_TAKE},
        {"weir.cancel", MAY_TAKE},
        {"weir.lease", MAY_TAKE},
        {"weir.return", MAY_ADJUST},
        {"weir.explain", MAY_LOOK},
        {"weir.top", MAY_LOOK},
        {"weir.keys", MAY_LOOK},
        {"weir.metrics", MAY_LOOK},
        {"weir.reload", MAY_ADMIN},
        {"cl.throttle", MAY_TAKE},
        {"throttle", MAY_TAKE},
        {"gcra", MAY_TAKE},
        {"rl.reduce", MAY_TAKE},
        {"rl.get", MAY_LOOK},
        {"rl.sessionize", MAY_TAKE},
        {"rl.del", MAY_ADJUST},
        {"del", MAY_ADJUST},
        {"info", MAY_LOOK},
        {"hello", 0},
        {"auth", 0},
        {"ping", 0},
        {"quit", 0},
        {"reset", 0},
        {"command", 0},
        {"weir.policy|list", MAY_LOOK},
        {"weir.policy|show", MAY_LOOK},
        {"weir.policy|set", MAY_ADMIN},
        {"weir.policy|del", MAY_ADMIN},
        {"weir.policy|mode", MAY_ADMIN},
        {"weir.policy|candidate", MAY_ADMIN},
        {"weir.override|set", MAY_ADMIN},
        {"weir.override|del", MAY_ADMIN},
        {"weir.override|list", MAY_LOOK},
        {"weir.clock|set", MAY_ADMIN},
        {"weir.clock|advance", MAY_ADMIN},
        {"weir.backup", MAY_ADMIN},
        {"weir.image", MAY_ADMIN},
        {"weir.flush", MAY_ADMIN},
        {"weir.freeze", MAY_ADMIN},
        {"weir.thaw", MAY_ADMIN},
        {"client|list", MAY_ADMIN},
        {"client|kill", MAY_ADMIN},
        {"client|setname", 0},
        {"config|get", MAY_LOOK},
        {"config|set", MAY_ADMIN},
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *bar = strchr(named[i].name, '|');
        size_t len = bar ? (size_t)(bar - named[i].name) : strlen(named[i].name);
        const struct command *command = weir_command_find((struct slice){named[i].name, len}, NULL);
        for (const struct command *part = command && bar ? command->commands : NULL; part && part->name;
             part++)
            if (strcmp(part->name, bar + 1) == 0)
                command = part;
        if (!CHECK(command && weir_verbs[command->verb].may == named[i].may))
            printf("# %s\n", named[i].name);
    }
    for (size_t i = 0; i < weir_command_count(); i++) { /* none of weir's own is left out */
        const char *name = weir_command_at(i)->name;
        bool found = weir_command_at(i)->commands || strncmp(name, "weir.", 5) != 0;
        for (size_t j = 0; j < sizeof named / sizeof *named; j++)
            found = found || strcmp(named[j].name, name) == 0;
        if (!CHECK(found))
            printf("# %s is not in the list\n", name);
    }
}

/* Every command that takes a policy or a key says where, so that nobody forgets to check it. */
TEST(docs_that_name_a_key_or_a_policy_have_its_place)
{
    for (size_t i = 0; i < weir_command_count(); i++) {
        const struct command *command = weir_command_at(i), alone[] = {*command, {0}};
        for (const struct command *part = command->commands ? command->commands : alone; part->name; part++)
            for (const struct arg *arg = part->docs; arg && arg->name; arg++) {
                if (!CHECK(arg->type != ARG_KEY || part->key_at > 0))
                    printf("# %s %s\n", command->name, part->name);
                if (!CHECK(strcmp(arg->name, "policy") != 0 || part->policy_at > 0))
                    printf("# %s %s\n", command->name, part->name);
            }
    }
}

/* Behind AND stand policies and keys, too. */
TEST(every_pair_is_checked_not_only_the_first)
{
    static const char *const lines[] = {
        "WEIR.TAKE " OWN_POLICY " " OWN_KEY " 1 AND " OTHER_POLICY " " OWN_KEY " 1",
        "WEIR.TAKE " OWN_POLICY " " OWN_KEY " 1 AND " OWN_POLICY " " OTHER_KEY " 1",
        "WEIR.TAKE " OWN_POLICY " " OWN_KEY " AND " OWN_POLICY " mine:2 AND " OTHER_POLICY " " OWN_KEY,
        "WEIR.RESERVE " OWN_POLICY " " OWN_KEY " 1 AND " OTHER_POLICY " " OWN_KEY " 1",
        "WEIR.RESERVE " OWN_POLICY " " OWN_KEY " 1 AND " OWN_POLICY " " OTHER_KEY " 1",
        "DEL " OWN_KEY " " OTHER_KEY,
        "EXISTS " OWN_KEY " " OTHER_KEY,
    };
    if (!begin())
        return;
    log_in(MAY_ALL);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!CHECK(begins(say("%s", lines[i]), "-NOPERM ")))
            printf("# %s\n", lines[i]);
    say("WEIR.TAKE " OWN_POLICY " " OWN_KEY " AND " OWN_POLICY " mine:2");
    CHECK_EQ(number_field("allowed"), 1);
    say("WEIR.PEEK " OWN_POLICY " " OWN_KEY);
    CHECK_EQ(number_field("remaining"), 999999); /* what was not permitted was not taken, either */
    kit_end();
}

/* Reservations of others can be settled by nobody who may not touch their keys. */
TEST(a_reservation_of_others_cannot_be_settled)
{
    char id[64];
    if (!kit_begin("policies:\n"
                   "  - {name: " OWN_POLICY ", limits: 1M/s}\n"
                   "  - {name: " OTHER_POLICY ", limits: 1M/s}\n"
                   "users:\n"
                   "  - {name: all, password: \"p\", may: all}\n"
                   "  - {name: some, password: \"p\", may: [look, take, adjust], keys: [\"mine:*\"], "
                   "policies: [" OWN_POLICY "]}\n"))
        return;
    say("AUTH all p");
    say("WEIR.RESERVE " OTHER_POLICY " " OTHER_KEY " 5");
    (void)snprintf(id, sizeof id, "%s", text_field("id"));
    CHECK(*id != '\0');
    kit_connect("127.0.0.1:50002");
    say("AUTH some p");
    CHECK(begins(say("WEIR.CANCEL %s", id), "-"));
    CHECK(begins(say("WEIR.COMMIT %s 1", id), "-"));
    kit_end();
}

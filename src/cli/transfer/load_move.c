/* SPDX-License-Identifier: MIT */
/*
 * A shard moves from A to B while both serve:
 *
 *   1. B makes the policy, or freezes these keys of it, and gets the hash key of A's tables
 *   2. A freezes the keys: from now on they are refused by both
 *   3. all of them are read from A and brought to B
 *   4. B decides on them; A goes on to send those there who ask
 *
 * Whatever fails, the keys are decided in one place at most. If the connection to B is lost while B is told
 * to begin, nobody knows whether it has: then A goes on to refuse.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/transfer/load.h"
#include "os/clock.h"

struct key_move {
    const struct load_options *options;
    struct cli_client *from, *to;
    struct dump_sender *sender;
    bool from_frozen, to_frozen;
    bool begins; /* B may decide on the keys by now */
    int64_t began_ns;
};

static const char *move_target_address(const struct key_move *move)
{
    return move->options->as ? move->options->as : client_shown(move->to);
}

/* Each process draws a name when it starts; "": it does not tell us. */
static void ask_run_id(struct cli_client *client, char *text, size_t size)
{
    static const struct slice words[] = {{"INFO", 4}, {"server", 6}};
    struct weir_error err;
    const struct resp_value *info = client_ask(client, words, 2, &err);
    struct slice id = info ? ask_info(info->text, "run_id") : (struct slice){"", 0};
    (void)snprintf(text, size, "%.*s", (int)(id.len < size ? id.len : 0), id.bytes);
}

/* Whatever their addresses look like: what a key has spent would count twice. */
static bool are_two_servers(struct key_move *move)
{
    char from[64], to[64];
    ask_run_id(move->from, from, sizeof from);
    ask_run_id(move->to, to, sizeof to);
    if (!from[0] || strcmp(from, to) != 0)
        return true;
    fprintf(stderr, "weir load: %s is the same server as %s: -s says where the keys are to go\n",
            client_shown(move->from), client_shown(move->to));
    return false;
}

/* 1. */
static bool prepare_move(struct key_move *move)
{
    const struct dump_part *part = &move->options->part;
    if (!dump_read_policy("load", move->from, part, true, dump_send, move->sender))
        return false;
    if (dump_sender_made(move->sender))
        return true;
    move->to_frozen = dump_freeze("load", move->to, part, client_shown(move->from));
    return move->to_frozen;
}

/* 2 and 3. The lines that say what the policy is were said before. */
static bool send_keys(void *arg, struct slice line)
{
    struct key_move *move = arg;
    bool known =
        line.len > 6 && (memcmp(line.bytes, "table ", 6) == 0 || memcmp(line.bytes, "key ", 4) == 0 ||
                         memcmp(line.bytes, "spent ", 6) == 0 || memcmp(line.bytes, "shared", 6) == 0);
    return !known || dump_send(move->sender, line);
}

static bool carry_keys(struct key_move *move)
{
    const struct dump_part *part = &move->options->part;
    move->began_ns = clock_now();
    move->from_frozen = dump_freeze("load", move->from, part, move_target_address(move));
    return move->from_frozen && dump_read_policy("load", move->from, part, false, send_keys, move) &&
           dump_sender_flush(move->sender);
}

/* 4. */
static bool thaw_target(struct key_move *move)
{
    move->begins = true;
    if (!dump_sender_finish(move->sender) ||
        (move->to_frozen && !dump_freeze("load", move->to, &move->options->part, NULL)))
        return false;
    move->to_frozen = false;
    return true;
}

static void undo_move(struct key_move *move)
{
    const char *policy = move->options->part.policy;
    bool made = dump_sender_made(move->sender);
    if (move->begins) {
        fprintf(stderr,
                "weir load: all keys are on %s, and it is not known whether it decides on them: WEIR.THAW %s "
                "there makes it do so. %s goes on to refuse them\n",
                client_shown(move->to), policy, client_shown(move->from));
        return;
    }
    if (move->from_frozen && dump_freeze("load", move->from, &move->options->part, NULL))
        fprintf(stderr, "weir load: %s decides on these keys again, as before\n", client_shown(move->from));
    else if (move->from_frozen)
        fprintf(stderr,
                "weir load: %s still refuses these keys: WEIR.THAW %s there, unless they are to stay "
                "on %s\n",
                client_shown(move->from), policy, client_shown(move->to));
    if (made)
        fprintf(stderr,
                "weir load: policy '%s' of %s is half loaded and refuses all: weir policy del %s "
                "there, then try again\n",
                policy, client_shown(move->to), policy);
    else if (move->to_frozen && dump_freeze("load", move->to, &move->options->part, NULL))
        fprintf(stderr,
                "weir load: %" PRId64 " keys had come to %s, where what they have spent counts as "
                "well\n",
                dump_sender_keys(move->sender), client_shown(move->to));
}

static bool run_move(struct key_move *move, struct load_done *done)
{
    client_patience(move->from, -1);
    client_patience(move->to, -1);
    if (!are_two_servers(move))
        return false;
    bool good = prepare_move(move) && carry_keys(move) && thaw_target(move);
    done->paused_ns = clock_now() - move->began_ns;
    done->keys = dump_sender_keys(move->sender);
    done->full = dump_sender_full(move->sender);
    if (!good)
        undo_move(move);
    return good;
}

bool load_move(const struct load_options *options, struct load_done *done)
{
    struct key_move move = {.options = options};
    move.from = client_start("load", options->from);
    move.to = move.from ? client_start("load", options->common.server) : NULL;
    /* Nothing but milliseconds pass, and the clocks of two machines may differ by more. */
    move.sender = move.to ? dump_sender_new("load", move.to, true) : NULL;
    bool good = move.sender && run_move(&move, done);
    dump_sender_free(move.sender);
    client_close(move.to);
    client_close(move.from);
    return good;
}

/* SPDX-License-Identifier: MIT */
/*
 * weir dump: what keys have spent, as text: to be read, compared, and loaded elsewhere.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/humanize.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/transfer/dump_read.h"
#include "service/transfer/dump_text.h"

static const char *output_path, *hashes, *freeze_url;
static struct dump_part wanted;

struct dump_output {
    FILE *file;
    bool person; /* somebody looks at the progress */
    uint64_t keys;
    uint32_t crc;
};

static bool dump_put(struct dump_output *output, const char *bytes, size_t len)
{
    output->crc = weir_crc32c(output->crc, bytes, len);
    return fwrite(bytes, 1, len, output->file) == len;
}

static bool dump_put_line(void *arg, struct slice line)
{
    struct dump_output *output = arg;
    bool key = dump_line_is(line, "key|spent|cell|rl");
    output->keys += key;
    if (output->person && key && output->keys % 10000 == 0)
        fprintf(stderr, "\r%llu keys", (unsigned long long)output->keys);
    if (dump_put(output, line.bytes, line.len) && dump_put(output, "\n", 1))
        return true;
    args_fail("dump", "cannot write: %s", strerror(errno));
    return false;
}

static bool dump_policy(const struct dump_source *source, const struct dump_part *part)
{
    if (freeze_url && !dump_freeze(source->command, source->client, part, freeze_url))
        return false;
    return dump_read_policy(source, part, false);
}

/* Names of policies, each with a NUL. */
static bool read_policy_names(struct cli_client *client, struct buffer *names)
{
    const struct resp_value *list = ask_words("dump", client, "WEIR.POLICY", "LIST", NULL);
    for (size_t i = 0; list && i < list->count; i++) {
        struct slice name = ask_text(&list->elements[i], "name");
        buffer_put(names, name.bytes, name.len);
        buffer_put(names, "", 1);
    }
    return list && !names->failed;
}

static bool dump_all(struct cli_client *client, struct dump_output *output)
{
    const struct dump_source source = {"dump", client, dump_put_line, output};
    struct buffer names = {0};
    if (!dump_read_head(&source))
        return false;
    if (wanted.policy)
        return dump_policy(&source, &wanted);
    bool good = read_policy_names(client, &names);
    const char *at = buffer_bytes(&names), *end = at + buffer_len(&names);
    for (; good && at < end; at += strlen(at) + 1) {
        struct dump_part part = wanted;
        part.policy = at;
        good = dump_policy(&source, &part);
    }
    weir_buffer_free(&names);
    return good && (wanted.from || wanted.prefix || dump_read_clients(&source));
}

static bool dump_put_end(struct dump_output *output)
{
    struct buffer end = {0};
    weir_dump_end(&end, output->keys, output->crc);
    bool done = !end.failed &&
                fwrite(buffer_bytes(&end), 1, buffer_len(&end), output->file) == buffer_len(&end) &&
                fflush(output->file) == 0;
    if (!done)
        args_fail("dump", "cannot write: %s", strerror(errno));
    weir_buffer_free(&end);
    return done;
}

/* A file is there with all of it, or not at all. */
static FILE *open_dump_file(const char *path, char *part, size_t size)
{
    if ((size_t)snprintf(part, size, "%s.part", path) >= size) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (!stream && file >= 0)
        (void)close(file);
    return stream;
}

static bool close_dump_file(FILE *file, const char *part, const char *path, bool done)
{
    done = done && fflush(file) == 0 && fsync(fileno(file)) == 0;
    done = fclose(file) == 0 && done;
    if (done && rename(part, path) == 0)
        return true;
    if (done)
        args_fail("dump", "cannot rename %s: %s", part, strerror(errno));
    (void)unlink(part);
    return false;
}

static bool write_dump(struct cli_client *client)
{
    char part[4096], number[HUMANIZE_MAX];
    struct dump_output output = {.file = stdout, .person = isatty(STDERR_FILENO) && output_path};
    if (output_path && !(output.file = open_dump_file(output_path, part, sizeof part))) {
        args_fail("dump", "cannot write %s: %s", output_path, strerror(errno));
        return false;
    }
    bool done = dump_all(client, &output) && dump_put_end(&output);
    if (output_path)
        done = close_dump_file(output.file, part, output_path, done);
    if (output.person)
        fprintf(stderr, "\r%s keys%s\n", weir_humanize_number((int64_t)output.keys, number),
                done ? "" : ", and then it failed");
    return done;
}

static int run_dump(const struct cli_command *command, int count, char **argv)
{
    char room[DUMP_HASHES_MAX];
    (void)count;
    (void)argv;
    if (!dump_read_hashes(command->name, hashes, room, &wanted))
        return EXIT_ERROR;
    struct cli_client *client = ask_open(command->name, ask_options.server, true);
    bool done = client && write_dump(client);
    client_close(client);
    return done ? EXIT_OK : EXIT_ERROR;
}

static const struct args_option options[] = {
    OPT_TEXT("policy", 0, &wanted.policy, "NAME", "only this policy"),
    OPT_TEXT("hash", 0, &hashes, "FROM-TO",
             "only keys whose hash is in this range, both ends included: two numbers of 16 hex digits. Keys "
             "are known by hashes"),
    OPT_TEXT("prefix", 0, &wanted.prefix, "TEXT", "only keys of a prefix that has limits of its own"),
    OPT_TEXT("freeze", 0, &freeze_url, "URL",
             "freeze these keys first: who asks for one is sent to URL, until WEIR.THAW. So nothing changes "
             "that was dumped"),
    OPT_TEXT("output", 'o', &output_path, "FILE", "to this file (mode 0600; it is there when all of it is)"),
    ASK_SERVER,
};

const struct cli_command command_dump = {
    .name = "dump",
    .usage = "[--policy NAME] [--hash FROM-TO | --prefix TEXT] [-o FILE]\n"
             "Writes policies, and what each of their keys has spent, as text that weir load reads.\n",
    ARGS_OPTIONS(options),
    .more = "Request ids and reservations are not in a dump: weir backup has all of it. Keys of RL.*\n"
            "and CL.THROTTLE are, if all is dumped. Exit status: 0, or 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir dump | less\n"
            "  weir dump --policy api -o api.dump\n"
            "  weir dump --policy api | weir load -s redis://b:9049\n",
    .many = "; --policy names a policy, -o a file",
    .run = run_dump,
};

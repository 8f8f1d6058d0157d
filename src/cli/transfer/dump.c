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
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/transfer/dump_read.h"
#include "service/transfer/dump_text.h"

static const char help[] =
    "usage: weir dump [--policy NAME] [--hash FROM-TO | --prefix TEXT] [-o FILE]\n"
    "Writes policies, and what each of their keys has spent, as text that weir load reads.\n"
    "\n"
    "      --policy NAME    only this policy\n"
    "      --hash FROM-TO   only keys whose hash is in this range, both ends included:\n"
    "                       two numbers of 16 hex digits. Keys are known by hashes\n"
    "      --prefix TEXT    only keys of a prefix that has limits of its own\n"
    "      --freeze URL     freeze these keys first: who asks for one is sent to URL, until\n"
    "                       WEIR.THAW. So nothing changes that was dumped\n"
    "  -o, --output FILE    to this file (mode 0600; it is there when all of it is)\n"
    "  -s, --server URL     redis://[user:password@]host:port or unix:///path\n"
    "                       (default: WEIR_URL, else redis://127.0.0.1:9049)\n"
    "  -h, --help           this text\n"
    "\n"
    "Request ids and reservations are not in a dump: weir backup has all of it. Keys of RL.*\n"
    "and CL.THROTTLE are, if all is dumped. Exit status: 0, or 2 on an error.\n"
    "\n"
    "Examples\n"
    "  weir dump | less\n"
    "  weir dump --policy api -o api.dump\n"
    "  weir dump --policy api | weir load -s redis://b:9049\n";

struct dump_options {
    bool help;
    const char *server, *output, *hashes, *url;
    struct dump_part part;
};

struct dump_output {
    FILE *file;
    bool person; /* somebody looks at the progress */
    uint64_t keys;
    uint32_t crc;
    struct buffer names; /* of policies, each with a NUL */
};

static bool dump_put(struct dump_output *output, const char *bytes, size_t len)
{
    output->crc = weir_crc32c(output->crc, bytes, len);
    return fwrite(bytes, 1, len, output->file) == len;
}

static bool dump_put_line(void *arg, struct slice line)
{
    struct dump_output *output = arg;
    bool key = (line.len > 4 && memcmp(line.bytes, "key ", 4) == 0) ||
               (line.len > 6 && memcmp(line.bytes, "spent ", 6) == 0) ||
               (line.len > 5 && memcmp(line.bytes, "cell ", 5) == 0) ||
               (line.len > 3 && memcmp(line.bytes, "rl ", 3) == 0);
    output->keys += key;
    if (output->person && key && output->keys % 10000 == 0)
        fprintf(stderr, "\r%llu keys", (unsigned long long)output->keys);
    if (dump_put(output, line.bytes, line.len) && dump_put(output, "\n", 1))
        return true;
    fprintf(stderr, "weir dump: cannot write: %s\n", strerror(errno));
    return false;
}

static bool note_name(void *arg, struct slice line)
{
    struct dump_output *output = arg;
    buffer_put(&output->names, line.bytes, line.len);
    buffer_put(&output->names, "", 1);
    return !output->names.failed;
}

static bool dump_policy(struct cli_client *client, const struct dump_options *options,
                        const struct dump_part *part, struct dump_output *output)
{
    if (options->url && !dump_freeze("dump", client, part, options->url))
        return false;
    return dump_read_policy("dump", client, part, false, dump_put_line, output);
}

static bool dump_all(struct cli_client *client, const struct dump_options *options,
                     struct dump_output *output)
{
    if (!dump_read_head("dump", client, dump_put_line, output))
        return false;
    if (options->part.policy)
        return dump_policy(client, options, &options->part, output);
    if (!dump_read_names("dump", client, note_name, output))
        return false;
    const char *at = buffer_bytes(&output->names), *end = at + buffer_len(&output->names);
    for (; at < end; at += strlen(at) + 1) {
        struct dump_part part = options->part;
        part.policy = at;
        if (!dump_policy(client, options, &part, output))
            return false;
    }
    return options->part.from || options->part.prefix ||
           dump_read_clients("dump", client, dump_put_line, output);
}

static bool dump_put_end(struct dump_output *output)
{
    struct buffer end = {0};
    weir_dump_end(&end, output->keys, output->crc);
    bool done = !end.failed &&
                fwrite(buffer_bytes(&end), 1, buffer_len(&end), output->file) == buffer_len(&end) &&
                fflush(output->file) == 0;
    if (!done)
        fprintf(stderr, "weir dump: cannot write: %s\n", strerror(errno));
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
        fprintf(stderr, "weir dump: cannot rename %s: %s\n", part, strerror(errno));
    (void)unlink(part);
    return false;
}

static bool run_dump(struct cli_client *client, const struct dump_options *options)
{
    char part[4096];
    struct dump_output output = {.file = stdout, .person = isatty(STDERR_FILENO) && options->output};
    if (options->output && !(output.file = open_dump_file(options->output, part, sizeof part))) {
        fprintf(stderr, "weir dump: cannot write %s: %s\n", options->output, strerror(errno));
        return false;
    }
    bool done = dump_all(client, options, &output) && dump_put_end(&output);
    if (options->output)
        done = close_dump_file(output.file, part, options->output, done);
    weir_buffer_free(&output.names);
    char number[HUMANIZE_MAX];
    if (output.person)
        fprintf(stderr, "\r%s keys%s\n", weir_humanize_number((int64_t)output.keys, number),
                done ? "" : ", and then it failed");
    return done;
}

int cmd_dump(int argc, char **argv)
{
    struct dump_options options = {0};
    char room[DUMP_HASHES_MAX];
    const struct args_option table[] = {
        {"policy", 0, NULL, &options.part.policy}, {"hash", 0, NULL, &options.hashes},
        {"prefix", 0, NULL, &options.part.prefix}, {"freeze", 0, NULL, &options.url},
        {"output", 'o', NULL, &options.output},    {"server", 's', NULL, &options.server},
        {"help", 'h', &options.help, NULL},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.help)
        return fputs(help, stdout), EXIT_OK;
    if (count > 0) {
        args_complain("dump", "unknown word", argv[1]);
        fputs("; --policy names a policy, -o a file\n", stderr);
        return EXIT_ERROR;
    }
    if (!dump_read_hashes("dump", options.hashes, room, &options.part))
        return EXIT_ERROR;
    struct cli_client *client = client_start("dump", options.server);
    if (!client)
        return EXIT_ERROR;
    client_patience(client, -1);
    bool done = run_dump(client, &options);
    client_close(client);
    return done ? EXIT_OK : EXIT_ERROR;
}

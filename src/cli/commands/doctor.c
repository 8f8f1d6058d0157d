/* SPDX-License-Identifier: MIT */
/*
 * weir doctor: reads a data directory that nobody uses, says what is in it and what a start would find, and
 * repairs it only when told.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/humanize.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/term.h"
#include "config/timestamp.h"
#include "store/inspect.h"

static bool repair, json_wanted;

struct doctor_report {
    const char *path;
    struct inspect inspect;
    uint64_t room; /* bytes free on that disk */
    bool open_to_others;
    bool can_start;
    int retired, backups;
    int problems;
};

static const char *megabytes(uint64_t bytes, char text[static 32])
{
    if (bytes < 10240)
        (void)snprintf(text, 32, "%" PRIu64 " B", bytes);
    else if (bytes < (10 << 20))
        (void)snprintf(text, 32, "%" PRIu64 " KiB", bytes >> 10);
    else
        (void)snprintf(text, 32, "%" PRIu64 " MiB", bytes >> 20);
    return text;
}

/* ---- finding out ---- */

/* Files, or directories. */
static int count_in(const char *path, const char *name)
{
    char where[4096];
    int count = 0;
    if (snprintf(where, sizeof where, "%s/%s", path, name) >= (int)sizeof where)
        return 0;
    DIR *stream = opendir(where);
    for (const struct dirent *entry; stream && (entry = readdir(stream)) != NULL;)
        count += entry->d_name[0] != '.';
    if (stream)
        (void)closedir(stream);
    return count;
}

/* Records alone tell neither policies nor hash keys. */
static bool has_no_note(const struct inspect *inspect)
{
    return inspect->found.lost && !inspect->catalogue;
}

/* A file that the disk did not give can be put aside, and what the log has can be saved; but only with the
 * note that tells what it is of. */
static bool is_beyond_repair(const struct doctor_report *report)
{
    const struct inspect *inspect = &report->inspect;
    bool unread = false;
    for (size_t i = 0; i < inspect->count; i++)
        unread = unread || inspect->files[i].unread;
    return !report->can_start && !inspect->catalogue && !unread;
}

static void inspect_surroundings(struct doctor_report *report)
{
    struct disk *disk = &weir_disk;
    struct stat status;
    int dir;
    report->can_start = report->inspect.can_start && !has_no_note(&report->inspect);
    report->open_to_others = stat(report->path, &status) == 0 && (status.st_mode & 077) != 0;
    if (disk->open_dir(disk, report->path, false, &dir) != 0)
        return;
    (void)disk->room(disk, dir, &report->room);
    disk->close_dir(disk, dir);
    report->retired = count_in(report->path, "retired");
    report->backups = count_in(report->path, "backups");
}

static void count_problems(struct doctor_report *report)
{
    const struct inspect *inspect = &report->inspect;
    for (size_t i = 0; i < inspect->count; i++)
        report->problems += !inspect->files[i].good && inspect->files[i].text[0] != '\0';
    report->problems += !report->can_start;
    report->problems += inspect->found.lost;
    report->problems += report->open_to_others;
}

/* ---- telling ---- */

static void print_moment(int64_t wall_ns)
{
    char text[TIMESTAMP_MAX];
    weir_timestamp_write(wall_ns / WEIR_MS, text);
    printf("  %.19sZ", text);
}

static void doctor_print_file(const struct inspect_file *file)
{
    char size[32];
    printf("  %s%-24s%s %9s", term_colour(stdout, file->good ? TERM_GOOD : TERM_BAD), file->name,
           term_colour(stdout, TERM_PLAIN), megabytes(file->bytes, size));
    if (file->frames > 0) {
        printf("  %8" PRIu64 " records", file->records);
        print_moment(file->wall_ns);
    }
    puts(file->frames > 0 && file->good && !file->needed ? "  (not needed)" : "");
    if (file->text[0]) {
        fputs("      ", stdout);
        term_wrap(stdout, file->text, 6, 6, term_width(stdout));
    }
}

static void doctor_print_found(const struct doctor_report *report)
{
    const struct store_found *found = &report->inspect.found;
    char text[32];
    const char *what = !report->can_start ? "it would not start"
                       : found->fresh     ? "nothing: it would begin anew"
                       : found->lost      ? "something that was surely on the disk is missing"
                       : found->clean     ? "all of it; the last process ended well"
                       : found->unsure    ? "all that is here; its last moment may be missing"
                                          : "all that was answered, though the last process did not end well";
    printf("a start would find: %s\n", what);
    if (found->text[0])
        term_wrap(stdout, found->text, 0, 0, term_width(stdout));
    if (found->holes)
        puts("changes are missing before others that are here: a start voids open reservations");
    if (is_beyond_repair(report))
        puts("what was noted about tables and policies is in no file that can be read");
    if (report->open_to_others)
        printf("others may read it, and it holds hash keys: chmod 700 %s\n", report->path);
    printf("room on this disk: %s\n", megabytes(report->room, text));
    if (report->room < (uint64_t)256 << 20)
        puts("that is little: an image takes as much as all keys, and the old one goes only when the new one "
             "is "
             "there");
    if (report->retired > 0)
        printf("%d removed polic%s in retired/: weir load brings one back, rm forgets it\n", report->retired,
               report->retired == 1 ? "y is" : "ies are");
    if (report->backups > 0)
        printf("%d backup%s in backups/\n", report->backups, report->backups == 1 ? "" : "s");
}

static void doctor_print_text(const struct doctor_report *report)
{
    const struct store_found *found = &report->inspect.found;
    for (size_t i = 0; i < report->inspect.count; i++)
        doctor_print_file(&report->inspect.files[i]);
    doctor_print_found(report);
    if (report->problems == 0 && (found->unsure || found->holes))
        puts("nothing is damaged, and it can be started; see above for what may be missing");
    else if (report->problems == 0)
        puts("all is well");
    else if (is_beyond_repair(report))
        puts("start from a backup, or with another directory: a repair cannot help");
    else if (!report->can_start)
        printf("start from a backup, or: cp -r %s COPY && weir doctor --repair COPY\n", report->path);
}

static void print_file_json(struct json *json, const struct inspect_file *file)
{
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "name", file->name);
    json_number(json, "bytes", (int64_t)file->bytes);
    json_number(json, "frames", (int64_t)file->frames);
    json_number(json, "records", (int64_t)file->records);
    json_bool(json, "good", file->good);
    json_bool(json, "needed", file->needed);
    if (file->text[0])
        json_text(json, "text", file->text);
    json_close(json, '}');
}

static void doctor_print_json(const struct doctor_report *report)
{
    const struct store_found *found = &report->inspect.found;
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_bool(&json, "can_start", report->can_start);
    json_bool(&json, "fresh", found->fresh);
    json_bool(&json, "clean", found->clean);
    json_bool(&json, "lost", found->lost);
    json_bool(&json, "unsure", found->unsure);
    json_bool(&json, "holes", found->holes);
    json_text(&json, "text", found->text);
    json_number(&json, "records", (int64_t)found->records);
    json_bool(&json, "open_to_others", report->open_to_others);
    json_number(&json, "room_bytes", (int64_t)report->room);
    json_number(&json, "retired", report->retired);
    json_number(&json, "backups", report->backups);
    json_number(&json, "problems", report->problems);
    json_open(&json, "files", '[', JSON_LINES);
    for (size_t i = 0; i < report->inspect.count; i++)
        print_file_json(&json, &report->inspect.files[i]);
    json_close(&json, ']');
    json_close(&json, '}');
}

/* ---- all of it ---- */

static int doctor_complain(const char *path, const char *text)
{
    return args_fail("doctor", "%s: %s", path, text);
}

static int refuse_in_use(const struct doctor_report *report)
{
    char text[160], who[40] = "a process";
    if (report->inspect.in_use_by > 0)
        (void)snprintf(who, sizeof who, "process %" PRId64, report->inspect.in_use_by);
    (void)snprintf(text, sizeof text,
                   "in use by %s: run weir doctor on a backup (weir backup makes one), or stop it first",
                   who);
    return doctor_complain(report->path, text);
}

/* false: there is nothing to be told of it, and that was said. To be freed in any case. */
static bool inspect_data_dir(struct doctor_report *report)
{
    struct weir_error err = {0};
    if (!weir_inspect(&weir_disk, report->path, &report->inspect, &err)) {
        return args_fail("doctor", "%s", err.text), false;
    }
    if (report->inspect.is_none) {
        (void)doctor_complain(report->path,
                              "this is no data directory: no file of weir serve --data is in it");
        return false;
    }
    if (report->inspect.in_use_by != 0) {
        (void)refuse_in_use(report);
        return false;
    }
    inspect_surroundings(report);
    count_problems(report);
    return true;
}

static void print_repair_step(void *arg, const char *text)
{
    FILE *file = arg;
    fprintf(file, "repair: %s\n", text);
}

/* Nothing is changed where that would not help. false: it failed, and was complained about. */
static bool repair_data_dir(struct doctor_report *report, FILE *out)
{
    struct weir_error err = {0};
    if (is_beyond_repair(report))
        return true;
    weir_inspect_free(&report->inspect);
    if (!weir_inspect_repair(&weir_disk, report->path, print_repair_step, out, &err)) {
        (void)doctor_complain(report->path, err.text);
        return false;
    }
    *report = (struct doctor_report){.path = report->path};
    return inspect_data_dir(report);
}

static int run_doctor(const struct cli_command *command, int count, char **argv)
{
    struct doctor_report report = {.path = argv[1]};
    (void)command;
    (void)count;
    bool good =
        inspect_data_dir(&report) && (!repair || repair_data_dir(&report, json_wanted ? stderr : stdout));
    if (good && json_wanted)
        doctor_print_json(&report);
    else if (good)
        doctor_print_text(&report);
    weir_inspect_free(&report.inspect);
    return !good ? EXIT_ERROR : report.problems > 0 ? EXIT_REFUSED : EXIT_OK;
}

static const struct args_option options[] = {
    OPT_FLAG("repair", 0, &repair,
             "make it one that can be started from: what is damaged gets another name (damaged-...), and "
             "nothing is deleted. Copy the directory first"),
    OPT_FLAG("json", 0, &json_wanted, "one JSON document on standard output"),
};

const struct cli_command command_doctor = {
    .name = "doctor",
    .usage = "DIR [--repair] [--json]\n"
             "Looks at a data directory that no server uses: reads all of it, says what a start would\n"
             "find, what is wrong, and what that means. Changes nothing, unless told.\n",
    ARGS_OPTIONS(options),
    .more = "Exit status: 0 nothing is wrong, 1 something is, 2 it cannot be read, or is in use.\n"
            "\n"
            "Examples\n"
            "  weir doctor /var/lib/weir\n"
            "  weir doctor /var/lib/weir/backups/2026-11-15T201500Z\n"
            "  cp -r /var/lib/weir /tmp/copy && weir doctor --repair /tmp/copy\n",
    .least = 1,
    .most = 1,
    .few = "write: weir doctor DIR, with the data directory of a server",
    .run = run_doctor,
};

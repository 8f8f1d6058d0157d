/* SPDX-License-Identifier: MIT */
#include "store/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 16

static const struct file_form {
    const char *before, *behind;
} forms[FILE_KINDS] = {
    [FILE_IMAGE] = {"image-", ""}, [FILE_SEGMENT] = {"log-", ""}, [FILE_HALF] = {"image-", ".tmp"}};

void weir_file_name(char name[DISK_NAME_MAX], enum file_kind kind, uint64_t number)
{
    (void)snprintf(name, DISK_NAME_MAX, "%s%016" PRIx64 "%s", forms[kind].before, number, forms[kind].behind);
}

static bool read_file_number(const char *text, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < DIGITS; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *number = *number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return *number > 0 && *number < FILES_NUMBERS;
}

enum file_kind weir_file_parse(const char *name, uint64_t *number)
{
    for (int kind = FILE_IMAGE; kind < FILE_KINDS; kind++) {
        const struct file_form *form = &forms[kind];
        size_t before = strlen(form->before);
        if (strncmp(name, form->before, before) == 0 && read_file_number(name + before, number) &&
            strcmp(name + before + DIGITS, form->behind) == 0)
            return (enum file_kind)kind;
    }
    *number = 0;
    return FILE_OTHER;
}

bool weir_file_is_ours(const char *name)
{
    static const char *const others[] = {"lock", "mark", "mark.tmp", "ballast", "repair.tmp"};
    uint64_t number;
    bool ours = weir_file_parse(name, &number) != FILE_OTHER || strncmp(name, "damaged-", 8) == 0;
    for (size_t i = 0; !ours && i < sizeof others / sizeof others[0]; i++)
        ours = strcmp(name, others[i]) == 0;
    return ours;
}

static int look_at_name(void *arg, const char *name, uint64_t bytes)
{
    enum files_owner *owner = arg;
    (void)bytes;
    if (weir_file_is_ours(name))
        *owner = FILES_OURS;
    else if (*owner == FILES_NOBODY && name[0] != '.')
        *owner = FILES_FOREIGN;
    return 0;
}

int weir_files_owner(struct disk *disk, int dir, enum files_owner *owner)
{
    *owner = FILES_NOBODY;
    return disk->list(disk, dir, look_at_name, owner);
}

static int list_add(struct file_list *list, uint64_t number, uint64_t bytes)
{
    if (list->count == FILES_MOST)
        return EFBIG;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        struct file_entry *entries = realloc(list->entries, room * sizeof *entries);
        if (!entries)
            return ENOMEM;
        list->entries = entries;
        list->room = room;
    }
    list->entries[list->count++] = (struct file_entry){number, bytes};
    return 0;
}

static int add_file(void *arg, const char *name, uint64_t bytes)
{
    struct files *files = arg;
    uint64_t number;
    switch (weir_file_parse(name, &number)) {
    case FILE_IMAGE:
        return list_add(&files->images, number, bytes);
    case FILE_SEGMENT:
        return list_add(&files->segments, number, bytes);
    case FILE_HALF:
        return list_add(&files->halves, number, bytes);
    default:
        return 0;
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct file_entry *)a)->number, y = ((const struct file_entry *)b)->number;
    return x < y ? -1 : x > y;
}

static void list_sort(struct file_list *list)
{
    if (list->count > 1)
        qsort(list->entries, list->count, sizeof *list->entries, by_number);
}

int weir_files_read(struct files *files, struct disk *disk, int dir)
{
    *files = (struct files){0};
    int error = disk->list(disk, dir, add_file, files);
    if (error) {
        weir_files_free(files);
        return error;
    }
    list_sort(&files->images);
    list_sort(&files->segments);
    list_sort(&files->halves);
    return 0;
}

void weir_files_free(struct files *files)
{
    free(files->images.entries);
    free(files->segments.entries);
    free(files->halves.entries);
    *files = (struct files){0};
}

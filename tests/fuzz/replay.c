/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target over files instead of a fuzzer's inventions: each argument is a file or a folder of
 * files. Makes every input that was ever worth keeping an ordinary test.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_LIMIT (1 << 20)

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(SIZE_LIMIT);
    size_t size = 0;
    int failed = !file || !data;
    if (!failed) {
        size = fread(data, 1, SIZE_LIMIT, file);
        failed = ferror(file);
    }
    if (failed) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    } else {
        fprintf(stderr, "%s\n", path); /* before, so that a crash has a name */
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    if (file)
        fclose(file);
    free(data);
    return failed ? -1 : 1;
}

/* Gives the number of files, -1 if one could not be read. */
static int replay(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    if (!folder)
        return replay_file(path);
    for (struct dirent *entry; count >= 0 && (entry = readdir(folder));) {
        char inside[4096];
        if (entry->d_name[0] == '.')
            continue;
        int len = snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (len < 0 || (size_t)len >= sizeof inside) {
            fprintf(stderr, "%s/%s: the path is too long\n", path, entry->d_name);
            count = -1;
        } else {
            count = replay_file(inside) > 0 ? count + 1 : -1;
        }
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int count = replay(argv[i]);
        if (count < 0)
            return 1;
        total += count;
    }
    printf("%d inputs replayed\n", total);
    if (total == 0) {
        fprintf(stderr, "usage: %s FILE-OR-FOLDER..., and there has to be something in it\n", argv[0]);
        return 2;
    }
    return 0;
}

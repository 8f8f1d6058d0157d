/* SPDX-License-Identifier: MIT */
/*
 * Files of tables in a folder of their own, in memory if there is one for files, and copies of what is in
 * them.
 */
#ifndef WEIR_TESTS_KILL_FILES_H
#define WEIR_TESTS_KILL_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define FILES_PATH_MAX 128

/* The path of a file of that name. The folder is made with the first one, and goes, with all that is in it,
 * when the program ends. */
void files_path(char path[FILES_PATH_MAX], const char *name);

struct image {
    unsigned char *bytes;
    size_t size, room;
};

/* Stops the program if it cannot be done. A file that is not there is an empty image. */
void image_read(struct image *image, const char *path);
/* The file has these bytes then, and no others; it stays the same file. */
void image_write(const struct image *image, const char *path);
void image_copy(struct image *image, const struct image *from);
bool image_is(const struct image *image, const struct image *other);
void image_free(struct image *image);

#endif

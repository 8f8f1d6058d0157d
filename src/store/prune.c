/* SPDX-License-Identifier: MIT */
/*
 * What an image has made unnecessary. Images that cannot be read count for nothing and stay, for weir doctor,
 * until they are older than all that are kept.
 */
#include "store/files.h"
#include "store/image.h"
#include "store/survey.h"

void weir_image_pin(struct store *store, bool pin)
{
    (void)pthread_mutex_lock(&store->log.lock);
    store->image.pinned += pin ? 1 : UINT32_MAX;
    (void)pthread_mutex_unlock(&store->log.lock);
}

/* The oldest image that is kept, and the first segment it needs. false: there are not that many. */
static bool find_oldest(struct store *store, const struct file_list *images, struct survey *oldest)
{
    uint32_t kept = 0;
    for (size_t i = images->count; i-- > 0;) {
        *oldest = (struct survey){.kind = FILE_IMAGE, .number = images->entries[i].number};
        weir_survey_start(oldest, store->disk, store->dir);
        if (oldest->started && ++kept == store->options.images)
            return true;
    }
    return false;
}

static bool remove_below(struct store *store, enum file_kind kind, const struct file_list *list,
                         uint64_t number)
{
    char name[DISK_NAME_MAX];
    bool removed = false;
    for (size_t i = 0; i < list->count && list->entries[i].number < number; i++) {
        weir_file_name(name, kind, list->entries[i].number);
        removed = store->disk->remove(store->disk, store->dir, name) == 0 || removed;
    }
    return removed;
}

void weir_image_prune(struct store *store)
{
    struct files files;
    struct survey oldest;
    (void)pthread_mutex_lock(&store->log.lock);
    bool pinned = store->image.pinned > 0;
    (void)pthread_mutex_unlock(&store->log.lock);
    if (pinned || weir_files_read(&files, store->disk, store->dir) != 0)
        return;
    bool removed = remove_below(store, FILE_HALF, &files.halves, FILES_NUMBERS); /* of those that failed */
    if (find_oldest(store, &files.images, &oldest)) {
        removed = remove_below(store, FILE_IMAGE, &files.images, oldest.number) || removed;
        removed = remove_below(store, FILE_SEGMENT, &files.segments, oldest.start.segment) || removed;
    }
    if (removed)
        (void)store->disk->sync_dir(store->disk, store->dir);
    weir_files_free(&files);
}

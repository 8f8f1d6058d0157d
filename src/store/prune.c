/* SPDX-License-Identifier: MIT */
/*
 * What an image has made unnecessary. Images that nobody could start from count for nothing and stay, for
 * weir doctor, until they are older than all that are kept.
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

/* Can it be started from? Those that this process has written, or started from, are whole; those that it
 * would rather have started from are not. Others are read. */
static bool is_image_whole(struct store *store, uint64_t number, struct survey *survey)
{
    *survey = (struct survey){.kind = FILE_IMAGE, .number = number};
    if (number > store->image.found || number == store->recovered.from_image) {
        weir_survey_start(survey, store->disk, store->dir);
        return survey->started;
    }
    if (number > store->recovered.from_image)
        return false;
    weir_survey_file(survey, store->disk, store->dir, store->id, NULL, NULL);
    return survey->whole;
}

/* The oldest image that is kept, and the first segment it needs. false: there are not that many. */
static bool find_oldest(struct store *store, const struct file_list *images, struct survey *oldest)
{
    uint32_t kept = 0;
    for (size_t i = images->count; i-- > 0;)
        if (is_image_whole(store, images->entries[i].number, oldest) && ++kept == store->options.images)
            return true;
    return false;
}

static int remove_below(struct store *store, enum file_kind kind, const struct file_list *list,
                        uint64_t number, bool *removed)
{
    char name[DISK_NAME_MAX];
    int first = 0;
    for (size_t i = 0; i < list->count && list->entries[i].number < number; i++) {
        weir_file_name(name, kind, list->entries[i].number);
        int error = store->disk->remove(store->disk, store->dir, name);
        *removed = *removed || !error;
        first = first ? first : error;
    }
    return first;
}

/* No older image is there any more, and none comes back. */
static void forget_generations(struct store *store)
{
    uint32_t last = store->options.images - 1;
    (void)pthread_mutex_lock(&store->regions.lock);
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next)
        if (kept->persist.kind->imaged && kept->generations[last] > 0)
            kept->persist.kind->imaged(&kept->persist, kept->generations[last]);
    (void)pthread_mutex_unlock(&store->regions.lock);
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
    bool removed = false, enough = find_oldest(store, &files.images, &oldest);
    (void)remove_below(store, FILE_HALF, &files.halves, FILES_NUMBERS, &removed); /* of those that failed */
    int error = enough ? remove_below(store, FILE_IMAGE, &files.images, oldest.number, &removed) : 0;
    if (enough)
        (void)remove_below(store, FILE_SEGMENT, &files.segments, oldest.start.segment, &removed);
    if (removed && !error)
        error = store->disk->sync_dir(store->disk, store->dir);
    if (enough && !error)
        forget_generations(store);
    weir_files_free(&files);
}

/* SPDX-License-Identifier: MIT */
/*
 * When images are written, and what becomes of them.
 *
 * One is due when the log behind the last is longer than image_log_bytes and than that image: so a start
 * reads at most about twice what is there, and images cost no more than the log. Or when the last is old and
 * something came behind it; or somebody asks, or an owner does (keep.want_image). At once after a start that
 * found much log, many starts before it, or something missing, since what the owner did about that is in
 * memory only.
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "os/clock.h"
#include "store/checkpoint.h"
#include "store/files.h"
#include "store/health.h"
#include "store/image.h"
#include "store/log.h"
#include "store/survey.h"

#define STARTS_MOST          8 /* processes since the last image: each leaves segments, however little is in them */
#define IMAGE_RETRY_FIRST_NS WEIR_SEC
#define IMAGE_RETRY_MOST_NS  (60 * WEIR_SEC)

/* ---- what others are told of it ---- */

static void shift_generations(struct store *store)
{
    (void)pthread_mutex_lock(&store->regions.lock);
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next) {
        memmove(kept->generations + 1, kept->generations,
                (STORE_IMAGES_MOST - 1) * sizeof *kept->generations);
        kept->generations[0] = kept->begun;
    }
    (void)pthread_mutex_unlock(&store->regions.lock);
}

static void image_succeeded(struct store *store, struct image *image)
{
    struct image_state *state = &store->image;
    int64_t now = weir_now();
    shift_generations(store);
    (void)pthread_mutex_lock(&store->log.lock);
    state->running = false;
    state->done = image->wanted;
    state->last_good = true;
    state->number = image->number;
    state->bytes = image->end.bytes;
    state->time_ns = now;
    state->log_start = image->log_start;
    state->log_before = 0;
    state->images++;
    (void)pthread_cond_broadcast(&store->sync.moved);
    (void)pthread_mutex_unlock(&store->log.lock);
    state->wait_ns = state->retry_ns = 0;
    weir_store_tell(store, STORE_EVENT_IMAGE, "", (int64_t)image->end.bytes, now - image->begun_ns);
}

static void image_failed(struct store *store, struct image *image, int error)
{
    struct image_state *state = &store->image;
    char name[DISK_NAME_MAX], why[STORE_TEXT_MAX], reason[ERROR_REASON_MAX];
    (void)snprintf(why, sizeof why, "image-%016" PRIx64 " could not be written: %s", image->number,
                   weir_error_reason(reason, error));
    for (int half = 0; half < 2; half++) { /* a rename that failed may have been done */
        weir_file_name(name, half ? FILE_HALF : FILE_IMAGE, image->number);
        (void)store->disk->remove(store->disk, store->dir, name);
    }
    (void)pthread_mutex_lock(&store->log.lock);
    state->running = false;
    state->done = image->wanted;
    state->last_good = false;
    state->failures += error != ECANCELED;
    memcpy(state->why, why, sizeof why);
    (void)pthread_cond_broadcast(&store->sync.moved);
    (void)pthread_mutex_unlock(&store->log.lock);
    state->wait_ns =
        state->wait_ns == 0 ? IMAGE_RETRY_FIRST_NS : min64(2 * state->wait_ns, IMAGE_RETRY_MOST_NS);
    state->retry_ns = sat_add(weir_now(), state->wait_ns);
    if (error != ECANCELED) /* given up for the end, or for another one: nothing has failed */
        weir_store_tell(store, STORE_EVENT_IMAGE_FAILED, why, (int64_t)image->end.bytes, 0);
}

static void end_image(struct store *store, struct image *image, int error)
{
    if (error)
        image_failed(store, image, error);
    else
        image_succeeded(store, image);
    weir_image_free(store, image);
}

/* ---- the checkpointer ---- */

static bool is_image_due(struct store *store)
{
    const struct image_state *state = &store->image;
    const struct store_options *options = &store->options;
    int64_t now = weir_now();
    (void)pthread_mutex_lock(&store->log.lock);
    uint64_t more = store->log.bytes - state->log_start, behind = more + state->log_before;
    uint64_t most = options->image_log_bytes > state->bytes ? options->image_log_bytes : state->bytes;
    bool trouble = store->recovered.flags & (FRAME_HOLES | FRAME_LOST | FRAME_UNSURE);
    bool due = state->asked || behind > most || state->log_before > options->image_log_bytes / 2 ||
               ((trouble || store->recovered.starts >= STARTS_MOST) && state->images == 0) ||
               (more > 0 && sat_sub(now, state->since_ns) >= options->image_age_ns);
    bool wanted = state->wanted > state->done;
    due = due && !state->held;
    (void)pthread_mutex_unlock(&store->log.lock);
    return wanted || (due && (now >= state->retry_ns || state->retry_ns - now > IMAGE_RETRY_MOST_NS));
}

void weir_image_ask(struct store *store)
{
    (void)pthread_mutex_lock(&store->log.lock);
    store->image.asked = true;
    (void)pthread_cond_signal(&store->checkpointer_work);
    (void)pthread_mutex_unlock(&store->log.lock);
}

void weir_store_free_images(struct store *store)
{
    (void)pthread_mutex_lock(&store->log.lock);
    store->image.held = false;
    (void)pthread_cond_broadcast(&store->checkpointer_work);
    (void)pthread_mutex_unlock(&store->log.lock);
}

/* It is ill: there will be an image when it heals, but who waits for one is not to wait so long. */
static void refuse_image(struct store *store, const char *why)
{
    struct image_state *state = &store->image;
    (void)pthread_mutex_lock(&store->log.lock);
    state->done = state->wanted;
    state->last_good = false;
    (void)snprintf(state->why, sizeof state->why, "%s",
                   why                      ? why
                   : store->health.error[0] ? store->health.error
                                            : "the disk is behind");
    (void)pthread_cond_broadcast(&store->sync.moved);
    (void)pthread_mutex_unlock(&store->log.lock);
    state->retry_ns = sat_add(weir_now(), IMAGE_RETRY_FIRST_NS);
}

static bool begin_image(struct store *store)
{
    uint64_t segment, sequence;
    bool begun = weir_log_rotate(store, &segment, &sequence);
    if (begun)
        store->image.now = weir_image_new(store, segment, sequence, false);
    if (!store->image.now)
        refuse_image(store, begun ? "out of memory" : NULL);
    return store->image.now != NULL;
}

bool weir_image_step(struct store *store)
{
    struct image *image = store->image.now;
    if (!image)
        return is_image_due(store) && begin_image(store);
    int error = weir_image_next(store, image);
    if (!error && image->phase != IMAGE_DONE)
        return true;
    store->image.now = NULL;
    end_image(store, image, error);
    if (!error)
        weir_image_prune(store);
    return false;
}

void weir_image_end(struct store *store)
{
    struct image *image = store->image.now;
    store->image.now = NULL;
    if (image)
        end_image(store, image, ECANCELED);
}

void weir_image_refuse(struct store *store)
{
    weir_image_end(store);
    (void)pthread_mutex_lock(&store->log.lock);
    bool wanted = store->image.wanted > store->image.done;
    (void)pthread_mutex_unlock(&store->log.lock);
    if (wanted)
        refuse_image(store, NULL);
}

int weir_image_write(struct store *store, uint64_t segment, uint64_t sequence)
{
    weir_image_end(store);
    struct image *image = weir_image_new(store, segment, sequence, true);
    if (!image)
        return ENOMEM;
    int error = 0;
    while (!error && image->phase != IMAGE_DONE)
        error = weir_image_next(store, image);
    end_image(store, image, error);
    return error;
}

/* ---- those who want one ---- */

static bool is_image_over(struct store *store, uint64_t ticket)
{
    return store->image.done >= ticket || store->stopping;
}

/* Under log.lock, but for the steps. */
static void make_image(struct store *store, uint64_t ticket)
{
    (void)pthread_cond_signal(&store->checkpointer_work);
    while (!is_image_over(store, ticket)) {
        if (!store->options.manual) {
            (void)pthread_cond_wait(&store->sync.moved, &store->log.lock);
            continue;
        }
        (void)pthread_mutex_unlock(&store->log.lock);
        (void)weir_image_step(store);
        (void)pthread_mutex_lock(&store->log.lock);
    }
}

bool weir_store_image(struct store *store, struct weir_error *err)
{
    char why[STORE_TEXT_MAX] = "the store is being closed";
    bool good = false;
    (void)pthread_mutex_lock(&store->log.lock);
    uint64_t ticket = ++store->image.wanted;
    if (atomic_load_explicit(&store->health.ill, memory_order_relaxed)) {
        memcpy(why, store->health.error, sizeof why);
    } else {
        make_image(store, ticket);
        good = store->image.done >= ticket && store->image.last_good;
        if (store->image.done >= ticket)
            memcpy(why, store->image.why, sizeof why);
    }
    (void)pthread_mutex_unlock(&store->log.lock);
    if (!good)
        weir_error_set(err, EIO, why);
    return good;
}

/*
 * What an image has made unnecessary. Images that nobody could start from count for nothing and stay, for
 * weir doctor, until they are older than all that are kept.
 */

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
    struct survey_dir from = {.disk = store->disk, .dir = store->dir};
    weir_survey_file(survey, &from, store->id, NULL, NULL);
    return survey->whole;
}

/* The oldest image that is kept, and the first segment it needs. false: there are not that many. */
static bool find_oldest(struct store *store, const struct file_list *images, struct survey *oldest)
{
    uint32_t kept = 0;
    for (size_t i = images->count; i-- > 0;)
        if (is_image_whole(store, images->entries[i].number, oldest)) {
            ASSERT(oldest->started);
            if (++kept == store->options.images)
                return true;
        }
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
#if WEIR_ASSERTIONS
    for (const struct stored_region *kept = store->regions.first; kept; kept = kept->next)
        for (uint32_t i = 0; i < store->options.images; i++)
            ASSERT(kept->generations[last] <= kept->generations[i]);
#endif
    for (struct stored_region *kept = store->regions.first; kept; kept = kept->next)
        if (kept->persist.kind->imaged && kept->generations[last] > 0)
            kept->persist.kind->imaged(&kept->persist, kept->generations[last]);
    (void)pthread_mutex_unlock(&store->regions.lock);
}

#if WEIR_ASSERTIONS
/* As many images are there as shall be kept, with all of their log; and if nothing failed no older ones. */
static void check_pruned(struct store *store, const struct files *before, const struct survey *oldest,
                         bool complete)
{
    struct files after;
    uint32_t kept = 0;
    bool had = false, has = false;
    if (weir_files_read(&after, store->disk, store->dir) != 0)
        return;
    for (size_t i = 0; i < after.images.count; i++) {
        kept += after.images.entries[i].number >= oldest->number;
        ASSERT(!complete || after.images.entries[i].number >= oldest->number);
    }
    for (size_t i = 0; i < before->segments.count; i++)
        had = had || before->segments.entries[i].number == oldest->start.segment;
    for (size_t i = 0; i < after.segments.count; i++)
        has = has || after.segments.entries[i].number == oldest->start.segment;
    ASSERT(kept >= store->options.images && (has || !had));
    weir_files_free(&after);
}
#endif

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
    bool forgotten = enough && !error;
#if WEIR_ASSERTIONS
    if (enough)
        check_pruned(store, &files, &oldest, forgotten);
#endif
    if (forgotten)
        forget_generations(store);
    weir_files_free(&files);
}

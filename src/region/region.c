/* SPDX-License-Identifier: MIT */
/*
 * The life of a region. A file goes through these states, and a kill at any moment leaves one of them:
 *
 *   nothing, or an empty file     made by the next who opens it
 *   the magic, and ready is 0     being made; if nobody holds the lock, the maker died: made anew
 *   ready is 1                    whole; a length beyond the last segment is a growth that came to no end
 *
 * Who opens a file first waits for the lock FILE_OPENING, and keeps it until the region is ready. So there is
 * no moment at which two make it, or one uses what another has not finished.
 */
#define _POSIX_C_SOURCE 200809L
#include "region/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "os/boot.h"
#include "os/disk.h"
#include "os/mapping.h"
#include "region/layout.h"
#include "region/stripe.h"

#if WEIR_ASSERTIONS
bool weir_region_scribbled;
#endif

#define ENTER_TRIES 100
#define AWAY_MAX_NS (366 * INT64_C(86400) * WEIR_SEC)

/* ---- errors ---- */

static void put_byte_count(struct text *text, double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        bytes /= 1024;
    weir_text_print(text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

/* Gives false, for those who end with it. */
static bool refuse_region(const struct region *region, int code, const char *message, struct weir_error *err)
{
    if (region->path)
        weir_error_at(err, code, region->path, strlen(region->path), 0, message);
    else
        weir_error_set(err, code, message);
    return false;
}

static const char *explain_region_error(int code)
{
    static const struct {
        int code;
        const char *text;
    } errors[] = {
        {ENOENT, "its folder does not exist; make that first"},
        {ENOTDIR, "a part of the path is a file, not a folder"},
        {EISDIR, "is a folder; name a file in it"},
        {ENOTSUP, "is no ordinary file; name another one"},
        {EACCES, "there is no permission to make it, or to read and write it"},
        {EPERM, "there is no permission to make it, or to read and write it"},
        {EROFS, "its file system is read-only; /dev/shm is a good place"},
        {EEXIST, "another process keeps replacing it"},
        {ELOOP, "is a symbolic link, which a table never follows; name the file itself"},
        {ENOLCK, "its file system has no locks; /dev/shm is a good place"},
        {EFBIG, "is larger than this process may make a file (ulimit -f)"},
    };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code)
            return errors[i].text;
    return NULL;
}

static bool refuse_region_code(const struct region *region, int code, struct weir_error *err)
{
    char message[128];
    struct text text;
    const char *known = explain_region_error(code);
    if (known)
        return refuse_region(region, code, known, err);
    weir_text_init(&text, message, sizeof message);
    weir_text_print(&text, "cannot be used: %s", strerror(code));
    return refuse_region(region, code, message, err);
}

static double estimate_line_size(const struct region_shape *shape)
{
    double reach = 1, number = shape->flags & REGION_NUMBERED ? sizeof(atom64) : 0;
    double witness = shape->flags & REGION_WITNESSED ? sizeof(atom128) : 0;
    return ((double)shape->slot_size + witness) * (double)shape->line_slots + reach + number;
}

#define OFFSET_MAX WEIR_TIME_MAX

/* `keys` of them need so much, and this much is there. */
static bool refuse_region_size(const struct region *region, int code, uint64_t keys, double need,
                               struct weir_error *err)
{
    char message[200];
    struct text text;
    uint64_t memory = weir_memory_left();
    uint64_t left = region->file >= 0 && code == ENOSPC ? weir_file_room(region->file) : memory;
    weir_text_init(&text, message, sizeof message);
    weir_text_print(&text, "%" PRIu64 " keys%s need ", keys, region->header ? " more" : "");
    put_byte_count(&text, need);
    if ((double)left < need) {
        weir_text_print(&text, ", and there are ");
        put_byte_count(&text, (double)left);
        weir_text_print(&text, "; at most about %" PRIu64 " keys fit here",
                        (uint64_t)((double)keys * ((double)left / need)));
    } else {
        weir_text_print(&text, ", which the system refuses to this process (see ulimit -a)");
    }
    return refuse_region(region, code, message, err);
}

static bool is_about_size(int code)
{
    return code == ENOMEM || code == ENOSPC || code == EDQUOT;
}

/* A region of that shape, which may take more than fits in 64 bits. */
static bool refuse_shape(const struct region *region, int code, const struct region_shape *shape,
                         struct weir_error *err)
{
    uint64_t bytes = weir_region_size(shape);
    double need = bytes < UINT64_MAX ? (double)bytes : estimate_line_size(shape) * (double)shape->lines;
    return is_about_size(code) ? refuse_region_size(region, code, shape->capacity, need, err)
                               : refuse_region_code(region, code, err);
}

static bool refuse_cut_off(const struct region *region, uint64_t need, uint64_t bytes, struct weir_error *err)
{
    char message[160];
    struct text text;
    weir_text_init(&text, message, sizeof message);
    weir_text_print(&text,
                    "is cut off: it needs %" PRIu64 " bytes and has %" PRIu64 "; remove it to begin anew",
                    need, bytes);
    return refuse_region(region, EINVAL, message, err);
}

/* ---- whose file it is ---- */

#define WRITE_OTHERS 022u /* group and others */

/*
 * A process that may write to the file can do anything to those who use it: it can change the pointers in the
 * mutexes, which the C library follows. So a table trusts a file only if this process's user made it and no
 * other user may write to it, or the caller has said by `mode` that it is shared: 0660 with users of its
 * group, if that is one of the caller's, 0666 with everybody. To be asked before the file's lock is waited
 * for, which its owner may never drop.
 */
static bool check_access(const struct region *region, unsigned mode, struct weir_error *err)
{
    char message[160];
    struct text text;
    struct file_access access;
    int fault = weir_file_access(region->file, &access);
    if (fault)
        return refuse_region_code(region, fault, err);
    bool is_shared = (mode & 002) || ((mode & 020) && access.is_our_group);
    weir_text_init(&text, message, sizeof message);
    if (!access.is_ours && !is_shared)
        weir_text_print(&text,
                        "belongs to another user (uid %u); use a directory that only this user can "
                        "write to, or set mode to share the table",
                        access.owner);
    else if (access.mode & WRITE_OTHERS & ~mode)
        weir_text_print(&text,
                        "its mode is %04o, so other users can write to it; chmod it to %04o, or set "
                        "mode to share the table",
                        access.mode, access.mode & ~WRITE_OTHERS);
    else
        return true;
    return refuse_region(region, EPERM, message, err);
}

/* Who may make a table in a file that was there already: only the user who made the file. */
static bool is_file_ours(const struct region *region)
{
    struct file_access access;
    return region->created || (weir_file_access(region->file, &access) == 0 && access.is_ours);
}

/* ---- time ---- */

/*
 * Two words, each of them right by itself, so that a kill between them does no harm. The wall clock is read
 * after region time was, so the lead is at least what it should be; a lead that is too large makes the next
 * boot see too little time pass, which is the safe side: what is too small is waited for, what is too large
 * would be minted. Only who moved seen_time notes the lead.
 */
void weir_region_note_time(struct region *region, int64_t region_now)
{
    struct region_header *header = region->header;
    uint64_t seen = atom_load(&header->seen_time, memory_order_relaxed);
    int64_t now = clamp64(region_now, 0, WEIR_TIME_MAX);
    if (region->file < 0 || sat_sub(now, (int64_t)seen) < WEIR_SEC)
        return;
    if (atom_cas(&header->seen_time, &seen, (uint64_t)now, memory_order_acq_rel)) {
        INVARIANT(22, INTACT(atom_load(&header->seen_time, memory_order_relaxed) >= (uint64_t)now));
        atom_store(&header->wall_lead, (uint64_t)sat_sub(weir_boot.wall(), now), memory_order_relaxed);
    }
}

/* Where region time goes on in a new boot: never before it was last seen, and not without end if the wall
 * clock makes a leap: a machine that was off for a year has waited for nearly every limit. */
static int64_t time_after_boot(const struct region_header *header, int64_t wall)
{
    int64_t seen = (int64_t)atom_load(&header->seen_time, memory_order_relaxed);
    int64_t floor = (int64_t)atom_load(&header->floor, memory_order_relaxed);
    int64_t told = sat_sub(wall, (int64_t)atom_load(&header->wall_lead, memory_order_relaxed));
    int64_t time = clamp64(max64(clamp64(told, seen, sat_add(seen, AWAY_MAX_NS)), floor), 0, WEIR_TIME_MAX);
    INVARIANT(22, time >= min64(max64(seen, floor), WEIR_TIME_MAX));
    return time;
}

/* The boot id comes last: until it is there, the next who opens the file does all of this again, and comes to
 * the same result, or to that much more as the wall clock has gone on. */
static void move_time(struct region_header *header, const unsigned char *boot, int64_t wall, int64_t time,
                      int64_t host_now)
{
    atom_store(&header->wall_lead, (uint64_t)sat_sub(wall, time), memory_order_release);
    atom_store(&header->seen_time, (uint64_t)time, memory_order_release);
    atom_store(&header->offset, (uint64_t)sat_sub(time, host_now), memory_order_release);
    INVARIANT(22,
              INTACT(sat_add((int64_t)atom_load(&header->offset, memory_order_relaxed), host_now) == time));
    INVARIANT(22,
              INTACT((int64_t)atom_load(&header->wall_lead, memory_order_relaxed) == sat_sub(wall, time)));
    atom_fence(memory_order_release);
    memcpy(header->boot, boot, sizeof header->boot);
}

/* The wall clock is read before the other one: what passes in between is not counted twice. */
static bool begin_time(struct region *region, bool alone, struct weir_error *err)
{
    struct region_header *header = region->header;
    unsigned char boot[BOOT_ID_SIZE];
    int64_t shift, wall = weir_boot.wall();
    _Static_assert(sizeof boot == sizeof header->boot, "a boot id fits");
    if (!weir_boot.id(boot))
        return refuse_region(region, ENOSYS, "/proc does not tell the boot of the machine; is it mounted?",
                             err);
    if (!weir_boot.shift(&shift))
        return refuse_region(region, ENOSYS, "cannot be used in a time namespace whose offset nobody tells",
                             err);
    int64_t host_now = sat_sub(weir_now(), shift);
    if (region->made)
        move_time(header, boot, wall, max64(host_now, WEIR_SEC), host_now);
    else if (memcmp(boot, header->boot, sizeof boot) != 0) {
        if (!alone)
            return refuse_region(region, EBUSY,
                                 "is in use on another machine; each one needs a file of its own", err);
        move_time(header, boot, wall, time_after_boot(header, wall), host_now);
    }
    int64_t offset = sat_sub((int64_t)atom_load(&header->offset, memory_order_relaxed), shift);
    region->offset_ns = clamp64(offset, -OFFSET_MAX, OFFSET_MAX); /* a damaged one could be anything */
    return true;
}

/* ---- parts of a life ---- */

static struct region *region_alloc(const char *path, struct weir_error *err)
{
    struct region *region = calloc(1, sizeof *region);
    char *copy = path ? strdup(path) : NULL;
    if (!region || (path && !copy)) {
        weir_error_set(err, ENOMEM, "out of memory");
        free(region);
        free(copy);
        return NULL;
    }
    region->path = copy;
    region->file = -1;
    return region;
}

/* The file of a region that never became ready goes, or is empty again if it was there before. */
static void leave_file(struct region *region)
{
    if (region->opening) {
        if (region->made && region->created)
            weir_file_remove(region->file, region->path);
        else if (region->made)
            (void)weir_file_clear(region->file);
        weir_file_unlock(region->file, FILE_USING); /* a child that was forked meanwhile has the file, too */
        weir_file_unlock(region->file, FILE_OPENING);
    }
    weir_file_close(region->file);
}

/* The memory goes before the lock does: who is alone then can be sure of it. */
static void region_end(struct region *region)
{
    uint64_t mapped = atom_load(&region->mapped, memory_order_relaxed);
    for (uint64_t i = 1; i < mapped; i++)
        weir_memory_unmap(region->segments[i].slots, region->segments[i].bytes);
    if (mapped > 0)
        weir_memory_unmap(region->header, region->segments[0].offset + region->segments[0].bytes);
    if (region->file >= 0)
        leave_file(region);
    free(region->path);
    free(region);
}

static void map_front(struct region *region, uint64_t index)
{
    atom_store(&region->mapped, index + 1, memory_order_release);
    atomic_store_explicit(&region->front, &region->segments[index], memory_order_release);
}

/* Everything up to the end of the first segment is one piece of memory. */
static void place_region(struct region *region, unsigned char *memory, const struct region_shape *shape,
                         const struct layout *layout)
{
    region->header = (struct region_header *)(void *)memory;
    region->shape = *shape;
    for (int i = 0; i < REGION_PARTS; i++)
        region->parts[i] = memory + layout->parts[i];
    region->stripes = memory + layout->stripes;
    region->transactions = memory + layout->transactions;
    weir_segment_place(&region->segments[0], shape, memory + layout->segment, layout->segment, shape->lines);
    atom_store(&region->bytes, layout->bytes, memory_order_relaxed);
    map_front(region, 0);
}

/* In memory that is zero. */
static void write_header(struct region *region, const struct region_shape *shape, const struct layout *layout)
{
    struct region_header *header = region->header;
    struct hash_key lot = weir_hash_key();
    region->id = lot.low ^ lot.high;
    region->key = weir_hash_key();
    memcpy(header->magic, REGION_MAGIC, sizeof header->magic);
    header->version = REGION_VERSION;
    header->byte_order = LAYOUT_BYTE_ORDER;
    header->id = region->id;
    header->key = region->key;
    header->shape = *shape;
    header->checksum = weir_header_checksum(header);
    atom_store(&header->capacity, shape->capacity, memory_order_relaxed);
    atom_store(&header->spans[0].offset, layout->segment, memory_order_relaxed);
    atom_store(&header->spans[0].lines, shape->lines, memory_order_relaxed);
    atom_store(&header->segments, 1, memory_order_relaxed);
    ASSERT(atom_load(&header->ready, memory_order_relaxed) == 0);
}

/* ---- in memory ---- */

static bool make_in_memory(struct region *region, const struct region_shape *shape, struct weir_error *err)
{
    struct layout layout;
    unsigned char *memory = NULL;
    int fault = ENOMEM;
    /* A server has these whether or not anybody uses the commands that they are for. */
    bool lazy = shape->kind == REGION_RECORDS || shape->kind == REGION_OWN;
    if (weir_layout_of(shape, &layout))
        fault = lazy ? weir_memory_map_lazily(layout.bytes, &memory)
                     : weir_memory_map(layout.bytes, &memory, &region->huge);
    if (fault)
        return refuse_shape(region, fault, shape, err);
    place_region(region, memory, shape, &layout);
    write_header(region, shape, &layout);
    weir_stripes_renew(region);
    atom_store(&region->header->ready, 1, memory_order_release);
    return true;
}

struct region *weir_region_new(const struct region_shape *shape, struct weir_error *err)
{
    weir_error_clear(err);
    struct region *region = region_alloc(NULL, err);
    if (!region)
        return NULL;
    if (!make_in_memory(region, shape, err)) {
        region_end(region);
        return NULL;
    }
    weir_regions_join(region);
    return region;
}

void weir_region_set_key(struct region *region, const struct hash_key *key)
{
    region->key = region->header->key = *key;
    region->header->checksum = weir_header_checksum(region->header);
}

/* ---- in a file ---- */

static int make_file(struct region *region, const struct layout *layout, unsigned mode,
                     unsigned char **memory)
{
    int fault = weir_file_clear(region->file);
    if (!fault)
        fault = weir_file_set_mode(region->file, mode);
    if (!fault)
        fault = weir_disk.write(&weir_disk, region->file, REGION_MAGIC, sizeof region->header->magic, 0);
    if (!fault)
        fault = weir_file_reserve(region->file, 0, layout->bytes);
    return fault ? fault : weir_file_map(region->file, 0, layout->bytes, FILE_WRITE, memory);
}

static bool make_region(struct region *region, const struct region_shape *shape, unsigned mode,
                        struct weir_error *err)
{
    struct layout layout;
    unsigned char *memory = NULL;
    int fault = ENOMEM;
    region->made = true;
    if (weir_layout_of(shape, &layout))
        fault = make_file(region, &layout, mode, &memory);
    if (fault)
        return refuse_shape(region, fault, shape, err);
    place_region(region, memory, shape, &layout);
    write_header(region, shape, &layout);
    if (!begin_time(region, true, err))
        return false;
    weir_stripes_renew(region);
    return true;
}

static uint64_t segment_end(const struct region *region, uint64_t index)
{
    return region->segments[index].offset + region->segments[index].bytes;
}

/* Of a file that others have made or grown; the next one that is not mapped, and not the first. */
static int map_next_segment(struct region *region, enum file_fetch fetch)
{
    uint64_t index = atom_load(&region->mapped, memory_order_relaxed), size = 0;
    struct span span = weir_span_read(region->header, &region->shape, index);
    uint64_t bytes = span.end - span.offset;
    unsigned char *memory = NULL;
    int fault = weir_disk.size(&weir_disk, region->file, &size);
    if (!fault &&
        (span.end > size || !weir_span_fits(&region->shape, index, &span, segment_end(region, index - 1))))
        fault = EINVAL;
    if (!fault)
        fault = weir_file_map(region->file, span.offset, bytes, fetch, &memory);
    if (fault)
        return fault;
    weir_segment_place(&region->segments[index], &region->shape, memory, span.offset, span.lines);
    (void)atom_add(&region->bytes, bytes, memory_order_relaxed);
    map_front(region, index);
    return 0;
}

/* Nothing of the file is touched before its length has been compared with what it says. `header` is a copy
 * that only this process has. */
static bool check_file(const struct region *region, const struct region_header *header, uint64_t count,
                       struct weir_error *err)
{
    uint64_t size = 0;
    const char *message = weir_header_fault(header);
    int fault = weir_disk.size(&weir_disk, region->file, &size);
    if (count < sizeof *header && memcmp(header->magic, REGION_MAGIC, sizeof header->magic) == 0)
        return refuse_cut_off(region, LAYOUT_PAGE, size, err);
    if (message)
        return refuse_region(region, EINVAL, message, err);
    if (fault)
        return refuse_region_code(region, fault, err);
    for (uint64_t i = 0, end = 0; i < atom_load(&header->segments, memory_order_relaxed); i++) {
        struct span span = weir_span_read(header, &header->shape, i);
        if (!weir_span_fits(&header->shape, i, &span, end))
            return refuse_region(region, EINVAL,
                                 "is damaged (its segments cannot be where it says); remove it to begin anew",
                                 err);
        if (span.end > size)
            return refuse_cut_off(region, span.end, size, err);
        end = span.end;
    }
    return true;
}

static int map_file(struct region *region, const struct region_header *header, bool alone)
{
    struct layout layout;
    unsigned char *memory = NULL;
    uint64_t segments = atom_load(&header->segments, memory_order_relaxed);
    int fault = weir_layout_of(&header->shape, &layout) ? 0 : EINVAL;
    if (!fault && alone) /* a copy may have holes, for which the disk has to have room */
        fault = weir_file_reserve(region->file, 0, weir_span_read(header, &header->shape, segments - 1).end);
    if (!fault)
        fault = weir_file_map(region->file, 0, layout.bytes, FILE_READ, &memory);
    if (fault)
        return fault;
    place_region(region, memory, &header->shape, &layout);
    region->id = header->id;
    region->key = header->key;
    while (!fault && atom_load(&region->mapped, memory_order_relaxed) < segments)
        fault = map_next_segment(region, FILE_READ);
    return fault;
}

static bool adopt_region_file(struct region *region, const struct region_header *header, uint64_t count,
                              bool alone, struct weir_error *err)
{
    if (!check_file(region, header, count, err))
        return false;
    int fault = map_file(region, header, alone);
    if (fault)
        return refuse_shape(region, fault, &header->shape, err);
    if (!begin_time(region, alone, err))
        return false;
    if (alone)
        weir_stripes_renew(region);
    return true;
}

/* Is that the file to be used? Whoever had its lock may have removed it meanwhile; and another user may have
 * made it and not locked it yet. */
static bool is_file_settled(const struct region *region)
{
    uint64_t size = 0;
    return weir_file_is_at(region->file, region->path) &&
           (is_file_ours(region) || (weir_disk.size(&weir_disk, region->file, &size) == 0 && size > 0));
}

/* Opens the file and waits for its lock. */
static bool open_region_file(struct region *region, unsigned mode, struct weir_error *err)
{
    for (int tries = ENTER_TRIES;; tries--) {
        int fault = weir_file_open(region->path, mode, &region->file, &region->created);
        if (fault)
            return refuse_region_code(region, fault, err);
        if (!check_access(region, mode, err))
            return false;
        fault = weir_file_lock_alone(region->file, FILE_OPENING, true);
        if (fault && region->created)
            weir_file_remove(region->file, region->path);
        if (fault)
            return refuse_region_code(region, fault == EINVAL ? ENOLCK : fault, err);
        if (is_file_settled(region))
            return true;
        if (tries == 0 && weir_file_is_at(region->file, region->path))
            return true; /* make_or_adopt refuses it */
        weir_file_close(region->file);
        region->file = -1;
        if (tries == 0)
            return refuse_region_code(region, EEXIST, err);
        weir_file_pause();
    }
}

static bool enter_file(struct region *region, unsigned mode, bool *alone, struct weir_error *err)
{
    if (!open_region_file(region, mode, err))
        return false;
    region->opening = true;
    int fault = weir_file_lock_alone(region->file, FILE_USING, false);
    *alone = fault == 0;
    if (!fault || fault == EAGAIN)
        fault = weir_file_lock_shared(region->file, FILE_USING);
    return !fault || refuse_region_code(region, fault, err);
}

static bool make_or_adopt(struct region *region, const struct region_shape *shape, unsigned mode, bool alone,
                          struct weir_error *err)
{
    struct region_header header = {.version = 0};
    uint64_t count = 0;
    int fault = weir_disk.read(&weir_disk, region->file, &header, sizeof header, 0, &count);
    if (fault)
        return refuse_region_code(region, fault, err);
    if (count > 0 && !weir_header_is_unfinished(&header, count))
        return adopt_region_file(region, &header, count, alone, err);
    if (!alone)
        return refuse_region(region, EBUSY,
                             "is in use, but was emptied; end those who use it, then remove it", err);
    if (!is_file_ours(region))
        return refuse_region(region, EPERM,
                             "is empty, or only begun, and belongs to another user, who has to make "
                             "the table in it; or remove it",
                             err);
    return make_region(region, shape, mode, err);
}

struct region *weir_region_open(const char *path, const struct region_shape *shape, unsigned mode, bool *made,
                                bool *alone, struct weir_error *err)
{
    weir_error_clear(err);
    struct region *region = region_alloc(path, err);
    if (!region)
        return NULL;
    if (!enter_file(region, mode, alone, err) || !make_or_adopt(region, shape, mode, *alone, err)) {
        region_end(region);
        return NULL;
    }
    *made = region->made;
    weir_regions_join(region);
    return region;
}

void weir_region_ready(struct region *region)
{
    if (!region->opening)
        return;
    atom_store(&region->header->ready, 1, memory_order_release);
    region->opening = false;
    weir_file_unlock(region->file, FILE_OPENING);
}

void weir_region_free(struct region *region)
{
    if (!region)
        return;
    weir_regions_leave(region);
    region_end(region);
}

/* ---- growth ---- */

bool weir_region_refresh(struct region *region)
{
    int fault = 0;
    lock_take(&region->lock);
    while (!fault && region->file >= 0) {
        uint64_t segments = atom_load(&region->header->segments, memory_order_acquire);
        if (atom_load(&region->mapped, memory_order_relaxed) >= segments)
            break;
        fault = segments > REGION_SPANS ? EINVAL : map_next_segment(region, FILE_LAZY);
    }
    lock_drop(&region->lock);
    return fault == 0;
}

#if WEIR_ASSERTIONS
static bool is_memory_zero(const unsigned char *memory, uint64_t bytes)
{
    return bytes == 0 || (memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0);
}
#else
#define is_memory_zero(...) true
#endif

/* What a growth that came to no end has left there is zeroed, too. */
static int grow_memory(struct region *region, uint64_t offset, uint64_t bytes, unsigned char **memory)
{
    bool huge;
    if (region->file < 0)
        return weir_memory_map(bytes, memory, &huge);
    int fault = weir_file_reserve(region->file, offset, bytes);
    if (!fault)
        fault = weir_file_map(region->file, offset, bytes, FILE_WRITE, memory);
    if (!fault)
        memset(*memory, 0, bytes);
    ASSERT(fault || is_memory_zero(*memory, bytes));
    return fault;
}

/* Who sees the number of segments sees where they are. Who is killed before that has changed nothing. */
static void publish_segment(struct region *region, unsigned char *memory, uint64_t offset, uint64_t lines)
{
    struct region_header *header = region->header;
    uint64_t index = atom_load(&region->mapped, memory_order_relaxed);
    if (region->file >= 0) {
        atom_store(&header->spans[index].offset, offset, memory_order_relaxed);
        atom_store(&header->spans[index].lines, lines, memory_order_relaxed);
    }
    lock_take(&region->lock);
    weir_segment_place(&region->segments[index], &region->shape, memory, offset, lines);
    (void)atom_add(&region->bytes, weir_segment_size(&region->shape, lines), memory_order_relaxed);
    map_front(region, index);
    INVARIANT(19, INTACT(atom_load(&header->segments, memory_order_relaxed) == index));
    atom_store(&header->segments, index + 1, memory_order_seq_cst);
    lock_drop(&region->lock);
}

bool weir_region_grow(struct region *region, uint64_t lines, struct weir_error *err)
{
    const struct region_shape *shape = &region->shape;
    uint64_t bytes = weir_segment_size(shape, lines), page = weir_page_size();
    unsigned char *memory = NULL;
    weir_error_clear(err);
    if (!weir_region_refresh(region))
        return refuse_region(region, ENOMEM, "what others have added cannot be mapped", err);
    uint64_t count = atom_load(&region->mapped, memory_order_relaxed);
    if (region->file >= 0 && count == REGION_SPANS)
        return refuse_region(region, ENOSPC, "has grown 7 times, which is the most; make a larger one", err);
    if (count == REGION_SEGMENTS)
        return refuse_region(region, ENOSPC, "has grown 63 times, which is the most; make a larger one", err);
    if (lines == 0 || (shape->kind == REGION_WIDE && lines % shape->stripes != 0))
        return refuse_region(region, EINVAL, "does not grow by so many lines", err);
    uint64_t offset = (segment_end(region, count - 1) + page - 1) / page * page;
    int fault = bytes == UINT64_MAX ? ENOMEM : grow_memory(region, offset, bytes, &memory);
    if (is_about_size(fault)) {
        double keys = (double)shape->capacity / (double)shape->lines * (double)lines;
        return refuse_region_size(region, fault, keys < 1e18 ? (uint64_t)keys : UINT64_C(1000000000000000000),
                                  estimate_line_size(shape) * (double)lines, err);
    }
    if (fault)
        return refuse_region_code(region, fault, err);
    publish_segment(region, memory, offset, lines);
    return true;
}

/* ---- segments that go ---- */

#if WEIR_ASSERTIONS
/* What is in front of the first segment, and all segments that are not retired. A wide table keeps its first
 * one. */
static uint64_t bytes_in_use(const struct region *region)
{
    uint64_t bytes = region->segments[0].offset, mapped = atom_load(&region->mapped, memory_order_relaxed);
    for (uint64_t i = 0; i < mapped; i++)
        if (i >= atom_load(&region->first, memory_order_relaxed) ||
            (i == 0 && region->shape.kind == REGION_WIDE))
            bytes += region->segments[i].bytes;
    return bytes;
}
#else
#define bytes_in_use(...) UINT64_MAX
#endif

void weir_region_close(struct region *region)
{
    atom_store(&region->open, atom_load(&region->mapped, memory_order_relaxed) - 1, memory_order_seq_cst);
}

void weir_region_retire(struct region *region, bool whole)
{
    uint64_t first = atom_load(&region->first, memory_order_relaxed);
    const struct segment *segment = &region->segments[first];
    INVARIANT(16, first < atom_load(&region->open, memory_order_relaxed));
    atom_store(&region->first, first + 1, memory_order_release);
    if (!whole)
        return;
    weir_memory_return(segment->slots, segment->bytes);
    (void)atom_add(&region->bytes, -segment->bytes, memory_order_relaxed);
    INVARIANT(16, is_memory_zero(region->segments[first].slots, region->segments[first].bytes));
    ASSERT(atom_load(&region->bytes, memory_order_relaxed) == bytes_in_use(region));
}

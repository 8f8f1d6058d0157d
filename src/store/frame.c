/* SPDX-License-Identifier: MIT */
#include "store/frame.h"

#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "region/persist.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files of a store are little-endian, and so must the machine be"
#endif

_Static_assert(sizeof(struct frame_head) == 56 && sizeof(struct frame_start) == 72 &&
                   sizeof(struct frame_end) == 24 && sizeof(struct persist_head) == 8,
               "no gaps: they would be written");

uint64_t weir_frame_salt(const unsigned char store[16], enum frame_kind kind, uint64_t number)
{
    struct hash_key key;
    uint64_t file[2] = {kind, number};
    memcpy(&key, store, sizeof key);
    uint64_t salt = weir_hash(&key, file, sizeof file);
    return salt ? salt : 1; /* 0 stands for any */
}

static uint32_t frame_checksum(const unsigned char *frame, size_t size)
{
    size_t first = sizeof(uint32_t);
    return weir_crc32c(0, frame + first, size - first);
}

void weir_frame_seal(struct frame_head *head, size_t payload)
{
    unsigned char *frame = (unsigned char *)head;
    size_t size = frame_size(payload);
    head->magic = FRAME_MAGIC;
    head->version = FRAME_VERSION;
    head->bytes = (uint32_t)payload;
    memset(frame + sizeof *head + payload, 0, size - sizeof *head - payload);
    head->crc = frame_checksum(frame, size);
}

bool weir_frame_is_good(const unsigned char *bytes, size_t len, uint64_t salt)
{
    struct frame_head head;
    if (len < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    return head.magic == FRAME_MAGIC && head.bytes <= FRAME_BYTES_MAX && (salt == 0 || head.salt == salt) &&
           frame_size(head.bytes) <= len && frame_checksum(bytes, frame_size(head.bytes)) == head.crc;
}

bool weir_frame_records(const unsigned char *payload, size_t len,
                        bool (*each)(void *arg, uint32_t region, uint8_t kind, const unsigned char *body,
                                     size_t bytes),
                        void *arg)
{
    for (size_t at = 0; at < len;) {
        struct persist_head head;
        if (len - at < sizeof head)
            return false;
        memcpy(&head, payload + at, sizeof head);
        at += sizeof head;
        if (head.kind == 0 || head.spare != 0 || head.bytes % 8 != 0 || head.bytes > len - at)
            return false;
        if (!each(arg, head.region, head.kind, payload + at, head.bytes))
            return false;
        at += head.bytes;
    }
    return true;
}

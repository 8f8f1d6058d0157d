/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

uint64_t weir_hash(const struct hash_key *key, const void *bytes, size_t len)
{
    return hash_bytes(key, bytes, len);
}

/* Every process gets 16 bytes from the kernel when it starts. They are not for us alone and are the same each
 * time, so they serve as the key under which what differs is hashed. */
static struct hash_key make_hash_key(void)
{
    static _Atomic uint64_t made;
    struct hash_key secret = {0, 0}, key;
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    if (random)
        memcpy(&secret, random, sizeof secret);
    uint64_t differs[] = {atomic_fetch_add_explicit(&made, 1, memory_order_relaxed), (uint64_t)getpid(),
                          (uint64_t)(uintptr_t)&key, 0};
    key.low = hash_bytes(&secret, differs, sizeof differs);
    differs[3] = 1;
    key.high = hash_bytes(&secret, differs, sizeof differs);
    return key;
}

/* Nothing here may wait until the kernel has gathered randomness: early in the life of a machine that can
 * take minutes. */
struct hash_key weir_hash_key(void)
{
    struct hash_key key;
    int saved = errno;
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key)
        key = make_hash_key();
    errno = saved;
    return key;
}

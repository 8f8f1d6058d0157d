/* SPDX-License-Identifier: MIT */
/*
 * A packet loop: addresses come in batches, each with its own limit. weir_take_each fetches the memory of all
 * before it decides on the first, which for large tables is several times as fast as one by one.
 * weir_take_all asks several tables at once, and takes from all of them or from none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

enum { BATCH = 32 };

struct packet {
    uint32_t address, bytes;
};

/* What the network card would give. */
static void receive(struct packet *packets, uint32_t seed)
{
    for (uint32_t i = 0; i < BATCH; i++)
        packets[i] = (struct packet){.address = 0x0a000000 + (seed * 7 + i * i) % 12, .bytes = 64 + i * 40};
}

static size_t forward(struct weir_table *table, struct packet *packets)
{
    struct weir_ask asks[BATCH];
    for (int i = 0; i < BATCH; i++)
        asks[i] = (struct weir_ask){.table = table,
                                    .key = &packets[i].address,
                                    .len = sizeof packets[i].address,
                                    .n = packets[i].bytes};
    return weir_take_each(asks, BATCH); /* asks[i].verdict.allowed: forward packet i, else drop it */
}

int main(void)
{
    struct weir_error err;
    struct weir_table *addresses = weir_table_new("1MB/s burst=20kB", 1000000, &err);
    struct weir_table *networks = weir_table_new("10MB/s burst=50kB", 1000, &err);
    if (!addresses || !networks)
        return fprintf(stderr, "%s\n", err.text), 1;
    weir_clock_set(WEIR_SEC); /* time stands still, so that this prints the same every time */

    size_t passed = 0;
    for (uint32_t i = 0; i < 20; i++) {
        struct packet packets[BATCH];
        receive(packets, i);
        passed += forward(addresses, packets);
    }
    printf("%zu of %d packets pass\n", passed, 20 * BATCH);

    struct weir_ask both[] = {
        {.table = addresses, .key = "10.1.2.3", .len = 8, .n = 15000},
        {.table = networks, .key = "10.1.0.0/16", .len = 11, .n = 15000},
    };
    bool first = weir_take_all(both, 2), second = weir_take_all(both, 2);
    printf("address and network: %s, then %s by ask %zu\n", first ? "pass" : "refused",
           second ? "pass" : "refused", weir_ask_refusing(both, 2));
    weir_table_free(addresses);
    weir_table_free(networks);
}

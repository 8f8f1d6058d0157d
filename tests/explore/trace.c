/* SPDX-License-Identifier: MIT */
#include "explore/trace.h"

#include <inttypes.h>

enum { EVENTS = 8000 };

struct event {
    int thread;
    struct op op;
    struct effect effect;
};

static struct {
    struct event events[EVENTS];
    int count;
} trace;

void trace_clear(void)
{
    trace.count = 0;
}

bool trace_add(int thread, const struct op *op, const struct effect *effect)
{
    if (trace.count == EVENTS)
        return false;
    trace.events[trace.count++] = (struct event){thread, *op, *effect};
    return true;
}

static const char *order_name(memory_order order)
{
    switch (order) {
    case memory_order_relaxed:
        return "relaxed";
    case memory_order_consume:
    case memory_order_acquire:
        return "acquire";
    case memory_order_release:
        return "release";
    case memory_order_acq_rel:
        return "acq_rel";
    case memory_order_seq_cst:
        return "seq_cst";
    }
    return "?";
}

static const char *writer_name(int thread, char *room, size_t size)
{
    if (thread < 0)
        return "setup";
    (void)snprintf(room, size, "thread %d", thread);
    return room;
}

/* Small numbers as people write them, biased and packed words as bits. */
static const char *number(uint64_t value, char *room, size_t size)
{
    (void)snprintf(room, size, value < 1000000 ? "%" PRIu64 : "0x%" PRIx64, value);
    return room;
}

static const char *numbers(const uint64_t values[2], bool both, char *room, size_t size)
{
    char low[24], high[24];
    (void)number(values[0], low, sizeof low);
    (void)number(values[1], high, sizeof high);
    (void)snprintf(room, size, both ? "{%s, %s}" : "%s%.0s", low, high);
    return room;
}

/* "NEW for OLD of THREAD", of one word or of two. */
static void print_exchange(FILE *file, const struct event *event)
{
    const struct op *op = &event->op;
    const struct effect *effect = &event->effect;
    uint64_t wanted[] = {op->expected, op->second_expected}, old[] = {effect->old, effect->second};
    uint64_t value[] = {op->value, op->second_value};
    char who[24], left[50], right[50];
    if (!effect->done)
        fprintf(file, "wants %s, finds ", numbers(wanted, op->second, left, sizeof left));
    else
        fprintf(file, "%s for ", numbers(value, op->second, left, sizeof left));
    fprintf(file, "%s of %s", numbers(old, op->second, right, sizeof right),
            writer_name(effect->from, who, sizeof who));
}

static void print_event(FILE *file, const struct event *event)
{
    static const char *const names[] = {"load",  "store", "swap",   "add",  "cas",
                                        "fence", "lock",  "unlock", "pause"};
    const struct op *op = &event->op;
    char who[24], old[24], value[24], place[24] = "";
    if (op->location > 0) {
        const char *name = memory_location_name(op->location);
        (void)snprintf(place, sizeof place, name ? "%s" : "atom %.0s%d", name ? name : "", op->location);
    }
    fprintf(file, "#   thread %d  %-6s %-10s ", event->thread, names[op->kind], place);
    (void)number(event->effect.old, old, sizeof old);
    (void)number(op->value, value, sizeof value);
    switch (op->kind) {
    case OP_LOAD:
        fprintf(file, "reads %s of %s", old, writer_name(event->effect.from, who, sizeof who));
        break;
    case OP_STORE:
        fprintf(file, "%s%s", value, event->effect.inside ? ", behind which others already stand" : "");
        break;
    case OP_SWAP:
    case OP_ADD:
    case OP_CAS:
        print_exchange(file, event);
        break;
    default:
        break;
    }
    bool has_order = op->kind <= OP_FENCE;
    memory_order order = event->effect.done ? op->order : op->failure;
    fprintf(file, "%s%s\n", has_order && op->kind != OP_FENCE ? ", " : "",
            has_order ? order_name(order) : "");
}

void trace_print(FILE *file)
{
    for (int i = 0; i < trace.count; i++)
        print_event(file, &trace.events[i]);
}
